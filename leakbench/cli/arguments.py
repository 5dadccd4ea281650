"""Options and arguments that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

from leakbench.cli import completion

Settings = Annotated[
    list[str],
    typer.Option(
        "-s",
        "--set",
        metavar="K=V",
        help="A parameter; a comma list sweeps; dotted keys name whose it is.",
    ),
]
Defenses = Annotated[
    list[str],
    typer.Option(
        "-d",
        "--defense",
        metavar="DEFENSE",
        autocompletion=completion.completion_of("defenses"),
        help="A federated method, or several: a,b.",
    ),
]
TaskName = Annotated[
    str | None,
    typer.Option(
        "-t",
        "--task",
        autocompletion=completion.completion_of("tasks"),
        help="A task, or a FILE.py with one of your own; digits unless given.",
    ),
]
Dtype = Annotated[str | None, typer.Option(help="float32, float64 or bfloat16.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Jobs = Annotated[int, typer.Option(min=1, help="Runs or attacks at a time.")]
On = Annotated[
    str,
    typer.Option(
        "--on",
        metavar="WHERE",
        help="here; ray:ADDRESS or ray:auto: a cluster; ray: one begun here.",
    ),
]
Cpus = Annotated[
    int | None,
    typer.Option(min=1, help="With --on ray: cores, and threads, of each; 1 unless given."),
]
Gpus = Annotated[float | None, typer.Option(min=0, help="With --on ray: GPUs of each, as in 0.25.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="No progress.")]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="More detail.")]
AsJson = Annotated[bool, typer.Option("--json", help="The result as JSON.")]
Runs = Annotated[
    list[str],
    typer.Argument(metavar="RUN...", help="Run folders, folders that hold some, or globs."),
]
Attacks = Annotated[
    list[str],
    typer.Option(
        "-a",
        "--attack",
        metavar="ATTACK",
        autocompletion=completion.completion_of("attacks"),
        help="An attack, or several: a,b; or standard, the ensemble to cite a verdict with.",
    ),
]
