"""All numbers of some runs, and the six tables that hold them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from leakbench.base.errors import BrokenFile, UsageError
from leakbench.base.files import write_csv
from leakbench.record import origin
from leakbench.record.columns import RUN_DIAGNOSTICS, TABLES, Row
from leakbench.record.folders import Run
from leakbench.results import cascade, front, recomputed, units, utility
from leakbench.results.cells import table_lines
from leakbench.results.copies import no_copies
from leakbench.results.lacking import Lacking
from leakbench.results.number import Diagnostic, Evaluated, Measured, Missing, Number, Utility
from leakbench.results.pooling import Pooling, claim
from leakbench.results.privacy import Privacy, privacy_of_run
from leakbench.results.roc import rocs
from leakbench.results.settings import Setting, Unmade, group

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = TABLES
_HELD = {"tradeoff": "numbers"}  # table -> what holds its lines, where that is called otherwise

_SHOWN = (
    *("task", "defense", "defense_params", "attack", "stage"),
    *("metric", "value", "low", "high", "floor", "control"),
    *("utility_metric", "utility", "flags"),
)

Fitting = Callable[[Run], Iterable[tuple[str, Mapping[str, Any]]]]
Unfit = Callable[[Run], Mapping[str, str]]
Standard = Callable[[Run], Sequence[tuple[str, Mapping[str, Any]]] | None]


@dataclass(frozen=True, eq=False)
class Tables:
    """Every setting with its numbers, and what is missing."""

    settings: tuple[Setting, ...]
    missing: tuple[Missing, ...]

    @cached_property
    def numbers(self) -> tuple[Number, ...]:
        """Of all settings: tradeoff.csv."""
        return tuple(n for s in self.settings for n in s.numbers)

    @cached_property
    def utility(self) -> tuple[Utility, ...]:
        """Of all settings: utility.csv."""
        return tuple(u for s in self.settings for u in s.utility)

    @cached_property
    def results(self) -> tuple[tuple[Setting, Measured], ...]:
        """Of all runs, each with its setting: results.csv."""
        return tuple((s, m) for s in self.settings for m in s.results)

    @cached_property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Of all complete runs: diagnostics.csv.

        Raises:
            BrokenFile: a run's table is damaged.
        """
        out = []
        for run in (e.run for s in self.settings for e in s.evaluated):
            for line in run.table("diagnostics.csv", RUN_DIAGNOSTICS):
                values = {c: line[c] for c in RUN_DIAGNOSTICS}
                out.append(Diagnostic(run=run.id, **values))
        return tuple(out)

    @cached_property
    def privacy(self) -> tuple[Privacy, ...]:
        """Of all complete runs: privacy.csv."""
        return tuple(p for s in self.settings for p in s.privacy)

    def rows(self, table: str) -> list[Row]:
        """The lines of one of the six CSV files, python-typed, with exactly its columns."""
        return table_lines(getattr(self, _HELD.get(table, table)))

    def to_frame(self, table: str = "results") -> pd.DataFrame:
        """One table as a pandas frame."""
        return to_frame(self.rows(table), COLUMNS[table])

    def __repr__(self) -> str:
        """An overview: the tables by name, each with its size and columns; the numbers are many."""
        lines = [f"Tables of {len(self.settings)} settings; .to_frame(NAME) gives one of them:"]
        for name, columns in COLUMNS.items():
            told = wrap(", ".join(columns), 88, initial_indent="  ", subsequent_indent="  ")
            lines += [f"{name}: {self._count(name)} of {len(columns)} columns", *told]
        return "\n".join(lines)

    def _count(self, table: str) -> str:
        """How many lines it has; a run's own tables may be damaged or gone by now."""
        try:
            return f"{len(getattr(self, _HELD.get(table, table)))} rows"
        except (BrokenFile, OSError):
            return "rows that cannot be read,"

    def _repr_html_(self) -> str:
        """What a notebook shows: what each attack reaches beside what the method gains."""
        frame = self.to_frame("tradeoff")[list(_SHOWN)]
        lacking = f"<p>{len(self.missing)} numbers are not there: .to_frame('missing')</p>"
        return str(frame._repr_html_()) + lacking * bool(self.missing)  # type: ignore[operator]


def collect(
    runs: Sequence[Run],
    fitting: Fitting | None = None,
    unfit: Unfit | None = None,
    standard: Standard = lambda _: None,
) -> Tables:
    """Read ``runs``, once, and make the tables.

    Args:
        runs: complete or not; what failed or is not finished stands in `missing`.
        fitting: run -> (name, parameters that tell its setting) of the attacks that fit what it
            shared; those that did not run stand in `missing`.
        unfit: run -> {attack: why it does not fit}; these stand there, too.
        standard: run -> what it lacks of the standard ensemble; None where that cannot be told.

    Raises:
        BrokenFile: an artifact is missing, changed, damaged or of a newer schema.
        UsageError: two runs are the same seed of one setting, or two folders mean different things
            by one metric.
    """
    lacking = Lacking(fitting, unfit)
    settings = [_standing(_read(s, lacking), standard) for s in group(runs)]
    _one_meaning([m for s in settings for m in s.measured])
    marked = iter(front.mark([n for s in settings for n in s.numbers], _about(settings)))
    done = [_marked(s, marked) for s in settings]
    return Tables(tuple(done), tuple(lacking.missing))


def _one_meaning(measured: Iterable[Measured]) -> None:
    """One attack folder's word about a metric must not decide for all the others."""
    first: dict[tuple[str, int], Measured] = {}
    for m in measured:
        one = first.setdefault((m.meaning.name, m.meaning.version), m)
        unlike = one.meaning.unlike(m.meaning)
        if unlike:
            raise UsageError(
                f"{m.meaning.name} has two meanings ({unlike}): {one.attacker.name} of"
                f" {one.run.path} and {m.attacker.name} of {m.run.path} state them. Score both"
                " again with one leakbench, or give one of the metrics another name."
            )


def _about(settings: Sequence[Setting]) -> dict[str, str]:
    return {s.key: s.about for s in settings}


def _standing(setting: Setting, standard: Standard) -> Setting:
    """With what its runs lack of the standard ensemble, all together."""
    told = [standard(run) for run in setting.runs]
    if not told or None in told:
        return setting
    lacks: list[Unmade] = []
    for name, params in (one for own in told for one in own or ()):
        one = Unmade(attack=name, params=dict(params))
        lacks += [] if one in lacks else [one]
    return setting.model_copy(update={"lacks": tuple(lacks)})


def _read(setting: Setting, lacking: Lacking) -> Setting:
    lacking.not_there(setting)
    if not setting.runs:
        return setting
    no_copies(setting.runs)
    for run in setting.runs:
        recomputed.check_run(run)
    evaluated = [utility.utility_of_run(r) for r in setting.runs]
    by_run = {e.run.seed: units.measured_of_run(e.run) for e in evaluated}
    measured = [m for ms in by_run.values() for m in ms]
    lacking.not_at_the_end(setting, measured)
    results = [r for e in evaluated for r in _results(e, by_run[e.run.seed])]
    gained, lack = utility.rows(setting, evaluated)
    for metric, why in lack:
        lacking.add(setting, "", metric, why)
    known = [u.model_copy(update={"claim": claim(setting, u.meaning.name)}) for u in gained]
    numbers, heard, none = Pooling(setting, evaluated, known[0]).numbers(measured)
    for attack, metric, why in none:
        lacking.add(setting, attack, metric, why)
    private = (privacy_of_run(e.run, setting.configuration) for e in evaluated)
    read: dict[str, Any] = {
        "evaluated": tuple(evaluated),
        "measured": tuple(measured),
        "results": tuple(results),
        "privacy": tuple(p for p in private if p),
        "roc": rocs(setting.runs, measured),
    }
    found = {"numbers": tuple(numbers), "heard": tuple(heard), "utility": tuple(known)}
    return setting.model_copy(update=read | found)


def _marked(setting: Setting, marked: Iterator[Number]) -> Setting:
    """With the next of the numbers whose front is known."""
    return setting.model_copy(update={"numbers": tuple(next(marked) for _ in setting.numbers)})


def _results(evaluated: Evaluated, measured: Sequence[Measured]) -> list[Measured]:
    """Every attack's numbers of one run, then cascade and any_attack.

    A dead run is flagged wherever its leakage is shown; so is one that was not trained to its end,
    or is of other code or data than a reader would think.
    """
    every = [*measured, *cascade.cascade_of_run(measured)]
    own = evaluated.flags | origin.flags(evaluated.run.meta)
    return [replace(m, flags=m.flags | own) for m in every]


def write(tables: Tables, out: Path) -> list[Path]:
    """The six CSVs in the folder ``out``; returns their paths.

    Raises:
        UsageError: the place cannot be written.
    """
    paths = []
    for name, columns in COLUMNS.items():
        paths.append(out / f"{name}.csv")
        write_csv(paths[-1], columns, tables.rows(name))
    return paths


def to_frame(rows: Sequence[Row], columns: Sequence[str]) -> pd.DataFrame:
    """Rows as a pandas frame with exactly ``columns``, also where there is no row."""
    import pandas as pd

    def cells(row: Row) -> list[Any]:
        return [row[c] for c in columns]

    return pd.DataFrame([cells(row) for row in rows], columns=list(columns))
