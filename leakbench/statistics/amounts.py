"""Is a number above what may be? One-sided limits of one value, at any level that is asked for.

As for differences, each limit is computed over units and over seed means, and the wider one counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from leakbench.statistics.differences import Scores, spread_of
from leakbench.statistics.limits import Arcsine, Bound, Exact, Spread, one_sample, smallest_level


@dataclass(frozen=True)
class Amount:
    """A mean over units and seeds, on the metric's own scale."""

    value: float
    worse: Literal["up", "down"]
    bounds: tuple[Bound, ...]

    def above(self, alpha: float) -> float:
        """The limit that it is above, but for a chance of ``alpha``."""
        return min(b.lower(alpha) for b in self.bounds)

    def below(self, alpha: float) -> float:
        """The limit that it is below, but for a chance of ``alpha``."""
        return max(b.upper(alpha) for b in self.bounds)

    def p(self, limit: float) -> float:
        """The smallest level at which it is beyond ``limit`` on the side that leaks."""
        if self.worse == "up":
            return smallest_level(lambda alpha: self.above(alpha) > limit)
        return smallest_level(lambda alpha: self.below(alpha) < limit)


def mean_amount(
    scores: Scores,
    *,
    worse: Literal["up", "down"],
    share: bool,
    unit_range: bool,
    clusters: Mapping[str, str] | None = None,
    crossed: bool = False,
) -> Amount | None:
    """The mean of all scores with its limits; None where one unit alone is known.

    Over units: Clopper-Pearson for shares, and for scores in [0, 1] that are all alike; else
    Student over clusters. Over two seeds or more: Student over their means, of what lies in [0, 1]
    on the arcsine scale.

    Args:
        scores: seed -> unit -> score.
        worse: the direction in which it leaks, or in which utility is lost.
        share: units score 0 or 1 (ties and failures between).
        unit_range: the metric lies in [0, 1].
        clusters: unit -> cluster, for the units that are not their own.
        crossed: the units are the same in every seed and are averaged over them first (utility).
    """
    crossed = crossed and len({u for units in scores.values() for u in units}) > 1
    shared = clusters or {}
    flat = [x for units in scores.values() for x in units.values()]
    if not flat:
        return None

    def block(seed: int, unit: str) -> str:
        own = shared.get(unit, unit)
        return own if crossed else f"{seed}|{own}"

    found: list[Bound] = []
    spread = spread_of(scores, block)
    if share and not crossed and not shared:
        found.append(Exact(math.fsum(flat), len(flat)))
    elif (share or unit_range) and spread.alike():
        found.append(Exact(spread.mean * spread.count, spread.count))
    elif spread.count > 1:
        found.append(one_sample(spread))
    if len(scores) > 1:
        means = [math.fsum(units.values()) / len(units) for units in scores.values()]
        found.append(Arcsine.of(means) if share or unit_range else one_sample(Spread.of(means)))
    return Amount(math.fsum(flat) / len(flat), worse, tuple(found)) if found else None
