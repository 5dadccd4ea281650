"""The same up to rounding: what another machine makes of the same code and the same seeds."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from pathlib import Path

from leakbench.gate.comparing import hashes, same_scores, whole
from leakbench.gate.row import GateRow
from leakbench.gate.sketch import Sketch, sketch


def nearly(now: GateRow, then: GateRow) -> bool:
    """As `unchanged`, but for rounding: the same scores, of guesses and truths that are near.

    Equal scores alone are not enough: hits and misses may agree by chance.
    """
    told = list(hashes(now, then))
    if not told or not same_scores(now, then, whole(now, then)):
        return False
    return all(a and b and _all_near(a, b, now, then) for a, b in told)


def _all_near(mine: Collection[str], theirs: Collection[str], now: GateRow, then: GateRow) -> bool:
    """Has every file of one side one of the other that holds the same but for rounding?"""
    left = [sha for sha in theirs if sha not in mine]
    fresh = [sha for sha in mine if sha not in theirs]
    if len(left) != len(fresh):
        return False
    for sha in fresh:
        own = sketched(now, sha)
        near = [old for old in left if own and (o := sketched(then, old)) and own.near(o)]
        if not near:
            return False
        left.remove(near[0])
    return True


def sketched(row: GateRow, sha: str) -> Sketch | None:
    """What is known of a file by its hash; None where nothing is."""
    if sha in row.sketches:
        return row.sketches[sha]
    return _sketch(sha, row.files[sha]) if sha in row.files else None


@lru_cache(maxsize=4096)
def _sketch(sha: str, files: tuple[Path, ...]) -> Sketch:
    """Once for all rows that rest on these files; ``sha``: another one when they changed."""
    return sketch(files)
