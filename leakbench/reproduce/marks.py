"""Flags that are computed when a page is written: of a table of whenever, by what is known today.

Else rows that were made before there was a flag would look cleanest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from leakbench.base.errors import BrokenFile
from leakbench.federation.utility import METRICS
from leakbench.reproduce import row, sweeps
from leakbench.reproduce.differs import printed
from leakbench.reproduce.recipe import UTILITY, Recipe
from leakbench.reproduce.row import Row
from leakbench.scoring import flags
from leakbench.scoring.flags import UNDERTRAINED

# Of what was gained: how far the mean of the last ten lags. Of ten evaluations in all that near a
# limit exponentially it lags so where the last quarter brought a tenth, which is ``flags.STEEP``.
LAGS = 0.25
FINAL = (UTILITY, "final")  # how recipes call the measure of the utility after training
# Of the paper's rounds: with fewer, and no curve that tells more, a run had barely begun.
BARELY = 0.1


def marked_rows(recipe: Recipe | None, path: Path) -> list[Row]:
    """The table at ``path``, marked; None: of no recipe that is there today.

    Raises:
        BrokenFile: it is damaged, or not of the recipe and scale that its place names.
    """
    rows = row.read_rows(path)
    if rows and (rows[0].recipe, rows[0].scale) != (path.parent.name, path.stem):
        raise BrokenFile(
            f"{path} is damaged (it is {rows[0].recipe} at scale {rows[0].scale}). Make it again."
        )
    return marked(recipe, rows)


def marked(recipe: Recipe | None, rows: Sequence[Row]) -> list[Row]:
    """``rows`` with what their own cells, their recipe and the other rows of their case say."""
    known = rows if recipe is None else sweeps.marked_best(recipe, rows)
    dead = {(r.dataset, r.label) for r in rows if r.dead or _by_chance(r)}
    rising = _rising(rows)
    rounds = {} if recipe is None else paper_rounds(recipe)
    stand_ins = set() if recipe is None else set(_stand_ins(recipe))
    # What an untrained network gives away does not go by how long it was trained afterwards.
    fresh = {m.key for m in recipe.measures if m.stage == "untrained"} if recipe else set[str]()
    out = []
    for r in known:
        marks = (r.flags - {UNDERTRAINED}) | of_row(r, rounds.get((r.scale, r.dataset)))
        marks |= {UNDERTRAINED} if (r.dataset, r.label) in rising else set()
        marks -= flags.OF_TRAINING if r.measure in fresh else set()
        marks |= {"stand_in_data"} if (r.dataset, r.task) in stand_ins else set()
        marks |= {"dead_run"} if (r.dataset, r.label) in dead else set()
        out.append(r.model_copy(update={"flags": marks}) if r.ours else r)
    return out


def of_row(r: Row, paper: int | None) -> set[str]:
    """What the cells of one row say; ``paper``: its paper's rounds, if it prints them."""
    if r.ours is None:
        return set()
    marks = flags.of_seeds(len(r.seeds)) | ({"stand_in_data"} if r.stand_in else set())
    if r.rounds is None:  # no run was made
        return marks
    utility = r.metric in METRICS and not r.attack
    if r.attack or utility:
        marks |= {"few_units"} if r.ours.n < flags.FEW_UNITS else set()
    marks |= flags.of_rises([r.rise])
    barely = r.rise is None and paper is not None and r.rounds < BARELY * paper
    return marks | ({UNDERTRAINED} if barely else set())


def _by_chance(r: Row) -> bool:
    """Is it the utility after training, and not beyond chance?"""
    if r.measure not in FINAL or r.ours is None or r.ours.meaning is None or r.chance is None:
        return False
    end = r.ours.lowest if r.ours.meaning.direction == "up" else r.ours.highest
    return not r.ours.meaning.worse(end, r.chance)


def _rising(rows: Sequence[Row]) -> set[tuple[str, str]]:
    """(column, label) of the cases without a ``rise`` that ended far above their last evaluations.

    The mean of the last ten is below the final utility by more than ``LAGS`` of all that was gained
    over chance.
    """
    of = {(r.measure, r.dataset, r.label): r for r in rows if r.ours}
    found = set()
    for (measure, dataset, label), end in of.items():
        before = of.get(("last10", dataset, label))
        if measure not in FINAL or not end.ours or not before or not before.ours:
            continue
        if end.rise is not None or end.chance is None or end.ours.meaning is None:
            continue
        sign = 1 if end.ours.meaning.direction == "up" else -1
        gained, late = end.ours.value - end.chance, end.ours.value - before.ours.value
        if sign * gained > 0 and sign * late > LAGS * sign * gained:
            found.add((end.dataset, end.label))
    return found


def _stand_ins(recipe: Recipe) -> Iterator[tuple[str, str]]:
    """(column, task) of what stands in for a paper's data."""
    for scale in recipe.scales.values():
        setups = [s for each in scale.setups for s in (each, each.otherwise) if s is not None]
        yield from ((s.column, s.task) for s in setups if s.stand_in)


def paper_rounds(recipe: Recipe) -> Mapping[tuple[str, str], int]:
    """(scale, column) -> the rounds that the paper prints, where it does."""
    out = {}
    for name, scale in recipe.scales.items():
        for setup in scale.setups:
            found = printed(recipe.paper, setup.dataset).get("rounds")
            if found is not None:
                out[name, setup.column] = int(found)
    return out
