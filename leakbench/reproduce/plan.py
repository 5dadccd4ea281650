"""Which runs a recipe needs, and what keeps one from being run.

Every case on every data set, with every seed, as specs.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakbench.base.errors import LeakbenchError, UnknownName, UsageError, suggestion
from leakbench.base.jobs import Job
from leakbench.record.runspec import RunSpec, make_spec
from leakbench.reproduce.recipe import SCALES, Case, Recipe, Scale, Setup
from leakbench.work.wanted_run import WantedRun, complete

if TYPE_CHECKING:
    from leakbench.record.twin import Twin


@dataclass(frozen=True)
class Planned:
    """One case on one data set."""

    case: Case
    setup: Setup
    specs: tuple[RunSpec, ...]  # one per seed, none for a study
    attacks: tuple[tuple[str, dict[str, Any]], ...]
    lacking: str = ""  # why it cannot be run, or ""
    wanted: bool = True  # is it to be made?
    seeds: tuple[int, ...] = (0,)  # of runs, or of a study's draws

    @property
    def key(self) -> tuple[str, str]:
        """(label, column)."""
        return self.case.label, self.setup.column

    @property
    def folders(self) -> tuple[str, ...]:
        """The names of its run folders."""
        return tuple(s.folder() for s in self.specs)

    def trains_as(self, then: Twin | None, seed: int) -> bool:
        """Does the installed code bring forth the twin that the run of ``seed`` had ``then``?

        Not known is no, as where its data are not here: none are fetched for it.
        """
        from leakbench.data import sets
        from leakbench.record import twin  # with torch

        if not then or (self.setup.needs and not sets.found(self.setup.needs)):
            return False
        made = [_twin_today(s.model_dump_json()) for s in self.specs if s.seed == seed]
        return any(twin.twins_alike(then, now) for now in made)


@cache
def _twin_today(spec: str) -> Twin | None:
    from leakbench.record import twin  # with torch

    try:
        return twin.twin_of(RunSpec.model_validate_json(spec))
    except Exception:  # a method of somebody's own may raise anything
        return None


def scale_of(recipe: Recipe, name: str) -> Scale:
    """The recipe's scale ``name``.

    Raises:
        UsageError: there is none.
    """
    if name not in recipe.scales:
        raise UsageError(f"there is no scale {name!r}.{suggestion(name, recipe.scales)}")
    return recipe.scales[name]


def plan(
    recipe: Recipe,
    scale: str,
    *,
    only: Sequence[str] = (),
    seeds: Sequence[int] | None = None,
    data: bool = True,
    runs: Path | None = None,
    more: Mapping[tuple[str, str], int] | None = None,
) -> list[Planned]:
    """Every case of ``recipe`` at ``scale`` in every column.

    Args:
        recipe: whose.
        scale: smoke, small or full.
        only: labels of the cases and names of the data sets or of single columns that are wanted,
            spaces and case apart; all of a kind that is not named.
        seeds: instead of the scale's.
        data: look for the data sets (and fetch them at the larger scales); without, every set
            counts as there.
        runs: where runs lie. Those that are complete there need no data, so none are looked for
            where all that is wanted is complete. Where no seeds are named, the next ones after the
            scale's count, too, as far as their runs are there.
        more: (label, column) -> how many seeds that case has at least; the label may be that of the
            best of some values, of which each then has as many.

    Raises:
        UnknownName: no case and no data set is called as one of ``only``.
        UsageError: the scale does not exist, or no data set of the recipe is there.
    """
    chosen = scale_of(recipe, scale)
    cases = [c for case in recipe.of(scale) for c in case.at(scale)]
    labels, columns = _wanted(cases, chosen.setups, only)

    def each(setup: Setup) -> tuple[int, ...]:
        return (setup.seeds or chosen.seeds) if seeds is None else tuple(seeds)

    def specs(case: Case, setup: Setup) -> tuple[RunSpec, ...]:
        if recipe.study:
            return ()
        seed = itertools.count(max(each(setup), default=-1) + 1)
        made = [_spec(case, setup, chosen, k) for k in each(setup)]
        asked = max((more or {}).get((name, setup.column), 0) for name in (case.label, case.of))
        while True:
            then = _spec(case, setup, chosen, next(seed))
            lies = seeds is None and runs is not None and complete(then, runs)
            if not lies and len(made) >= asked:
                return tuple(made)
            made.append(then)

    def there(case: Case, setup: Setup) -> bool:
        if runs is None or recipe.study:
            return False
        return all(complete(s, runs) for s in specs(case, setup))

    out = []
    for setup in chosen.setups:
        asked = labels if setup.column in columns else set()
        here = [c for c in cases if not c.columns or setup.column in c.columns]
        needed = data and not all(there(c, setup) for c in here if c.label in asked)
        where, lacking = _resolved(setup, fetch=scale != SCALES[0]) if needed else (setup, "")
        for case in here:
            why = "" if lacking and there(case, where) else lacking
            attacks, wanted = tuple(recipe.attacks(case.defense, scale)), case.label in asked
            made = specs(case, where)
            ran = tuple(s.seed for s in made) or each(where)
            out.append(Planned(case, where, made, attacks, why, wanted, ran))
    if all(p.lacking for p in out):
        raise UsageError(out[0].lacking)
    return out


def done(planned: Planned, runs: Path) -> list[Path]:
    """The folders of its complete runs below ``runs``."""
    return [runs / s.folder() for s in planned.specs if complete(s, runs)]


def jobs(planned: Sequence[Planned], out: Path, device: str) -> list[Job]:
    """A job per run that is wanted and can be made; a run that two cases share is made once."""
    from leakbench.work.whole_run import whole_run  # with torch

    specs, attacks = dict[str, RunSpec](), defaultdict[str, list[Any]](list)
    for p in planned:
        for spec in p.specs if p.wanted and not p.lacking else ():
            name = spec.folder()
            specs[name] = spec
            attacks[name] += [a for a in p.attacks if a not in attacks[name]]
    return [
        WantedRun(spec).job(name, whole_run, out, device, tuple(attacks[name]))
        for name, spec in specs.items()
    ]


def _wanted(
    cases: Sequence[Case], setups: Sequence[Setup], only: Sequence[str]
) -> tuple[set[str], set[str]]:
    """Labels of cases and columns; a data set's name means all its columns."""
    labels, columns = dict[str, set[str]](), dict[str, set[str]]()
    for case in cases:
        for name in filter(None, (case.label, case.of)):
            labels.setdefault(_bare(name), set()).add(case.label)
    for setup in setups:
        for name in (setup.dataset, setup.column):
            columns.setdefault(_bare(name), set()).add(setup.column)
    for name in only:
        if _bare(name) not in labels and _bare(name) not in columns:
            known = [*dict.fromkeys(c.of or c.label for c in cases), *(s.dataset for s in setups)]
            raise UnknownName("case", name, [*known, *(s.column for s in setups if s.split)])
    return _named(labels, only), _named(columns, only)


def _named(known: Mapping[str, set[str]], only: Sequence[str]) -> set[str]:
    """Those that ``only`` names; all where it names none of this kind."""
    asked = set[str]().union(*(known.get(_bare(n), ()) for n in only))
    return asked or set[str]().union(*known.values())


def _bare(label: str) -> str:
    return "".join(label.lower().split())


def _resolved(setup: Setup, *, fetch: bool) -> tuple[Setup, str]:
    """The setup that can be run, and why none can."""
    from leakbench.data import sets

    if not setup.needs or sets.found(setup.needs):
        return setup, ""
    try:
        if fetch:
            sets.fetch(setup.needs)
            return setup, ""
        why = sets.absent(setup.needs)
    except LeakbenchError as error:
        why = str(error)
    return (setup, why) if setup.otherwise is None else _resolved(setup.otherwise, fetch=fetch)


def _spec(case: Case, setup: Setup, scale: Scale, seed: int) -> RunSpec:
    return make_spec(
        case.defense,
        task=setup.task,
        params={**setup.params.get(case.defense, {}), **case.params},
        task_params=setup.task_params,
        rounds=setup.rounds,
        seed=seed,
        engine=scale.engine,
        dtype=scale.dtype,
        record=scale.record,
    )
