"""What a baseline's own scores say about what a comparison with it can and cannot find.

The hard case: everything is drawn anew, so that nothing is paired, with as many seeds. The limits
are those that `compare` gives, not a formula beside it. Three things are taken into account that
would make a forecast too hopeful: the spread of a few seeds is itself unsure, the limits of the
next comparison are made of a spread that is drawn anew, and larger shares vary more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from leakbench.statistics.differences import LEVEL, MOST_SEEDS, Difference, Scores, compare
from leakbench.statistics.limits import Bound, Newcombe, Pivot

POWER = 0.8
_GRID = 16  # points of a chi-squared distribution, equally likely
_STEPS = 30  # of a bisection


def detectable(
    scores: Scores, *, alpha: float = LEVEL, power: float = POWER, **how: Any
) -> float | None:
    """The smallest worsening that is found with ``power``.

    On the scale on which differences are taken; infinite where there is not so much room, None with
    fewer than two seeds.

    Args:
        scores: seed -> unit -> score.
        alpha: the level at which one row's lower limit is judged.
        power: the chance to find it.
        how: what ``compare`` is told of the metric.
    """
    same = _drawn_anew(scores, how)
    if same is None:
        return None
    flat = [x for units in scores.values() for x in units.values()]
    mean, room = math.fsum(flat) / len(flat), math.inf
    if how["share"]:
        mean = mean if how["worse"] == "up" else 1 - mean
        room = 1 - mean

    def ratio(d: float) -> float:
        """How much more shares vary that are larger by ``d``."""
        least = mean * (1 - mean)
        return (mean + d) * (1 - mean - d) / least if how["share"] and least > 0 else 1.0

    bounds = [b for b in (same.over_units, same.over_seeds) if b is not None]
    return max(_found_from(bound, alpha, power, room, ratio) for bound in bounds)


def _found_from(
    bound: Bound, alpha: float, power: float, room: float, ratio: Callable[[float], float]
) -> float:
    """The smallest worsening that this limit alone finds with ``power``."""
    if isinstance(bound, Newcombe):

        def lower(d: float, level: float) -> float:
            share = min(bound.then + d, 1.0)
            return Newcombe(share, bound.n, bound.then, bound.m).lower(level)

        # What has to be seen, and what has to be there so that it is seen.
        seen = _smallest(lambda d: lower(d, alpha) > 0, room)
        return max(seen, _smallest(lambda d: lower(d, 1 - power) >= seen, room))
    if not isinstance(bound, Pivot) or bound.error == 0:
        return 0.0
    chance = _welch(bound, alpha, ratio)
    return _smallest(lambda d: chance(d) >= power, room)


def _welch(pivot: Pivot, alpha: float, ratio: Callable[[float], float]) -> Callable[[float], float]:
    """{worsening: the chance that Welch's lower limit is above 0}, two sides of equal numbers.

    Over what the true variance may be, given the baseline's, and what the other side's will seem.
    """
    from scipy.special import gammaincinv, ndtr, stdtrit

    freedom, side = pivot.freedom / 2, pivot.error**2 / 2
    points = (np.arange(_GRID) + 0.5) / _GRID
    seeming = gammaincinv(freedom / 2, points) * 2 / freedom
    true = 1 / seeming[:, None]

    def chance(d: float) -> float:
        other = ratio(d) * true * seeming[None, :]
        quantile = -stdtrit(freedom * (1 + other) ** 2 / (1 + other**2), alpha)
        spread = np.sqrt(side * true * (1 + ratio(d)))
        return float(ndtr((d - quantile * np.sqrt(side * (1 + other))) / spread).mean())

    return chance


def _smallest(holds: Callable[[float], bool], room: float) -> float:
    """The smallest number up to ``room`` for which it holds; infinite if there is none."""
    low, high = 0.0, min(room, 1.0)
    while not holds(high):
        if high >= room or high > 1e12:
            return math.inf
        low, high = high, min(2 * high, room)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def seeds_for_fine(
    scores: Scores, *, margin: float, power: float = POWER, level: float = LEVEL, **how: Any
) -> int | None:
    """How many seeds a side make an unchanged row fine, with ``power``; None: more than 200.

    Args:
        scores: seed -> unit -> score.
        margin: how much worse does not matter.
        power: the chance that it comes out as fine.
        level: at which the upper limit is judged.
        how: what ``compare`` is told of the metric.
    """
    same = _drawn_anew(scores, how)
    if same is None:
        return None
    for k in range(2, MOST_SEEDS + 1):
        of = same.with_seeds(k)
        if of.upper(level) + of.upper(1 - power) < margin:
            return k
    return None


def _drawn_anew(scores: Scores, how: Mapping[str, Any]) -> Difference | None:
    """The scores against themselves as if they came from other seeds: no difference, its spread."""
    after = max(scores, default=0) + 1
    others = {seed + after: units for seed, units in scores.items()}
    return compare(others, scores, **how)
