"""How much more data would settle a verdict."""

from __future__ import annotations

import math

from leakbench.results.number import Number
from leakbench.statistics.multiplicity import TAIL


def seeds_needed(n: Number, seeds: int) -> int | None:
    """About how many more than ``seeds`` would settle it, or None if none would.

    Intervals are taken to shrink with the square root of the seeds.
    """
    edge = n.blind + n.meaning.matters
    ratios = [(n.high - n.leak) / (edge - n.leak)] if n.leak < edge else []
    if n.leak > n.blind_high:
        ratios.append((n.leak - n.low) / (n.leak - n.blind_high))
    if not ratios:
        return None
    seeds = max(seeds, 1)
    return max(1, math.ceil(seeds * min(ratios) ** 2) - seeds)


def clusters_needed(n: Number) -> int | None:
    """About how many clusters of units would settle it, over all seeds; None if none would.

    Where the attack found nothing (or all) in every one of them, as many as bring the interval of a
    share within the margin; else intervals are taken to shrink with their square root.
    """
    if n.power is None:
        return None
    if n.few:
        return n.power.needed
    span = n.blind + n.meaning.matters
    least = n.meaning.low if n.meaning.direction == "up" else n.meaning.high
    if n.meaning.ends == (0, 1) and n.value.value == least and 0 < (room := _room(n, span)) < 1:
        return math.ceil(math.log(TAIL) / math.log(1 - room))
    ratios = [(n.high - n.leak) / (span - n.leak)] if n.leak < span else []
    if n.leak > n.blind_high:
        ratios.append((n.leak - n.low) / (n.leak - n.blind_high))
    return math.ceil(n.power.clusters * min(ratios) ** 2) if ratios else None


def _room(n: Number, edge: float) -> float:
    """Between nothing found and the edge of what may be called held, on a scale from 0 to 1."""
    return edge if n.meaning.direction == "up" else 1 + edge
