"""train, attack, score and report: jobs in, a table on stdout, an exit code out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from leakbench.base.errors import OUR_FAULT, PartFailed, UnknownName, UsageError
from leakbench.base.executors import Executor
from leakbench.base.jobs import Job, Outcome
from leakbench.cli import summary
from leakbench.cli.console import Console, emit, emit_json, show_table
from leakbench.cli.options import TrainPlan

SOME_FAILED = PartFailed.exit_code
TRAINED = ("run", "engine", "metric", "value", "low", "high", "chance", "flags")


def data_task(
    data: Path | None, out: Path, task: str | None, *, clients: int | None, label: str, client: str
) -> str:
    """The file of a task of ``data``, which is written beside the runs.

    Raises:
        UsageError: there are no such data, or a task is named, too.
    """
    from leakbench.base import terminal
    from leakbench.own.data_task import write_data_task

    if data is None:
        raise UsageError("--clients, --label and --client go with --data: say which data.")
    if task is not None:
        raise UsageError("--data and -t name two tasks: give one of them.")
    file = write_data_task(data, out, clients=clients, label=label, client=client)
    terminal.say(
        f"{file} says how the data are read, and which network is trained; attack its runs with"
        f" --plugin {file}"
    )
    return str(file)


def train(
    plan: TrainPlan,
    out: Path,
    *,
    device: str,
    executor: Executor,
    deterministic: bool,
    restart: bool,
    mixed: bool,
    console: Console,
    as_json: bool,
) -> int:
    """Train every run of the plan; the table says where each lies and what its utility is."""
    from leakbench.base import provenance
    from leakbench.base.reason_words import reason_text
    from leakbench.record import folders
    from leakbench.results import utility
    from leakbench.results.dead import why_diverged
    from leakbench.scoring import flags
    from leakbench.work.wanted_run import wanted_runs

    device = executor.device(device)
    provenance.known_device(device)
    if restart and mixed:
        raise UsageError("--restart and --mixed exclude each other: begin anew, or go on.")
    wanted = wanted_runs(plan.specs())
    import torch  # when every name is known

    from leakbench.record import budget
    from leakbench.work import pipeline

    provenance.device(executor.planned_on(device))
    if deterministic:
        torch.use_deterministic_algorithms(True)
    console.detail(f"{len(wanted)} runs; a record may take {budget.LIMIT // 1024**3} GiB")
    one = partial(pipeline.train, restart=restart, mixed=mixed)
    todo = [w.job(w.spec.folder(), one, out, device) for w in wanted]
    done = do_all(todo, executor, console)
    rows = []
    for outcome in done:
        if outcome.error:
            continue
        run = folders.load(outcome.value.path)
        if outcome.value.skipped:
            console.say(f"{run.path} is complete; it was not trained again.")
        found = utility.utility_of_run(run)
        last = found.evaluations[-1].estimate
        about = {"run": str(run.path), "engine": run.meta["engine"], "metric": found.meaning.name}
        numbers = {k: getattr(last, k) for k in ("value", "low", "high")}
        numbers |= {"chance": run.meta["utility"]["chance"]}
        rows.append({**about, **numbers, "flags": flags.join(found.flags)})
        why = f"is dead: {reason_text(found.dead)}" if found.dead else ""
        if (diverged := why_diverged(run)) and diverged != found.dead:
            why = f"{why}; it diverged: {reason_text(diverged)}"
        if why:
            console.warn(
                f"leakbench: {run.id} {why}. What it leaks says nothing of the method; train it"
                f" {'with a lower lr' if diverged else 'longer, or with another lr'}."
            )
        elif found.rise is not None and flags.UNDERTRAINED in found.flags:
            console.warn(
                f"leakbench: {run.id} is undertrained: {found.rise:.0%} of all that it gained came"
                " in the last quarter of its rounds. Its numbers are those of a model that still"
                " learns fast; train it longer."
            )
        uplink = [s for s in run.meta["sent"] if s["sender"] == "client"]
        uncovered = [s["kind"] for s in uplink if not s["covered"]]
        if run.spec["wrappers"] and uncovered:
            console.say(f"{run.id}: no wrapper covers the uplink of {', '.join(uncovered)}.")
        for phase, why in run.meta["fallbacks"].items():
            console.detail(f"{run.id}: {phase} was not vectorised: {why}")
    show_rows(rows, TRAINED, as_json)
    return jobs_exit_code(done, console)


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
    from leakbench.base import registry
    from leakbench.base.reason_words import reason_text
    from leakbench.record import folders

    wanted, there = [f for f in formats.split(",") if f], registry.names("reports")
    for unknown in (f for f in wanted if f not in there):
        raise UnknownName("report", unknown, there)
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
    untold = [m.reason for m in tables.missing if m.reason.code == "unknown_fit"]
    for text in dict.fromkeys(reason_text(why) for why in untold):
        console.warn(f"leakbench: {text}")
    made = out / "index.html" if "html" in wanted else out
    if as_json:
        emit_json({"report": str(made), "rows": tables.rows("tradeoff")})
    else:
        summary.tradeoff(tables)
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


def jobs_exit_code(done: Sequence[Outcome], console: Console) -> int:
    """0, 2, 4 or 70.

    4 where some failed; 2 where an artifact is damaged, or nothing was done because what the user
    gave is wrong; 70 where one failed by a fault of ours.
    """
    failed = [o for o in done if o.error]
    said = [o.error if o.damaged or o.name in o.error else f"{o.name}: {o.error}" for o in failed]
    for sentence in dict.fromkeys(said):  # several attacks may stumble over one damaged file
        console.warn(f"leakbench: {sentence}")
    if any(o.fault for o in failed):
        return OUR_FAULT
    nothing_done = bool(failed) and len(failed) == len(done)
    if any(o.damaged for o in failed) or (nothing_done and all(o.wrong for o in failed)):
        return UsageError.exit_code
    return SOME_FAILED if failed else 0


def do_all(
    todo: Sequence[Job], executor: Executor, console: Console, budget: float = math.inf
) -> list[Outcome]:
    """What became of the jobs that were begun: those that end within ``budget`` seconds."""
    with console.progress(len(todo), {job.name: job.seconds for job in todo}) as tell:
        return executor.run(todo, tell=tell, budget=budget)


def show_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], as_json: bool) -> None:
    """Rows on stdout, as a table or as JSON."""
    if as_json:
        emit_json(list(rows))
    elif rows:
        show_table(rows, {c: c for c in columns})
