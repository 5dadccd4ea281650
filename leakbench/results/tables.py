"""The five tables of a report, made from run folders."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakbench.base.files import write_csv
from leakbench.base.spec import canonical
from leakbench.record.columns import MISSING, RESULTS, RUN_DIAGNOSTICS, TABLES, UTILITY, Row
from leakbench.record.folders import Folder, Run
from leakbench.results import cascade, tradeoff, units
from leakbench.results import utility as utility_table
from leakbench.results.configurations import Configuration, group
from leakbench.scoring import flags

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = TABLES


@dataclass(frozen=True)
class Found:
    """All that was read of one configuration on the way to the tables, for whoever shows more of it
    than they hold.

    ``utilities``: of its complete runs; ``rows``: every attack's rows of these; ``pooled``: lines
    of `tradeoff`, each with what it was pooled from; ``final``: its line of `utility`.
    """

    config: Configuration
    utilities: Sequence[utility_table.Utility]
    rows: Sequence[units.Measured]
    pooled: Sequence[tradeoff.Pooled]
    final: Row


Fitting = Callable[[Run], Iterable[str]]
Unfit = Callable[[Run], Mapping[str, str]]
# Configuration, attack, metric, reason, seed (None: all).
Lack = tuple[Row, str, str, str, int | None]


@dataclass(frozen=True)
class Tables:
    """Rows as dictionaries with exactly the columns of ``COLUMNS``; floats in full precision,
    booleans as such.
    """

    results: list[Row]
    tradeoff: list[Row]
    utility: list[Row]
    missing: list[Row]
    diagnostics: list[Row]

    def to_frame(self, table: str = "results") -> pd.DataFrame:
        """One table as a pandas frame."""
        return to_frame(getattr(self, table), COLUMNS[table])


def collect(
    runs: Sequence[Run],
    fitting: Fitting | None = None,
    unfit: Unfit | None = None,
    look: Callable[[Found], None] = lambda _: None,
) -> Tables:
    """Read ``runs`` and make the tables.

    Args: runs: complete or not; what failed or is not finished stands in `missing`. fitting: run ->
        names of the attacks that fit what it shared; those that did not run stand in `missing`.
        unfit: run -> {attack: why it does not fit}; these stand there, too. look: called with each
        configuration while its units are in memory, so that nobody reads them a second time.

    Raises:
        BrokenFile: an artifact is missing, changed, damaged or of a newer schema.
        UsageError: two runs are the same seed of one configuration.
    """
    results: list[Row] = []
    trade: list[Row] = []
    utility: list[Row] = []
    diagnostics: list[Row] = []
    lacks: list[Lack] = []
    about: dict[int, str] = {}
    better: dict[str, str] = {}
    for config in group(runs):
        lacks += _not_there(config, fitting, unfit)
        if not config.runs:
            continue
        utilities = [utility_table.of_run(r) for r in config.runs]
        rows = {u.run.seed: units.of_run(u.run) for u in utilities}
        for one in utilities:
            results += _results(config, rows[one.run.seed], dead=bool(one.dead))
            diagnostics += [
                {"run": one.run.id} | {c: d[c] for c in RUN_DIAGNOSTICS}
                for d in one.run.table("diagnostics.csv", RUN_DIAGNOSTICS)
            ]
        gained, lack = utility_table.rows(config, utilities)
        lacks += [(config.columns, "", metric, reason, None) for metric, reason in lack]
        utility += [
            {c: (row | tradeoff.claim(config, row["metric"]))[c] for c in UTILITY} for row in gained
        ]
        every = [m for ms in rows.values() for m in ms]
        mine, none = tradeoff.rows(config, every, utilities, gained[0])
        look(Found(config, utilities, every, mine, gained[0]))
        lacks += [(config.columns, *n, None) for n in none]
        trade += [p.row for p in mine]
        about |= dict.fromkeys([id(p.row) for p in mine], _question(config))
        better[gained[0]["metric"]] = config.one.meta["utility"]["better"]
    tradeoff.mark_front(trade, better, about)
    return Tables(results, trade, utility, _missing(lacks), diagnostics)


def metas(runs: Sequence[Run]) -> list[Row]:
    """Every run.json as a report shows it: its task is called what the tables call it (see
    ``configurations``).
    """
    out = []
    for config in group(runs):
        for run in (*config.runs, *config.others):
            spec = run.spec
            out.append(run.meta | {"spec": spec | {"task": spec["task"] | {"name": config.label}}})
    return out


def write(tables: Tables, out: Path) -> list[Path]:
    """The five CSVs in the folder ``out``; returns their paths.

    Raises:
        UsageError: the place cannot be written.
    """
    paths = []
    for name, columns in COLUMNS.items():
        paths.append(out / f"{name}.csv")
        write_csv(paths[-1], columns, getattr(tables, name))
    return paths


def to_frame(rows: Sequence[Row], columns: Sequence[str]) -> pd.DataFrame:
    """Rows as a pandas frame with exactly ``columns``, also where there is no row."""
    import pandas as pd

    return pd.DataFrame([[row[c] for c in columns] for row in rows], columns=list(columns))


def _question(config: Configuration) -> str:
    """Task, data and model: only configurations that agree in them are compared."""
    task = config.one.spec["task"]
    return canonical(
        {"name": task["name"]} | {k: v for k, v in task["params"].items() if k != "evaluations"}
    )


def _results(config: Configuration, rows: Sequence[units.Measured], *, dead: bool) -> list[Row]:
    """Every attack's rows of one run, then cascade and any_attack; a dead run is flagged wherever
    its leakage is shown.
    """
    out = []
    for row in [*(m.row for m in rows), *cascade.rows_of_run(rows)]:
        marks = flags.split(row["flags"]) | ({"dead_run"} if dead else set())
        out.append(
            {c: (row | {"task": config.label, "flags": flags.join(marks)})[c] for c in RESULTS}
        )
    return out


def _not_there(config: Configuration, fitting: Fitting | None, unfit: Unfit | None) -> list[Lack]:
    """Runs and attacks that failed, what they left out, and attacks that fit but did not run."""
    who = config.columns
    lacks: list[Lack] = [(who, "", "", _why(r), r.seed) for r in config.others]
    for run in config.runs:
        lacks += [
            (who, m["attack"], m["metric"], m["reason"], run.seed)
            for m in run.meta.get("missing", [])
        ]
        for folder in run.attacks:
            lacks += [] if folder.done else [(who, folder.name, "", _why(folder), run.seed)]
            lacks += [
                (who, folder.name, m["metric"], m["reason"], run.seed)
                for m in folder.meta.get("missing", [])
            ]
        tried = {f.name for f in run.attacks} | {
            m["attack"] for m in run.meta.get("missing", []) if not m["metric"]
        }
        if fitting is not None:
            lacks += [
                (who, name, "", "it would fit but was not run: leakbench attack", run.seed)
                for name in fitting(run)
                if name not in tried
            ]
        elif not run.attacks:
            lacks.append((who, "", "", "no attack was run: leakbench attack", run.seed))
        lacks += [
            (who, name, "", why, run.seed)
            for name, why in (unfit(run) if unfit else {}).items()
            if name not in tried
        ]
    seeds = {r.seed for r in (*config.runs, *config.others)}
    return _seeds_joined(lacks, seeds)


def _why(folder: Folder) -> str:
    """Why a run or an attack gave no number."""
    if folder.status == "guessed":
        return "guessed but not scored: leakbench score, where the run has its truth"
    return (
        folder.status
        if folder.status.startswith("failed")
        else f"not finished (status {folder.status}): run the same command again"
    )


def _seeds_joined(lacks: Sequence[Lack], seeds: set[int]) -> list[Lack]:
    """The same reason in several seeds is one line, which names them unless they are all."""
    same: dict[tuple[str, str, str], set[int]] = defaultdict(set)
    for _, attack, metric, reason, seed in lacks:
        same[attack, metric, reason].add(-1 if seed is None else seed)
    out: list[Lack] = []
    for (attack, metric, reason), own in same.items():
        said = "" if own == seeds else f" (seed {', '.join(map(str, sorted(own)))})"
        out.append((lacks[0][0], attack, metric, reason + said, None))
    return out


def _missing(lacks: Sequence[Lack]) -> list[Row]:
    """The table has no column for wrappers, so the reason names them."""
    out: list[Row] = []
    for who, attack, metric, reason, _ in lacks:
        wrapped = "" if who["wrappers"] == "[]" else f" [under the wrappers {who['wrappers']}]"
        row: dict[str, Any] = {
            **{c: who[c] for c in MISSING[:3]},
            "attack": attack,
            "metric": metric,
            "reason": reason + wrapped,
        }
        out += [] if row in out else [row]
    return out
