"""Are two rows of a table apart, and how many seeds would it take to tell?

Of a gain, where both rows have numbers of the same seeds, seed by seed: what a split does to both
does not part them. Else by their intervals, which must not touch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from leakbench.reproduce.row import Measurement
from leakbench.statistics.intervals import t_quantile
from leakbench.statistics.limits import Pivot, Spread, one_sample

Relation = Literal["below", "in order", "out of order", "above"]
LEVEL = 0.05  # two-sided, over all pairs that a statement compares
MOST = 100  # seeds: of more nobody is told
FEWEST = 3  # seeds, from which on an interval speaks of the method


def relation(a: Measurement, b: Measurement, among: int = 1) -> Relation:
    """Is ``a`` below ``b``, told apart from it, only by value (or equal), or the other way?

    ``among``: how many pairs are compared for one statement, for each of which less may err.
    """
    if a.highest < b.lowest or _below(_paired(a, b), among):
        return "below"
    if a.lowest > b.highest or _below(_paired(b, a), among):
        return "above"
    return "in order" if a.value <= b.value else "out of order"


def seeds_needed(a: Measurement, b: Measurement, seeds: int, among: int = 1) -> int | None:
    """About how many seeds tell two rows apart, if their difference and their spread stay.

    None where it would be more than ``MOST``. ``seeds``: how many the rows have now.
    """
    if seeds < FEWEST:
        return FEWEST
    now = _paired(a, b)
    if now is None:
        return _first(seeds, lambda k: _apart(a, b, seeds, k))
    both = now.freedom + 1  # seeds, of which either row may have more
    return _first(seeds, lambda k: _outside(now.scaled(k / both), among))


def seeds_beside(m: Measurement, limit: float, seeds: int) -> int | None:
    """About how many seeds put all of a row's interval on one side of ``limit``, as above."""
    return FEWEST if seeds < FEWEST else _first(seeds, lambda k: _clear(m, limit, seeds, k))


def seeds_within(m: Measurement, value: float, margin: float, seeds: int) -> int | None:
    """About how many seeds bring all of a row's interval within ``margin`` of ``value``, likewise.

    Of proportions at an end, whose intervals shrink faster, they are too many.
    """
    off = max(value - m.lowest, m.highest - value)
    if seeds < FEWEST:
        return FEWEST
    return _first(seeds, lambda k: off * _shrunk(seeds, k) <= margin)


def most_above(a: Measurement, b: Measurement, among: int = 1) -> float:
    """The most that ``a`` is above ``b``, with 95 % confidence.

    By both rows' intervals, or seed by seed where that says more.
    """
    apart = a.value - b.value + math.hypot(a.highest - a.value, b.value - b.lowest)
    d = _paired(a, b)
    return apart if d is None else min(apart, d.upper(LEVEL / among / 2))


def no_more_than(a: Measurement, b: Measurement, among: int = 1) -> float | None:
    """What matters of the metric, if ``a`` is surely not above ``b`` by more; else None.

    Of a number without an interval nobody is sure.
    """
    meaning = None if a.low is None or b.low is None else a.meaning
    if meaning is None or meaning.scale != "linear" or most_above(a, b, among) > meaning.matters:
        return None
    return meaning.matters


def seeds_of_margin(a: Measurement, b: Measurement, seeds: int, among: int = 1) -> int | None:
    """About how many seeds tell whether ``a`` is above ``b`` by more than matters, likewise."""
    if seeds < FEWEST or a.meaning is None:
        return FEWEST
    above, matters = a.value - b.value, a.meaning.matters
    width = most_above(a, b, among) - above
    return _first(seeds, lambda k: abs(matters - above) > width * _shrunk(seeds, k))


def _first(seeds: int, told: Callable[[int], bool]) -> int | None:
    """The least number of seeds beyond those that there are that tells."""
    return next((k for k in range(seeds + 1, MOST + 1) if told(k)), None)


def _paired(a: Measurement, b: Measurement) -> Pivot | None:
    """``a`` less ``b``, seed by seed; None where fewer than two have both, or all are alike."""
    both = sorted(a.each.keys() & b.each.keys())
    spread = Spread.of([a.each[s] - b.each[s] for s in both]) if len(both) > 1 else None
    return None if spread is None or spread.alike() else one_sample(spread)


def _below(d: Pivot | None, among: int) -> bool:
    """Is all of the interval below 0?"""
    return d is not None and d.upper(LEVEL / among / 2) < 0


def _outside(d: Pivot, among: int) -> bool:
    """Is 0 outside of the interval?"""
    return _below(d, among) or d.lower(LEVEL / among / 2) > 0


def _apart(a: Measurement, b: Measurement, seeds: int, k: int) -> bool:
    """Would their intervals touch no longer?"""
    low, high = (a, b) if a.value < b.value else (b, a)
    width = (low.highest - low.value) + (high.value - high.lowest)
    return high.value - low.value > width * _shrunk(seeds, k)


def _clear(m: Measurement, limit: float, seeds: int, k: int) -> bool:
    width = m.highest - m.value if m.value < limit else m.value - m.lowest
    return abs(m.value - limit) > width * _shrunk(seeds, k)


def _shrunk(seeds: int, k: int) -> float:
    """To what part Student's interval over so many seeds shrinks with ``k``."""
    now, then = (t_quantile(1 - LEVEL / 2, n - 1) / math.sqrt(n) for n in (seeds, k))
    return then / now
