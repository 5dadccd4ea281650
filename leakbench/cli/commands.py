"""train, attack, score and report: jobs in, a table on stdout, an exit code out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from leakbench.base.errors import PartFailed, UsageError
from leakbench.base.jobs import Job, Outcome
from leakbench.base.jobs import run as run_jobs
from leakbench.cli import keys, summary
from leakbench.cli.console import Console, emit, emit_json, table
from leakbench.cli.options import TrainPlan

SOME_FAILED = PartFailed.exit_code
TRAINED = ("run", "engine", "metric", "value", "low", "high", "chance")
ATTACKED = (
    "run",
    "attack",
    "metric",
    "stage",
    "probe",
    "value",
    "low",
    "high",
    "n",
    "floor",
    "control",
    "flags",
)


def train(
    plan: TrainPlan,
    out: Path,
    *,
    device: str,
    jobs: int,
    deterministic: bool,
    restart: bool,
    mixed: bool,
    console: Console,
    as_json: bool,
) -> int:
    """Train every run of the plan; the table says where each lies and what its utility is."""
    import torch

    from leakbench import pipeline
    from leakbench.attacking import choices
    from leakbench.base import provenance
    from leakbench.record import budget, columns, folders, naming
    from leakbench.record.runspec import make_spec, parts

    provenance.device(device)
    if restart and mixed:
        raise UsageError("--restart and --mixed exclude each other: begin anew, or go on.")
    if deterministic:
        torch.use_deterministic_algorithms(True)
    plan.attacks = [
        (name, choices.build(name, params).attack.parameters()) for name, params in plan.attacks
    ]
    specs = naming.distinct([make_spec(**given) for given in plan.specs()])
    for spec in specs:
        made = parts(spec)
        # Its name is checked here: what is misspelt is said before anything is trained.
        made.task.module(made.task.facts(made.method))
    console.detail(f"{len(specs)} runs; a record may take {budget.LIMIT // 1024**3} GiB")
    one = partial(pipeline.train, restart=restart, mixed=mixed)
    todo = [Job(s.folder(), one, (s, str(out), device)) for s in specs]
    done = _do(todo, jobs, console)
    rows = []
    for outcome in done:
        if outcome.error:
            continue
        run = folders.load(outcome.value.path)
        if outcome.value.skipped:
            console.say(f"{run.path} is complete; it was not trained again.")
        last = folders.read_table(run.path / "utility.csv", columns.RUN_UTILITY)[-1]
        numbers = {k: last[k] for k in ("metric", "value", "low", "high")}
        about = {"run": str(run.path), "engine": run.meta["engine"]}
        rows.append({**about, **numbers, "chance": run.meta["utility"]["chance"]})
        uplink = [s for s in run.meta["sent"] if s["sender"] == "client"]
        uncovered = [s["kind"] for s in uplink if not s["covered"]]
        if run.spec["wrappers"] and uncovered:
            console.say(f"{run.id}: no wrapper covers the uplink of {', '.join(uncovered)}.")
        for phase, why in run.meta["fallbacks"].items():
            console.detail(f"{run.id}: {phase} was not vectorised: {why}")
    _result(rows, TRAINED, as_json)
    return exit_code(done, console)


def attack(
    names: Sequence[str],
    attacks: Sequence[str],
    given: Sequence[str],
    *,
    force: bool,
    isolated: bool,
    device: str,
    jobs: int,
    console: Console,
    as_json: bool,
) -> int:
    """Attack every run; the table has every number at an audited stage."""
    from leakbench import api, pipeline
    from leakbench.attacking import choices
    from leakbench.base import provenance
    from leakbench.record import folders
    from leakbench.record.recording import Recording
    from leakbench.scoring.score import UNSCORED

    where = provenance.device(device)
    found = folders.find(names)
    chosen = _choices(attacks, given)
    todo: list[Job] = []
    for run in found:
        if not run.done:
            console.warn(
                f"{run.path} is not complete (status: {run.status}); it is not attacked. Train it"
                " first."
            )
            continue
        recording = Recording(run, where)
        for choice in chosen or choices.planned(recording):
            name, obstacle = f"{choice.title} on {run.id}", choice.obstacle(recording)
            seconds = 0.0 if obstacle else choice.seconds(recording)
            if not chosen and seconds > pipeline.LONGEST:
                console.warn(
                    f"{name} would take about {seconds / 60:.0f} minutes; name it with -a to run"
                    " it."
                )
                continue
            say = console.detail if chosen else console.say
            say(f"{name}: about {math.ceil(seconds)} s")
            if not (force or obstacle):
                _say_why(recording, choice, console)
            given_to = (str(run.path), choice.name, choice.attack.parameters())
            asked = (*given_to, where, force, isolated)
            todo.append(Job(name, pipeline.attack, asked))
    if not chosen:
        console.say(f"{len(todo)} attacks on {len(found)} runs")
    done = _do(todo, jobs, console)
    made = [o for o in done if not o.error]
    scored = [o for o in made if api.Results(Path(o.value)).scored]
    for path in dict.fromkeys(Path(o.value).parent.parent for o in made if o not in scored):
        console.warn(f"{path} {UNSCORED}")
    _results(scored, as_json)
    return max(exit_code(done, console), SOME_FAILED if any(not r.done for r in found) else 0)


def score(names: Sequence[str], attacks: Sequence[str], *, console: Console, as_json: bool) -> int:
    """Score what is saved again."""
    from leakbench import pipeline
    from leakbench.base import registry
    from leakbench.base.errors import UnknownName
    from leakbench.record import folders
    from leakbench.record.placing import GUESS

    known = registry.names("attacks")
    for name in attacks:
        if name not in known:
            raise UnknownName("attack", name, known)
    todo = []
    for run in folders.find(names):
        for folder in run.attacks:
            has_guesses = GUESS in folder.meta.get("files", {})
            if (not attacks or folder.name in attacks) and has_guesses:
                saved = (str(run.path), folder.name, folder.meta["params"])
                todo.append(Job(f"{folder.name} on {run.id}", pipeline.score, saved))
    if not todo:
        raise UsageError("no saved guesses were found there. Run leakbench attack first.")
    done = _do(todo, 1, console)
    _results([o for o in done if not o.error], as_json)
    return exit_code(done, console)


def report(
    names: Sequence[str],
    out: Path,
    *,
    title: str,
    formats: str,
    open_it: bool,
    redact: bool,
    against: Path | None,
    baseline: Path | None,
    console: Console,
    as_json: bool,
) -> int:
    """Write the report.

    Stdout gets the trade-off at the last stage and where the page is, or the folder where none was
    asked for.
    """
    from leakbench import api
    from leakbench.record import folders

    wanted = [f for f in formats.split(",") if f]
    if open_it and "html" not in wanted:
        raise UsageError(f"--open needs the page, but --format is {formats}; add html to it.")
    with console.busy("reading runs and writing the report"):
        tables = api.tables(folders.find(names))
        result = None if baseline is None else api.check(tables, baseline=baseline)
        api.report(
            tables,
            out,
            title=title,
            formats=wanted,
            check=result,
            baseline=baseline,
            redact=redact,
            against=against,
        )
    made = out / "index.html" if "html" in wanted else out
    if as_json:
        emit_json({"report": str(made), "rows": tables.rows("tradeoff")})
    else:
        summary.tradeoff(tables.settings)
        emit("")
        emit(str(made))
    if open_it:
        import webbrowser

        webbrowser.open(made.resolve().as_uri())
    return 0


def export(name: str, out: Path, *, console: Console, as_json: bool) -> int:
    """Write the archive; stdout gets where it is and how large."""
    from leakbench import api
    from leakbench.record import folders

    found = folders.find([name])
    if len(found) != 1:
        raise UsageError(
            f"{name} holds {len(found)} runs, and an archive is of one. Name one run folder."
        )
    for text in api.export(found[0], out):
        console.warn(f"{found[0].path}: {text}")
    size = out.stat().st_size
    emit_json({"archive": str(out), "bytes": size}) if as_json else emit(f"{out}  {size} bytes")
    return 0


def exit_code(done: Sequence[Outcome], console: Console) -> int:
    """0, 2 or 4.

    4 where some failed; 2 where an artifact is damaged, or nothing was done because what the user
    gave is wrong.
    """
    failed = [o for o in done if o.error]
    said = [o.error if o.damaged or o.name in o.error else f"{o.name}: {o.error}" for o in failed]
    for sentence in dict.fromkeys(said):  # several attacks may stumble over one damaged file
        console.warn(f"leakbench: {sentence}")
    nothing_done = bool(failed) and len(failed) == len(done)
    if any(o.damaged for o in failed) or (nothing_done and all(o.wrong for o in failed)):
        return UsageError.exit_code
    return SOME_FAILED if failed else 0


def _say_why(recording: Any, choice: Any, console: Console) -> None:
    """Why an attack whose results are there is made again."""
    from leakbench.attacking.standing import standing
    from leakbench.base.errors import BrokenFile

    try:
        why = standing(recording, choice.name, choice.attack).why
    except BrokenFile:  # its job says so
        return
    if why:
        console.say(f"{choice.title} on {recording.run.id}: {why}")


def _choices(attacks: Sequence[str], given: Sequence[str]) -> list[Any]:
    """The named attacks with their settings, sweeps expanded."""
    from leakbench.attacking import choices
    from leakbench.base.errors import UnknownName, suggestion
    from leakbench.base.registry import names

    known = names("attacks")
    for name in attacks:
        if name not in known:
            raise UnknownName("attack", name, known)
    routed = keys.route(keys.settings(given), list(attacks), "attack")
    for owner, values in routed.items():
        if owner not in attacks:
            raise UsageError(
                f"-s {owner}.{next(iter(values))}: attack {owner!r} was not named with"
                f" -a.{suggestion(owner, attacks)}"
            )
    return [
        choices.build(name, p)
        for name in dict.fromkeys(attacks)
        for p in keys.product(routed.get(name, {}))
    ]


def _do(todo: Sequence[Job], workers: int, console: Console) -> list[Outcome]:
    with console.progress(len(todo)) as tell:
        return run_jobs(todo, workers=workers, tell=tell)


def _results(done: Sequence[Outcome], as_json: bool) -> None:
    from leakbench.api import Results

    rows = [r for o in done for r in Results(Path(o.value)).rows]
    _result(rows if as_json else [r for r in rows if r["stage"] != "curve"], ATTACKED, as_json)


def _result(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], as_json: bool) -> None:
    if as_json:
        emit_json(list(rows))
    elif rows:
        table(rows, {c: c for c in columns})
