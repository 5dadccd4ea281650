"""The commands as functions; the command line is a thin layer over them.

run = leakbench.train("fedgn", task="digit-pairs", params={"sigma": 0.1}, rounds=500)
frame = leakbench.attack(run, "prototype_leakage").to_frame()
leakbench.report([run], "report")
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from leakbench.base.arguments import arguments_of
from leakbench.base.errors import UsageError
from leakbench.base.jobs import Progress
from leakbench.record import folders as _runs
from leakbench.record.folders import Run

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from leakbench.base.reason import Reason
    from leakbench.gate.outcome import CheckResult, LimitOutcome
    from leakbench.gate.row import GateRow
    from leakbench.gate.terms import Terms
    from leakbench.own import ClientData, OwnTask
    from leakbench.own.network import Model
    from leakbench.own.observed import Observed
    from leakbench.results.tables import Tables
    from leakbench.verifying import Finding

OneRun: TypeAlias = "Run | Observed | str | Path"
Runs: TypeAlias = "Iterable[OneRun] | OneRun"
DEFAULT_BASELINE = "leakage.json"


@dataclass(frozen=True)
class Results:
    """What an attack on a run gave."""

    path: Path

    @property
    def scored(self) -> bool:
        """Are there numbers?

        Of a run that was exported without its truth there are guesses alone.
        """
        from leakbench.base.files import read_sealed

        return bool(read_sealed(self.path / "attack.json")["status"] != "guessed")

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The lines of results.csv, typed.

        Raises:
            UsageError: the guesses were not scored, for the run was exported without its truth.
        """
        from leakbench.base.files import read_sealed
        from leakbench.record import columns
        from leakbench.scoring import flags

        if not self.scored:
            from leakbench.scoring.score import UNSCORED

            raise UsageError(f"{self.path.parent.parent} {UNSCORED}")
        folder = _runs.AttackFolder(self.path, read_sealed(self.path / "attack.json"))
        run = load(self.path.parent.parent).meta
        rows = _runs.read_table(self.path / "results.csv", columns.RESULTS)
        return [{**row, "flags": flags.today(row["flags"], folder, run)} for row in rows]

    def to_frame(self) -> pd.DataFrame:
        """The lines of results.csv as a pandas frame."""
        from leakbench.record import columns
        from leakbench.results import tables

        return tables.to_frame(self.rows, columns.RESULTS)

    def _repr_html_(self) -> str:
        """What a notebook shows: the lines of results.csv."""
        return str(self.to_frame()._repr_html_())  # type: ignore[operator]


@arguments_of("leakbench.plugin")
def plugin(path: str | Path) -> None:
    """Find the methods of a Python file, or of a folder of them, by name from here on.

    A file defines one public class: a ``Defense``, ``Attack``, ``Wrapper``, ``Task``, ``Report`` or
    ``UtilityMetric``, named after the file. It is what `--plugin` does.

    Raises:
        UsageError: there is no such file or folder, or the file holds no method that can be
            imported; of a folder such a file is named on stderr and left out.
    """
    from leakbench.base import registry

    registry.plug(path)


@arguments_of("leakbench.task")
def task(
    name: str,
    data: ClientData,
    *,
    model: Model,
    cut: str | None = None,
    dim: int = 64,
    utility: str = "accuracy",
    rounds: int = 20,
    train: dict[str, Any] | None = None,
) -> type[OwnTask]:
    """A task of one's own ``data`` and network, found by ``name`` in this process from here on.

    Args:
        name: small letters, digits and hyphens.
        data: of ``clients``.
        model: a function of the number of outputs that makes a network, or an ``nn.Module``, whose
            numbers every run then begins with.
        cut: the name of the layer after which methods cut the network that share features or
            compare representations, as "layer4"; if None the last that a layer with parameters
            follows.
        dim: of the embedding, for methods whose network ends in one.
        utility: what a run gains, of `leakbench list utilities`.
        rounds: of a run, unless it says otherwise.
        train: values of every method's local training, as lr, batch, steps or epochs.

    Raises:
        UsageError: something is wrong with it, or the name is taken.
    """
    from leakbench.own import make_task

    if getattr(data, "untold", False):
        raise UsageError(
            "nobody knows what these clients hold, so nothing can be trained on it: expected data"
            " of leakbench.clients(x, y, ...); leakbench.observe records a loop without."
        )
    how: dict[str, Any] = {"cut": cut, "dim": dim, "utility": utility, "rounds": rounds}
    return make_task(name, data, model=model, **how, train=train)


@arguments_of("leakbench.load")
def load(path: str | Path) -> Run:
    """The run in a folder.

    Raises:
        BrokenFile: run.json is missing, damaged, or of a newer schema.
    """
    return _runs.load(path)


@arguments_of("leakbench.train")
def train(
    defense: str,
    *,
    task: str | type[OwnTask] = "digits",
    params: Mapping[str, Any] | None = None,
    task_params: Mapping[str, Any] | None = None,
    wrappers: Sequence[tuple[str, Mapping[str, Any]]] = (),
    rounds: int | None = None,
    seed: int = 0,
    engine: str = "auto",
    dtype: str = "float32",
    record: str = "standard",
    device: str = "auto",
    out: str | Path = "runs",
    restart: bool = False,
    mixed: bool = False,
    called: str = "",
    progress: Progress = lambda *_: None,
) -> Run:
    """Train ``defense`` on ``task`` and record what it shares.

    What is complete below ``out`` is not trained again.

    Args:
        defense: a name of `leakbench list defenses`.
        task: a name of `leakbench list tasks`, or what ``task`` gave.
        params: of the defense; they win over the task's table for it, and that over the method's
            own values.
        task_params: of the task.
        wrappers: (name, parameters), applied in order.
        rounds: communication rounds; the task's own number if None.
        seed: of everything random in the run.
        engine: how a round's clients train: auto, loop (one by one, the plain reference), fused
            (one step of all at once), parallel (many steps of many at once), or one of its ways,
            stacked or threads.
        dtype: float32, float64, or bfloat16: the products of local training in it, weights,
            messages and sums in float32.
        record: standard or all.
        device: auto, cpu or cuda.
        out: the folder that holds run folders.
        restart: train it anew, whatever is there; its folder and its attacks are replaced.
        mixed: go on with what other code began, too; its rows are flagged ``mixed_code``.
        called: the setting's name, which outlives a change of its parameters; one that is there
            already is renamed, and "" leaves its name as it is.
        progress: called with (rounds done, rounds, what).

    Raises:
        UsageError: a name or value is wrong, the place cannot be written, or other code or other
            data began this run.
        MethodError: the method broke its contract or diverged.
    """
    from leakbench.record.runspec import make_spec
    from leakbench.work import pipeline

    spec = make_spec(
        defense,
        task=task if isinstance(task, str) else task.given_name,
        params=params,
        task_params=task_params,
        wrappers=wrappers,
        rounds=rounds,
        seed=seed,
        engine=engine,
        dtype=dtype,
        record=record,
        called=called,
    )
    how: dict[str, Any] = {"restart": restart, "mixed": mixed, "progress": progress}
    trained = pipeline.train(spec, str(out), device, **how)
    return load(trained.path)


@arguments_of("leakbench.attack")
def attack(
    run: OneRun,
    name: str,
    *,
    device: str = "auto",
    force: bool = False,
    isolated: bool = False,
    progress: Progress = lambda *_: None,
    **params: Any,
) -> Results:
    """Run the attack ``name`` on a run and score it; what is there already is not run again.

    What other code of the attack made is, and with ``force`` whatever is there. ``isolated``: each
    guess is made in a process of its own, which has what the threat model grants and no more.

    Raises:
        UsageError: the attack does not exist, does not fit the run, or a parameter is wrong.
        ThreatViolation: it asked for what its threat model does not declare.
    """
    from leakbench.work import pipeline

    folder = pipeline.attack(
        str(_path(run)), name, params, device, force, isolated, progress=progress
    )
    return Results(Path(folder))


@arguments_of("leakbench.attack_all")
def attack_all(
    run: OneRun,
    *,
    minutes: float = 10.0,
    device: str = "auto",
    progress: Progress = lambda *_: None,
) -> list[Results]:
    """Every attack that fits ``run``, the cheap ones first, as many as fit into ``minutes``.

    Each is predicted before it begins; what does not fit any more, and what fails, is said on
    stderr and left out. What is there already is not run again.

    Raises:
        UsageError: the run is not complete, or minutes is no time.
    """
    from leakbench.work import attack_plan

    if isinstance(run, list | tuple):
        raise UsageError(f"run is a list of {len(run)}: expected one run; call it for each.")
    if not isinstance(minutes, int | float):
        raise UsageError(f"minutes = {minutes!r}: expected a number, for example minutes=10.")
    made = attack_plan.made_within(_path(run), 60 * minutes, device, progress)
    return [Results(Path(folder)) for folder in made]


@arguments_of("leakbench.submit")
def submit(run: OneRun, guesses: str | Path, *, force: bool = False) -> Results:
    """Score ``guesses``, an attack folder that somebody else made on an export of ``run``.

    Its rows carry the flag `submitted`. The floor is made here, and the control where the attack
    that is installed here is the one that they used; else they also carry `no_control`, and may
    accuse but never acquit. ``force``: in place of results that were made here.

    Raises:
        UsageError: they were made on something else, or are not as ``leakbench attack`` writes
            them, or the attack is not installed.
        BrokenFile: a file is damaged.
    """
    from leakbench.work import pipeline

    return Results(Path(pipeline.submit(str(_path(run)), str(guesses), force=force)))


@arguments_of("leakbench.score")
def score(run: OneRun, name: str, **params: Any) -> Results:
    """Score the saved guesses of ``name`` on a run again; the attack is not rerun.

    Raises:
        BrokenFile: there are no guesses, or they are damaged.
    """
    from leakbench.work import pipeline

    folder = pipeline.score_guesses(str(_path(run)), name, params, progress=lambda *_: None)
    return Results(Path(folder))


@arguments_of("leakbench.tables")
def tables(runs: Runs) -> Tables:
    """Every number of ``runs``, read once.

    `report`, `plot`, `check` and `update` take it in their place, and its ``to_frame("tradeoff")``
    is a pandas frame.

    Args:
        runs: runs, their folders, folders that hold some at any depth, or globs; one or several.

    Raises:
        UsageError: there is no run, or two are the same seed of one setting.
        BrokenFile: an artifact is damaged.
    """
    from leakbench.reporting import write

    return write.read_tables(_found(runs))


@arguments_of("leakbench.plot")
def plot(runs: Runs | Tables, question: str = "") -> Figure:
    """Utility over leakage of every setting, as matplotlib draws it: the report's own figure.

    Args:
        runs: as for ``tables``, or what it read.
        question: which, by the end of its name, as in "images" or "digits-prototypes"; the
            report's headline where none is named.

    Raises:
        UsageError: nothing was attacked, or there is no such question.
        BrokenFile: an artifact is damaged.
    """
    from leakbench.base import registry
    from leakbench.base.errors import suggestion
    from leakbench.reporting import write
    from leakbench.results.tables import Tables

    read = runs if isinstance(runs, Tables) else tables(runs)
    figures = registry.load_plugin("reports", "figures").build({}, "report figures")
    drawn: dict[str, Figure] = figures.tradeoffs(write.report(read, "leakbench", redact=True))
    if not drawn:
        raise UsageError("there is no number to draw: attack these runs first.")
    for name, figure in drawn.items():
        if name.endswith(question):
            return figure
    known = ", ".join(drawn)
    raise UsageError(
        f"no question {question!r} has a number: {known}.{suggestion(question, drawn)}"
    )


@arguments_of("leakbench.report")
def report(
    runs: Runs | Tables,
    out: str | Path = "report",
    *,
    title: str = "leakbench",
    formats: Sequence[str] = ("html", "csv", "json", "figures"),
    check: CheckResult | None = None,
    baseline: str | Path | None = None,
    redact: bool = False,
    against: str | Path | None = None,
) -> Path:
    """Write the tables and pages of ``runs`` to the folder ``out``; returns it.

    Args:
        runs: run folders, or what ``tables`` read of them.
        out: where the report goes.
        title: of the page.
        formats: names of `leakbench list reports`; the CSV files are always written.
        check: what ``leakbench.check`` said of these runs, to be shown.
        baseline: the file that it compared with.
        redact: leave private images, reconstructions and maps of private data out of every file.
        against: another report's folder, or a folder of runs: the report says what moved.

    Raises:
        UsageError: there is no run, or the folder cannot be written.
        BrokenFile: an artifact is damaged.
    """
    from leakbench.reporting import write
    from leakbench.results.tables import Tables

    return write.write_report(
        runs if isinstance(runs, Tables) else tables(runs),
        Path(out),
        title=title,
        formats=formats,
        check=check,
        baseline=None if baseline is None else Path(baseline),
        redact=redact,
        against=None if against is None else Path(against),
    )


@arguments_of("leakbench.export")
def export(run: OneRun, out: str | Path) -> list[str]:
    """Write one archive of ``run`` without any answer, for others to attack.

    Returns what its owner should know.

    Raises:
        UsageError: the run is not complete, or the file cannot be written.
        BrokenFile: an artifact is damaged.
    """
    from leakbench.record import exporting

    return exporting.export(load(_path(run)), Path(out))


@arguments_of("leakbench.verify")
def verify(
    run: OneRun, *, replay: int = 0, progress: Progress = lambda *_: None
) -> tuple[Finding, ...]:
    """Derive again what the folder of ``run`` claims; ``.outcome`` of each says what came of it.

    Args:
        run: a complete run; nothing is written to its folder.
        replay: so many of the first rounds are trained again and compared byte for byte.
        progress: called with (rounds done, rounds, what).

    Raises:
        UsageError: the run is not complete.
        BrokenFile: run.json is missing or damaged.
    """
    from leakbench.verifying import verify as _verify

    return _verify(load(_path(run)), replay=replay, progress=progress)


@arguments_of("leakbench.check")
def check(
    runs: Runs | Tables,
    *,
    baseline: str | Path | None = DEFAULT_BASELINE,
    named: Sequence[str] = (),
    limits: Sequence[str] = (),
    allow_new: bool = False,
    terms: Terms | None = None,
) -> CheckResult:
    """Compare ``runs`` with a committed baseline.

    ``.exit_code`` is 0 fine, 1 leaks more, 3 cannot tell.

    Args:
        runs: run folders, or what ``tables`` read of them.
        baseline: the file, which need not be there where it has the usual name and limits are
            given; None: none, only limits.
        named: names or patterns (`*`) of rows that are gated, too.
        limits: texts such as "p_leak<=0.2", beside those in the file.
        allow_new: rows that the baseline does not have may pass.
        terms: what a SPEC asks for, where one does: is it less than when the baseline was written?

    Raises:
        UsageError: there is no baseline, a named row is in neither side, a limit is not well formed
            or speaks of no row, or two settings bear one name.
        BrokenFile: an artifact or the baseline is damaged.
    """
    from leakbench.gate import baseline as _baseline
    from leakbench.gate import gate
    from leakbench.words.outcomes import check_in_words

    then = _baseline.Baseline(())
    usual = baseline is not None and Path(baseline) == Path(DEFAULT_BASELINE)
    if baseline is not None and not (usual and limits and not Path(baseline).exists()):
        then = _baseline.load_baseline(Path(baseline))
    rows, undone, claims = _gated(runs)
    asked: dict[str, Any] = {"named": named, "limits": limits, "allow_new": allow_new}
    asked |= {"terms": terms, "undone": undone, "claims": claims}
    return check_in_words(gate.check(rows, then, **asked))


@arguments_of("leakbench.ci")
def ci(
    specs: Iterable[Mapping[str, Any]],
    *,
    baseline: str | Path | None = DEFAULT_BASELINE,
    named: Sequence[str] = (),
    limits: Sequence[str] = (),
    allow_new: bool = False,
    spend: int = 0,
    out: str | Path = "runs",
    device: str = "auto",
    jobs: int = 1,
    on: str = "here",
    cpus: int | None = None,
    gpus: float | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> CheckResult:
    """Make what is missing of these runs and attacks with the installed code, and check them.

    What is there and would come out the same today is kept. ``.exit_code`` is 1 where something
    leaks more, else 4 where a run or an attack failed (2: its files are damaged), else as for
    `check`; ``.notes`` say what failed.

    Args:
        specs: keyword arguments of ``leakbench.train`` for each run, with its ``defense``; and
            ``attacks``, [(name, parameters)], else every one that fits.
        baseline: the file; None: none, only limits.
        named: names or patterns (`*`) of rows that are gated, too.
        limits: texts such as "p_leak<=0.2", beside those in the file.
        allow_new: rows that the baseline does not have may pass.
        spend: so many further seeds of each setting, at most, where something cannot be told.
        out: the folder of run folders.
        device: auto, cpu or cuda.
        jobs: runs or attacks at a time; more than one in processes of their own, so that a script
            asks for them below ``if __name__ == "__main__"``.
        on: here, or ray, ray:ADDRESS: a cluster of many machines.
        cpus: of each run or attack there, and its threads.
        gpus: of each there, as in 0.25.
        say: is told in a line each what was kept, what was made, and why.

    Raises:
        UsageError: a name or value is wrong, or an attack fits none of the runs; or as for `check`.
        BrokenFile: an artifact or the baseline is damaged.
    """
    from leakbench.base.executors import executor
    from leakbench.results.tables import collect
    from leakbench.work.wanted_run import wanted_runs

    gated: dict[str, Any] = {"baseline": baseline, "named": named, "limits": limits}

    def checked(found: Sequence[Run]) -> CheckResult:
        return check(collect(found), allow_new=allow_new, **gated)

    there = executor(on, jobs, cpus, gpus)
    do, device = there.run, there.device(device)
    wanted = wanted_runs(specs)
    from leakbench.work import build, further_seeds

    made = build.make(wanted, Path(out), device, do=do, say=say)
    result, made = further_seeds.spend(made, checked, spend, do=do, say=say)
    notes = (*result.notes, *(f"{o.name} failed: {o.error}" for o in made.failed))
    return replace(result, notes=notes)


@arguments_of("leakbench.update")
def update(
    runs: Runs | Tables,
    *,
    baseline: str | Path = DEFAULT_BASELINE,
    accept: Sequence[str] = (),
    named: Sequence[str] = (),
    limits: Sequence[str] = (),
    looks: Sequence[int] = (),
    terms: Terms | None = None,
) -> CheckResult:
    """Write the baseline from ``runs`` (folders, or what ``tables`` read of them).

    Where a row is worse than before, or of less, and ``accept`` does not name it, or where a limit
    is breached, nothing is written and ``.exit_code`` is 1; it is 3 where a run failed or is not
    finished. ``looks``: after how many seeds a row may be looked at. ``terms``: what a SPEC asks
    for, noted in the file.

    Raises:
        UsageError: there is nothing to write, or ``accept`` names no row.
        BrokenFile: an artifact or the baseline is damaged.
    """
    from leakbench.gate import baseline as _baseline
    from leakbench.gate.update import update as _update
    from leakbench.words.outcomes import check_in_words

    path = Path(baseline)
    then = _baseline.load_baseline(path) if path.exists() else None
    rows, undone, _ = _gated(runs)
    asked: dict[str, Any] = {"accept": accept, "named": named, "limits": limits, "looks": looks}
    fresh, result = _update(rows, then, **asked, terms=terms, undone=undone)
    if fresh is not None:
        _baseline.save_baseline(path, fresh)
    return check_in_words(result)


def _gated(runs: Runs | Tables) -> tuple[list[GateRow], list[Reason], list[LimitOutcome]]:
    """What a baseline holds, the runs that give nothing, and claims of privacy that are broken.

    Which attacks fit is not asked.
    """
    from leakbench.gate.rows import broken_claims, gate_rows, undone_runs
    from leakbench.results.tables import Tables, collect

    read = runs if isinstance(runs, Tables) else collect(_found(runs))
    every = read.settings
    return gate_rows(every), undone_runs(every), broken_claims(every)


def _found(runs: Runs) -> list[Run]:
    """The runs that are meant, each once."""
    out: list[Run] = []
    for run in runs if isinstance(runs, Iterable) and not isinstance(runs, str) else [runs]:
        if isinstance(run, str | Path):
            out += _runs.find([run])
        else:
            out.append(run if isinstance(run, Run) else run.run)
    return list({run.path.resolve(): run for run in out}.values())


def _path(run: OneRun) -> Path:
    """The folder of a run, or of what was recorded under ``observe``."""
    if isinstance(run, str | Path):
        return Path(run)
    return run.path if isinstance(run, Run) else run.run.path
