"""The commands that gate a build: check, and ci, which makes what it checks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leakbench.base.executors import HERE, executor
from leakbench.cli.arguments import AsJson, Cpus, Device, Gpus, Jobs, On, Quiet, Runs, Verbose
from leakbench.cli.console import Console

Update = Annotated[bool, typer.Option("--update", help="Write the new baseline.")]
Accept = Annotated[
    list[str],
    typer.Option(
        metavar="ROW", help="With --update: a row that may be worse; * stands for anything."
    ),
]
Gate = Annotated[
    list[str],
    typer.Option(
        metavar="ROW", help="A row to gate beside the default ones; * stands for anything."
    ),
]
Limit = Annotated[
    list[str],
    typer.Option(metavar="LIMIT", help="What may leak at most, as in 'METRIC<=0.2'; repeatable."),
]
Looks = Annotated[
    str | None,
    typer.Option(
        metavar="5,8,12", help="With --update: after how many seeds rows may be looked at."
    ),
]
Seeds = Annotated[
    str | None, typer.Option(help="7, 0-2 or 0,4,7, instead of the SPEC's; a baseline takes more.")
]
AllowNew = Annotated[
    bool, typer.Option("--allow-new", help="A row that the baseline lacks does not count.")
]
Undecided = Annotated[
    str | None, typer.Option(metavar="fail|warn", help="warn: exit 0 in place of 3.")
]
Spend = Annotated[
    int | None,
    typer.Option(
        min=0, metavar="N", help="Train up to N further seeds of a setting that cannot be told."
    ),
]
Out = Annotated[Path, typer.Option("-o", "--out", help="The folder of run folders.")]
Junit = Annotated[Path | None, typer.Option(metavar="FILE", help="JUnit XML, too.")]
Summary = Annotated[Path | None, typer.Option(metavar="FILE", help="A summary in Markdown, too.")]
Sarif = Annotated[Path | None, typer.Option(metavar="FILE", help="SARIF, too.")]


def check(
    run: Runs,
    baseline: Annotated[Path, typer.Option(help="The committed baseline.")] = Path("leakage.json"),
    update: Update = False,
    accept: Accept = [],  # noqa: B006
    gate: Gate = [],  # noqa: B006
    limit: Limit = [],  # noqa: B006
    looks: Looks = None,
    allow_new: AllowNew = False,
    undecided: Undecided = None,
    spend: Spend = None,
    jobs: Jobs = 1,
    on: On = HERE,
    cpus: Cpus = None,
    gpus: Gpus = None,
    junit: Junit = None,
    summary: Summary = None,
    sarif: Sarif = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> int:
    """Compare with a committed baseline.
    Exit 0 fine, 1 leaks more, utility lost or a limit breached, 3 cannot tell.
    """
    from leakbench.cli import check as _check
    from leakbench.cli.check_output import CheckOutputs

    asked = _check.Asked(
        baseline=baseline,
        update=update,
        accept=tuple(accept),
        named=tuple(gate),
        limits=tuple(limit),
        looks=_whole(looks),
        allow_new=allow_new,
        undecided=undecided,
        spend=spend,
        outputs=CheckOutputs(as_json, quiet, verbose, junit, summary, sarif),
    )
    there = executor(on, jobs, cpus, gpus)
    return _check.run_check(run, asked, executor=there, console=Console(quiet, verbose))


def ci(
    spec: Annotated[Path, typer.Argument(metavar="SPEC.toml", help="What is made and checked.")],
    baseline: Annotated[
        Path | None,
        typer.Option(help="The committed baseline; leakage.json beside the SPEC unless given."),
    ] = None,
    update: Update = False,
    accept: Accept = [],  # noqa: B006
    gate: Gate = [],  # noqa: B006
    limit: Limit = [],  # noqa: B006
    looks: Looks = None,
    allow_new: AllowNew = False,
    undecided: Undecided = None,
    spend: Spend = None,
    seeds: Seeds = None,
    device: Device = "auto",
    jobs: Jobs = 1,
    on: On = HERE,
    cpus: Cpus = None,
    gpus: Gpus = None,
    out: Out = Path("runs"),
    junit: Junit = None,
    summary: Summary = None,
    sarif: Sarif = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> int:
    """Train what is missing, attack, check: one command for a build.
    Exit codes as check has them, and 4 where a run or an attack failed.
    """
    from leakbench.cli import check as _check
    from leakbench.cli import ci as _ci
    from leakbench.cli.check_output import CheckOutputs

    asked = _check.Asked(
        baseline=baseline,
        update=update,
        accept=tuple(accept),
        named=tuple(gate),
        limits=tuple(limit),
        looks=_whole(looks),
        allow_new=allow_new,
        undecided=undecided,
        spend=spend,
        outputs=CheckOutputs(as_json, quiet, verbose, junit, summary, sarif),
    )
    console = Console(quiet, verbose)
    there = executor(on, jobs, cpus, gpus)
    return _ci.run_ci(
        spec, asked, seeds=seeds, device=device, executor=there, out=out, console=console
    )


def _whole(text: str | None) -> tuple[int, ...]:
    """The numbers of a list.

    Raises:
        UsageError: something else is in it.
    """
    from leakbench.base.errors import UsageError

    try:
        return tuple(int(part) for part in text.split(",")) if text else ()
    except ValueError:
        raise UsageError(
            f"--looks {text!r}: expected numbers of seeds, for example 5,8,12,20."
        ) from None
