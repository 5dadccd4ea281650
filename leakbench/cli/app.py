"""The commands of interface page (1).

Each reads folders, calls the library, prints a table; nothing is computed here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leakbench.base.executors import HERE, executor
from leakbench.cli import app_gate as _gate
from leakbench.cli import completion
from leakbench.cli.arguments import (
    AsJson,
    Attacks,
    Cpus,
    Defenses,
    Device,
    Dtype,
    Gpus,
    Jobs,
    On,
    Quiet,
    Runs,
    Settings,
    TaskName,
    Verbose,
)
from leakbench.cli.command_line import CommandLine
from leakbench.cli.console import Console

app = CommandLine(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="What does a federated-learning method really leak, and what does it gain for it?",
)


def _version(value: bool) -> None:
    if value:
        import leakbench

        typer.echo(f"leakbench {leakbench.__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="The version.")
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    out: Annotated[Path, typer.Option("-o", "--out", help="Where runs and report go.")] = Path(
        "leakbench-demo"
    ),
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> int:
    """Try all of it on digits. Trains, attacks and reports in about three minutes."""
    from leakbench.cli import demo as _demo

    return _demo.run_demo(out, Console(quiet, verbose))


@app.command()
def new(
    folder: Annotated[
        Path, typer.Argument(metavar="NAME", help="A new folder, called as its task is to be.")
    ],
) -> int:
    """Write a project of your own that runs: a task, a loop, a gate, a test."""
    import shlex

    from leakbench.base import terminal
    from leakbench.own.new_project import first_command, write_project

    made = write_project(folder)
    for path in made:
        terminal.emit(str(path))
    terminal.say(
        f"leakbench: {folder} is a project that runs. Begin with {shlex.join(['cd', str(folder)])}"
        f" && {first_command(made[0])}; its README.md has the commands that follow."
    )
    return 0


@app.command()
def train(
    spec: Annotated[
        Path | None, typer.Argument(metavar="[SPEC.toml]", help="What to run, as a file.")
    ] = None,
    defense: Defenses = [],  # noqa: B006
    task: TaskName = None,
    data: Annotated[
        Path | None,
        typer.Option(help="In place of a task: a folder of pictures by class, a .npz or a .csv."),
    ] = None,
    clients: Annotated[
        int | None,
        typer.Option(min=2, help="With --data: among how many it is dealt; 10 unless given."),
    ] = None,
    label: Annotated[
        str, typer.Option(metavar="COLUMN", help="With --data: a table's column of classes.")
    ] = "",
    client: Annotated[
        str, typer.Option(metavar="COLUMN", help="With --data: a table's column of clients.")
    ] = "",
    setting: Settings = [],  # noqa: B006
    wrapper: Annotated[
        list[str],
        typer.Option(
            "-w",
            "--wrapper",
            metavar="WRAPPER",
            autocompletion=completion.completion_of("wrappers"),
            help="A wrapper on the wire, or several: a,b.",
        ),
    ] = [],  # noqa: B006
    rounds: Annotated[
        int | None,
        typer.Option(min=1, help="Communication rounds; the task's own number unless given."),
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="7, 0-2 or 0,4,7.")] = None,
    engine: Annotated[
        str | None, typer.Option(help="auto, loop, fused, parallel, stacked or threads.")
    ] = None,
    device: Device = "auto",
    dtype: Dtype = None,
    record: Annotated[str | None, typer.Option(metavar="POLICY", help="standard or all.")] = None,
    called: Annotated[
        str | None,
        typer.Option(
            "--as", metavar="NAME", help="The setting's name, whatever its parameters become."
        ),
    ] = None,
    jobs: Jobs = 1,
    on: On = HERE,
    cpus: Cpus = None,
    gpus: Gpus = None,
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="Only deterministic kernels.")
    ] = False,
    out: _gate.Out = Path("runs"),
    restart: Annotated[
        bool,
        typer.Option(
            "--restart", help="Train anew what is there; replaces its folder and its attacks."
        ),
    ] = False,
    mixed: Annotated[
        bool, typer.Option("--mixed", help="Go on with what other code began; flags its rows.")
    ] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> int:
    """Train methods and record what they share. Goes on where it was interrupted."""
    from leakbench.cli import commands, options

    if data is not None or clients is not None or label or client:
        task = commands.data_task(data, out, task, clients=clients, label=label, client=client)
    plan = options.read_spec(spec) if spec else options.TrainPlan()
    options.amend(
        plan,
        defense,
        wrapper,
        setting,
        {"task": task, "rounds": rounds, "engine": engine, "dtype": dtype, "record": record},
        seeds,
        called=called,
    )
    return commands.train(
        plan,
        out,
        device=device,
        executor=executor(on, jobs, cpus, gpus),
        deterministic=deterministic,
        restart=restart,
        mixed=mixed,
        console=Console(quiet, verbose),
        as_json=as_json,
    )


@app.command()
def attack(
    run: Runs,
    attack: Attacks = [],  # noqa: B006
    setting: Settings = [],  # noqa: B006
    force: Annotated[
        bool, typer.Option("--force", help="Run again what is there and up to date, too.")
    ] = False,
    isolated: Annotated[
        bool, typer.Option("--isolated", help="Guess in processes that have what is granted alone.")
    ] = False,
    budget: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="MINUTES",
            help="Begin no attack that would end later; the cheap ones come first.",
        ),
    ] = None,
    device: Device = "auto",
    jobs: Jobs = 1,
    on: On = HERE,
    cpus: Cpus = None,
    gpus: Gpus = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> int:
    """Replay attacks on recorded runs. Without -a, every attack that fits what a run shared."""
    from leakbench.cli import attack as _attack

    return _attack.attack(
        run,
        attack,
        setting,
        force=force,
        isolated=isolated,
        budget=budget,
        device=device,
        executor=executor(on, jobs, cpus, gpus),
        console=Console(quiet, verbose),
        as_json=as_json,
    )


@app.command()
def score(
    run: Runs,
    attack: Attacks = [],  # noqa: B006
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> int:
    """Score saved guesses again. Never reruns an attack."""
    from leakbench.cli import attack as _attack

    return _attack.score(run, attack, console=Console(quiet, verbose), as_json=as_json)


@app.command()
def report(
    run: Runs,
    out: Annotated[Path, typer.Option("-o", "--out", help="Where the report goes.")] = Path(
        "report"
    ),
    title: Annotated[str, typer.Option(help="The page's title.")] = "leakbench",
    formats: Annotated[
        str,
        typer.Option(
            "--format",
            help="A comma list of `leakbench list reports`; the CSV files are always written.",
        ),
    ] = "html,csv,json,figures",
    open_it: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    redact: Annotated[
        bool,
        typer.Option(
            "--redact",
            help=(
                "Without private images, reconstructions and maps; what an earlier report left in"
                " DIR is deleted."
            ),
        ),
    ] = False,
    against: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Another report's folder, or runs: say what moved since."),
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option(
            metavar="leakage.json",
            help="A baseline: show what `leakbench check` says; the exit code stays 0.",
        ),
    ] = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> int:
    """Turn runs into tables, figures and a page. They set utility beside leakage."""
    from leakbench.cli import commands

    return commands.report(
        run,
        out,
        title=title,
        formats=formats,
        open_it=open_it,
        redact=redact,
        against=against,
        baseline=check,
        console=Console(quiet, verbose),
        as_json=as_json,
    )


@app.command()
def export(
    run: Annotated[str, typer.Argument(metavar="RUN", help="One run folder.")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="The archive (tar).")],
    without_truth: Annotated[
        bool,
        typer.Option(
            "--without-truth",
            help=(
                "Only what crossed the wire: no private data, no control, labels, probes, guesses,"
                " seed."
            ),
        ),
    ] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> int:
    """Pack a run for somebody else to attack. It holds what crossed the wire and no answer."""
    from leakbench.base.errors import UsageError
    from leakbench.cli import commands

    if not without_truth:
        raise UsageError(
            "export is for handing a run to others: say --without-truth. To move a whole run, copy"
            " its folder."
        )
    return commands.export(run, out, console=Console(quiet), as_json=as_json)


@app.command()
def submit(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run that was exported.")],
    guesses: Annotated[
        Path, typer.Argument(metavar="GUESSES", help="The attack folder that was sent back.")
    ],
    force: Annotated[
        bool, typer.Option("--force", help="In place of results that were made here, too.")
    ] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> int:
    """Score guesses that somebody else made on an export of a run."""
    from leakbench.cli import submit

    return submit.submit(run, guesses, force=force, console=Console(quiet), as_json=as_json)


app.command()(_gate.check)
app.command()(_gate.ci)


@app.command()
def verify(
    run: Runs,
    replay: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="ROUNDS",
            help="Train so many of the first rounds again, and compare byte for byte.",
        ),
    ] = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> int:
    """Derive again what run folders claim.
    What holds, what differs (exit 2), and what cannot be checked.
    """
    from leakbench.cli import verify as _verify

    return _verify.run_verify(run, replay=replay, console=Console(quiet), as_json=as_json)


@app.command()
def reproduce(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A table or figure; --list names them.")
    ] = None,
    scale: Annotated[
        str,
        typer.Option(
            help="smoke: minutes on two cores; small: hours; full: the paper's setting, for a GPU."
        ),
    ] = "smoke",
    listed: Annotated[
        bool, typer.Option("--list", help="Name what there is, how long each takes, what was run.")
    ] = False,
    seeds: Annotated[
        str | None, typer.Option(help="7, 0-2 or 0,4,7, instead of the scale's own.")
    ] = None,
    spend: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="Further seeds of each row, at most, where a statement needs them.",
        ),
    ] = 0,
    only: Annotated[
        list[str],
        typer.Option(
            metavar="LABEL",
            help="A row to make, e.g. 'FedGN(0.1)', or a data set; may be repeated.",
        ),
    ] = [],  # noqa: B006
    jobs: Jobs = 1,
    on: On = HERE,
    cpus: Cpus = None,
    gpus: Gpus = None,
    device: Device = "auto",
    out: Annotated[
        Path, typer.Option("-o", "--out", help="Where tables, figures and excerpts go.")
    ] = Path("results"),
    runs: Annotated[Path, typer.Option(help="The folder of run folders.")] = Path("runs"),
    excerpts: Annotated[
        bool, typer.Option(help="Small copies of the runs for later attacks (not at scale smoke).")
    ] = True,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> int:
    """Make a paper's table or figure again. Its numbers beside ours, and what differs."""
    from leakbench.base.errors import UsageError
    from leakbench.cli import reproduce as _reproduce

    if listed:
        return _reproduce.list_recipes(out, as_json=as_json)
    if name is None:
        raise UsageError(
            "no table or figure was named; leakbench reproduce --list shows which there are."
        )
    return _reproduce.run_reproduce(
        name,
        scale,
        seeds=seeds,
        spend=spend,
        only=only,
        executor=executor(on, jobs, cpus, gpus),
        device=device,
        out=out,
        runs=runs,
        excerpts=excerpts,
        console=Console(quiet, verbose),
        as_json=as_json,
    )


@app.command()
def leaderboard(
    results: Annotated[
        Path,
        typer.Argument(metavar="[RESULTS]", help="Where `leakbench reproduce` left its tables."),
    ] = Path("results"),
    out: Annotated[
        Path, typer.Option("-o", "--out", metavar="DIR", help="Where the page and badges go.")
    ] = Path("leaderboard"),
    url: Annotated[
        str, typer.Option(help="Where they will be published, for the text of a badge.")
    ] = "",
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> int:
    """Methods by what they leak and gain, one page.
    Of each the strongest attack that the tables know; an address and a badge for each line.
    """
    from leakbench.cli.reproduce import run_leaderboard

    return run_leaderboard(results, out, url, console=Console(quiet), as_json=as_json)


@app.command("list")
def list_(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="[KIND]",
            autocompletion=completion.kinds,
            help="One of the lists: defenses, attacks, ...; all unless given.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """What there is, a line each."""
    from leakbench.cli import show as _show

    return _show.listing(kind, as_json=as_json)


@app.command()
def show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            autocompletion=completion.completion_of(*completion.KINDS),
            help="A name of `leakbench list`.",
        ),
    ],
    as_json: AsJson = False,
) -> int:
    """What one of them is and how to set it.
    What a method shares, an attack's threat model, parameters with ranges, paper.
    """
    from leakbench.cli import show as _show

    return _show.one(name, as_json=as_json)


@app.command()
def doctor(as_json: AsJson = False) -> int:
    """What is here and what is missing. Device, data, LPIPS weights, versions; and what to do."""
    from leakbench.cli import doctor as _doctor

    return _doctor.run_doctor(as_json=as_json)
