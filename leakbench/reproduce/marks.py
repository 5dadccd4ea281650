"""Flags that are computed when a page is written: of a table of whenever, by what is known today.

Else rows that were made before there was a flag would look cleanest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from leakbench.reproduce import row, sweeps
from leakbench.reproduce.differs import printed
from leakbench.reproduce.recipe import Recipe
from leakbench.reproduce.row import Row
from leakbench.scoring import flags
from leakbench.scoring.flags import UNDERTRAINED

# Of the paper's rounds: with fewer, and no curve that tells more, a run had barely begun.
BARELY = 0.1


def read(recipe: Recipe | None, path: Path) -> list[Row]:
    """The table at ``path``, marked; None: of no recipe that is there today.

    Raises:
        BrokenFile: it is damaged.
    """
    return marked(recipe, row.read(path))


def marked(recipe: Recipe | None, rows: Sequence[Row]) -> list[Row]:
    """``rows`` with what their own cells, their recipe and the other rows of their case say."""
    known = rows if recipe is None else sweeps.marked(recipe, rows)
    dead = {(r.dataset, r.label) for r in rows if r.dead}
    rounds = {} if recipe is None else _rounds(recipe)
    # What an untrained network gives away does not go by how long it was trained afterwards.
    fresh = {m.key for m in recipe.measures if m.stage == "untrained"} if recipe else set[str]()
    out = []
    for r in known:
        marks = (r.flags - {UNDERTRAINED}) | of_row(r, rounds.get((r.scale, r.dataset)))
        marks -= flags.OF_TRAINING if r.measure in fresh else set()
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
    marks |= {"few_units"} if r.attack and r.ours.n < flags.FEW_UNITS else set()
    marks |= flags.of_rises([r.rise])
    barely = r.rise is None and paper is not None and r.rounds < BARELY * paper
    return marks | ({UNDERTRAINED} if barely else set())


def _rounds(recipe: Recipe) -> Mapping[tuple[str, str], int]:
    """(scale, column) -> the rounds that the paper prints, where it does."""
    out = {}
    for name, scale in recipe.scales.items():
        for setup in scale.setups:
            found = printed(recipe.paper, setup.dataset).get("rounds")
            if found is not None:
                out[name, setup.column] = int(found)
    return out
