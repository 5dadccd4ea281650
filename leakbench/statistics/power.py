"""What a baseline's own scores say about what a comparison with it can and cannot find.

The hard case: everything is drawn anew, so that nothing is paired, with as many seeds. The limits
are those that `compare` gives, not a formula beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leakbench.statistics.differences import LEVEL, MOST_SEEDS, Difference, Scores, compare

POWER = 0.8


def detectable(
    scores: Scores, *, alpha: float = LEVEL, power: float = POWER, **how: Any
) -> float | None:
    """The smallest worsening that is found with ``power``; None with fewer than two seeds.

    On the scale on which differences are taken.

    Args:
        scores: seed -> unit -> score.
        alpha: the level at which one row's lower limit is judged.
        power: the chance to find it.
        how: what ``compare`` is told of the metric.
    """
    same = _drawn_anew(scores, how)
    return None if same is None else -same.lower(alpha) + same.upper(1 - power)


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
