"""reproduce: run or resume what a table or figure of a paper needs.

Then print and write its numbers beside ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakbench.base.errors import PartFailed, UsageError
from leakbench.base.executors import Executor
from leakbench.cli import commands, keys
from leakbench.cli.console import Console, emit, emit_json, show_table

if TYPE_CHECKING:
    from leakbench.base.jobs import Outcome
    from leakbench.record.folders import Run
    from leakbench.reproduce.history import Column
    from leakbench.reproduce.plan import Planned
    from leakbench.reproduce.recipe import Recipe
    from leakbench.reproduce.row import Row
    from leakbench.reproduce.rows import CaseRuns
    from leakbench.reproduce.statements import Statement


def run_leaderboard(results: Path, out: Path, url: str, *, console: Console, as_json: bool) -> int:
    """Write the leaderboard of the tables in ``results``, and say where it is.

    Raises:
        UsageError: ``results`` is no folder, or holds no table; ``out`` cannot be written.
        BrokenFile: a table is damaged.
    """
    if not results.is_dir():  # said before anything slow is imported
        what = "is no folder" if results.exists() else "does not exist"
        raise UsageError(
            f"{results} {what}: expected the folder where `leakbench reproduce` left its tables."
        )
    from leakbench.reproduce.leaderboard.page import write_leaderboard

    with console.busy("reading tables"):
        count = write_leaderboard(results, out, url)
    page = out / "index.html"
    if as_json:
        emit_json({"page": str(page), "lines": count})
    else:
        emit(f"{page}: {count} lines, each with its address and a badge")
    return 0


def list_recipes(out: Path, *, as_json: bool) -> int:
    """Each recipe: what it shows, how long each scale takes and which of them were run.

    Then what the papers print besides. ``out``: where tables of ours lie.
    """
    from leakbench.reproduce import history
    from leakbench.reproduce.catalogue import RECIPES
    from leakbench.reproduce.printed import COMING, EVERYTHING

    run = history.history_of(RECIPES.values(), out)
    if as_json:
        recipes = {name: _facts(r, run.get(name, {})) for name, r in RECIPES.items()}
        asides = [p for p in EVERYTHING if not p.recipes]
        emit_json(
            {
                "recipes": recipes,
                "others": [{"name": p.name, "kind": p.kind, "about": p.answer} for p in asides],
            }
        )
        return 0
    for name, recipe in RECIPES.items():
        emit(f"{name}: {recipe.about}")
        for scale, x in recipe.scales.items():
            emit(
                f"  --scale {scale}: {x.time}; {history.scale_phrase(run.get(name, {}).get(scale))}"
            )
    lacking = [(p, n) for p in EVERYTHING for n in p.recipes if n not in RECIPES]
    titles = {"setup": "Setups, not results", "drawing": "Nothing to run"}
    for kind, said in {**titles, "text": "Of the text, left out"}.items():
        emit("")
        emit(f"{said}:")
        for p in (p for p in EVERYTHING if p.kind == kind):
            emit(f"  {p.name} ({p.about}): {p.answer}")
    if lacking:
        emit("")
        emit("Not here yet:")
        for p, name in lacking:
            emit(f"  {p.name} ({p.about}): {COMING.get(name, name)}")
    return 0


def _facts(recipe: Recipe, run: Mapping[str, Sequence[Column]]) -> dict[str, Any]:
    """Of one recipe; ``run``: what was run of it, by scale."""
    from leakbench.reproduce.printed import printed_numbers

    scales = {}
    for scale, x in recipe.scales.items():
        columns = [c.model_dump() for c in run.get(scale, ())]
        scales[scale] = {"time": x.time, "run": columns}
    return {
        "about": recipe.about,
        "shows": [p.name for p in printed_numbers(recipe.name)],
        "scales": scales,
    }


@dataclass(frozen=True)
class _Made:
    """What was made of a recipe: its runs, its rows, and what they say."""

    planned: Sequence[Planned]
    done: Sequence[Outcome]
    found: Mapping[tuple[str, str], CaseRuns]
    lines: Sequence[Row]
    said: Sequence[Statement]

    @property
    def failed(self) -> bool:
        """Did an attack fail, or was something wanted that cannot be run?"""
        failed = any(o.value.failed for o in self.done if not o.error)
        return failed or any(p.lacking and p.wanted for p in self.planned)

    def open(self, most: int) -> dict[tuple[str, str], int]:
        """(label, column) -> the seeds that its statements need, where they are to be had.

        With fewer than it takes, which are ``most`` further ones, nothing would be told.
        """
        out = dict[tuple[str, str], int]()
        for s in self.said:
            if s.needs and s.needs.seeds and self._further(s) <= most:
                asked = {(x, s.dataset): s.needs.seeds for x in s.needs.labels}
                out |= {key: max(out.get(key, 0), seeds) for key, seeds in asked.items()}
        return out

    @property
    def fewest(self) -> int | None:
        """The further seeds of a row with which the first of its statements could be told."""
        return min((self._further(s) for s in self.said if s.needs and s.needs.seeds), default=None)

    def _further(self, s: Statement) -> int:
        """The most seeds that a row of it lacks."""
        have = {(r.label, r.dataset): len(r.seeds) for r in self.lines}
        wanted = s.needs.seeds if s.needs and s.needs.seeds else 0
        return max(wanted - have[x, s.dataset] for x in (s.needs.labels if s.needs else ()))


def run_reproduce(
    name: str,
    scale: str,
    *,
    seeds: str | None,
    spend: int,
    only: Sequence[str],
    executor: Executor,
    device: str,
    out: Path,
    runs: Path,
    excerpts: bool,
    console: Console,
    as_json: bool,
) -> int:
    """Make the recipe ``name`` at ``scale``; the table goes to stdout, the files below ``out``.

    ``spend``: so many further seeds of each row, at most, where a statement needs them.
    """
    from leakbench.base import provenance
    from leakbench.reproduce import catalogue, plan

    device = executor.device(device)
    provenance.known_device(device)
    recipe = catalogue.find_recipe(name)
    given = None if seeds is None else keys.seeds(seeds)
    if spend and given is not None:
        raise UsageError(
            "--spend adds seeds to those of the scale, and --seeds names others: give one of them."
        )

    def planned(more: Mapping[tuple[str, str], int]) -> list[Planned]:
        return plan.plan(recipe, scale, only=only, seeds=given, runs=runs, more=more)

    first = planned({})
    from leakbench.reproduce import figures, sweeps, write  # with torch

    where = provenance.device(device) if executor.here else device
    for p in {p.setup.column: p for p in first if p.lacking}.values():
        console.warn(f"leakbench: {p.setup.column}: {p.lacking}")

    def made(of: list[Planned]) -> _Made:
        return _made(recipe, scale, of, executor, where, out=out, runs=runs, console=console)

    table = made(first)
    if spend and (more := table.open(spend)):
        console.say(f"further seeds, because statements are open: {_further(more)}")
        table = made(planned(more))
    elif spend and (fewest := table.fewest):
        console.warn(
            f"leakbench: no seed was added: with {spend} more of a row no statement would be"
            f" decided; one takes --spend {fewest}."
        )
    lines, said = table.lines, table.said
    with console.busy("drawing, and writing the table"):
        settings = {key: f.setting for key, f in table.found.items() if f.setting}
        settings |= {
            k: settings[v] for k, v in sweeps.rows_taken(recipe, scale, lines) if v in settings
        }
        drawn = figures.draw(recipe, scale, lines, settings, out)
        files = [*write.write_paper_table(recipe, scale, lines, said, drawn, out), *drawn]
        if excerpts and recipe.scales[scale].excerpts:
            every = [r for f in table.found.values() for r in f.runs]
            files += _excerpts(every, out / "runs", console)
    if as_json:
        emit_json(
            {
                "recipe": name,
                "scale": scale,
                "rows": [r.cells for r in lines],
                "statements": [_said(s) for s in said],
                "files": list(map(str, files)),
            }
        )
    else:
        for dataset in dict.fromkeys(p.setup.column for p in table.planned):
            mine = [r for r in lines if r.dataset == dataset]
            emit(recipe.about)
            emit(
                f"{write.title(mine)}, {scale}; the paper's number, and ours with its 95 % interval"
            )
            show_table(write.wide(recipe, mine), write.headings(recipe, mine))
            emit("")
            for s in (s for s in said if s.dataset == dataset):
                emit(f"* {s.sentence}")
            emit("")
        for file in files:
            emit(str(file))
    code = commands.jobs_exit_code(table.done, console)
    return max(code, PartFailed.exit_code if table.failed else 0)


def _made(
    recipe: Recipe,
    scale: str,
    planned: list[Planned],
    executor: Executor,
    device: str,
    *,
    out: Path,
    runs: Path,
    console: Console,
) -> _Made:
    """Run or resume what is planned, and read what all of it says."""
    from leakbench.reproduce import kept, marks, overview, plan, rows, sweeps  # with torch

    table = out / recipe.name / f"{scale}.csv"
    before = kept.earlier(table, planned)
    todo = plan.jobs(planned, runs, device)
    console.say(f"{recipe.about} {len(todo)} runs, {scale}: {recipe.scales[scale].time}")
    with console.progress(len(todo)) as tell:
        done = executor.run(todo, tell=tell)
    found = _found(planned, done, runs, console)
    with console.busy("reading runs"):
        lines = rows.table_rows(recipe, scale, planned, found)
        lines = kept.timed(kept.joined(lines, before, planned, runs), table)
        lines = marks.marked(recipe, sweeps.with_best(recipe, scale, planned, lines))
    if settled := [r for r in lines if r.kept]:
        console.warn(kept.kept_sentence(settled, recipe))
    columns = dict.fromkeys(p.setup.column for p in planned)
    said = [s for c in columns for s in overview.judged(recipe, scale, lines, c)]
    return _Made(planned, done, found, lines, said)


def _further(more: Mapping[tuple[str, str], int]) -> str:
    return "; ".join(f"{label} ({column}) {k}" for (label, column), k in more.items())


def _said(s: Statement) -> dict[str, Any]:
    """A statement for JSON."""
    told = {"dataset": s.dataset, "text": s.text, "verdict": s.verdict, "sentence": s.sentence}
    told["by_strongest"] = s.strongest.verdict if s.strongest else s.verdict
    return {**told, "needs": None if s.needs is None else asdict(s.needs)}


def _found(
    planned: Sequence[Planned], done: Sequence[Outcome], runs: Path, console: Console
) -> Mapping[tuple[str, str], CaseRuns]:
    """The complete runs of every case, and what is to be said of the rest.

    Of those too that were not asked for now.
    """
    from leakbench.record import folders as _runs
    from leakbench.reproduce import plan
    from leakbench.reproduce.rows import LEFT_OUT, CaseRuns

    by_name = {o.name: o for o in done}
    out = {}
    for p in planned:
        folders, said = ([], []) if p.wanted else (plan.done(p, runs), [])
        took = []
        for spec in p.specs:
            outcome = by_name.get(spec.folder())
            if outcome is None:
                continue
            if outcome.error:
                said.append(("", outcome.error))
                continue
            made = outcome.value
            folders.append(Path(made.path))
            took += [made.seconds] if made.seconds else []
            if made.skipped:
                console.say(f"{made.path} is complete; it was not trained again.")
            for _, text in made.failed:
                console.warn(f"leakbench: {spec.folder()}: {text}")
            said += [*made.unfit, *made.failed]
        if not folders and not said and not p.wanted:
            said = [("", LEFT_OUT)]
        seconds = sum(took) / len(took) if took else None
        out[p.key] = CaseRuns(tuple(map(_runs.load, folders)), tuple(dict.fromkeys(said)), seconds)
    return out


def _excerpts(made: Sequence[Run], out: Path, console: Console) -> list[Path]:
    """One per run that shared prototypes, wherever the run is used.

    What is there of this very run stays.
    """
    from leakbench.reproduce.excerpt import excerpt, is_of

    paths = []
    for run in made:
        if any(s["kind"] == "prototype" and s["sender"] == "client" for s in run.meta["sent"]):
            paths.append(out / run.id)
            if not is_of(paths[-1], run):
                console.detail(f"excerpt of {run.id}")
                excerpt(run, paths[-1])
    return paths
