"""Are two rows of a table apart, and how many seeds would it take to tell?

Of a gain, where both rows have numbers of the same seeds, seed by seed: what a split does to both
does not part them. Else by their intervals, which must not touch. Who adds seeds where nothing is
told looks again: each look has its share of the level (``leakbench.statistics.looks.InterimLook``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import takewhile
from typing import Literal

from leakbench.reproduce.row import FEWEST, Measurement
from leakbench.statistics.intervals import t_quantile
from leakbench.statistics.limits import Pivot, Spread, one_sample
from leakbench.statistics.looks import InterimLook

Relation = Literal["below", "in order", "out of order", "above"]
# How often, at most, a verdict of one kind is wrong: over all pairs and looks of a statement.
LEVEL = 0.05
MOST = 100  # seeds: of more nobody is told


def relation(a: Measurement, b: Measurement, among: int = 1) -> Relation:
    """Is ``a`` below ``b``, told apart from it, only by value (or equal), or the other way?

    ``among``: how many pairs are compared for one statement, for each of which less may err.
    """
    alpha = LEVEL * _fewer(a, b).share / among
    if a.highest < b.lowest or _below(_paired(a, b), alpha):
        return "below"
    if a.lowest > b.highest or _below(_paired(b, a), alpha):
        return "above"
    return "in order" if a.value <= b.value else "out of order"


def seeds_needed(a: Measurement, b: Measurement, among: int = 1) -> int | None:
    """About how many seeds tell two rows apart, if their difference and their spread stay.

    Of the next looks that there can be. None where it would be more than ``MOST``.
    """
    fewer, now = _fewer(a, b), _paired(a, b)

    def told(then: InterimLook) -> bool:
        if now is None:
            return _apart(a, b, _shrunk(fewer, then))
        both = now.freedom + 1  # seeds, of which either row may have more
        return _outside(now.scaled(then.seeds / both), LEVEL * then.share / among)

    return _first(fewer, told)


def surely_within(m: Measurement, value: float, margin: float) -> bool:
    """Does all of its interval lie within ``margin`` of ``value``?"""
    return _off(m, value) * _wider(m, m.look.share) <= margin


def surely_outside(m: Measurement, value: float, margin: float, among: int = 1) -> bool:
    """Does none of its interval, on either side of which it may err, lie there?"""
    return _beyond(m, value, margin, _wider(m, m.look.share / among / 2))


def seeds_beside(m: Measurement, value: float, margin: float, among: int = 1) -> int | None:
    """About how many seeds put it surely outside, as above."""

    def told(then: InterimLook) -> bool:
        width = _shrunk(m.look, then) * _wider(m, then.share / among / 2)
        return _beyond(m, value, margin, width)

    return _first(m.look, told)


def seeds_within(m: Measurement, value: float, margin: float) -> int | None:
    """About how many seeds bring all of a row's interval within ``margin`` of ``value``, likewise.

    Of proportions at an end, whose intervals shrink faster, they are too many.
    """

    def told(then: InterimLook) -> bool:
        return _off(m, value) * _shrunk(m.look, then) * _wider(m, then.share) <= margin

    return _first(m.look, told)


def most_above(a: Measurement, b: Measurement, among: int = 1) -> float:
    """The most that ``a`` is above ``b``, with 95 % confidence over all looks.

    By both rows' intervals, or seed by seed where that says more.
    """
    share = _share(a, b) / among
    width = math.hypot(a.highest - a.value, b.value - b.lowest) * _wider(a, share)
    apart, d = a.value - b.value + width, _paired(a, b)
    return apart if d is None else min(apart, d.upper(LEVEL * _fewer(a, b).share / among))


def least_above(a: Measurement, b: Measurement, among: int = 1) -> float:
    """The least that ``a`` is above ``b``, likewise; nobody knows where one has no interval."""
    if None in (a.low, b.low):
        return -math.inf
    return -most_above(b, a, among)


def no_more_than(a: Measurement, b: Measurement, among: int = 1) -> float | None:
    """What matters of the metric, if ``a`` is surely not above ``b`` by more; else None.

    Where the paper itself prints less of a gap, it is that. Of a number without an interval nobody
    is sure.
    """
    matters = None if a.low is None or b.low is None else _margin(a, b)
    return None if matters is None or most_above(a, b, among) > matters else matters


def seeds_of_margin(a: Measurement, b: Measurement, among: int = 1) -> int | None:
    """About how many seeds tell whether ``a`` is above ``b`` by more than matters, likewise."""
    fewer, above, matters = _fewer(a, b), a.value - b.value, _margin(a, b)
    if matters is None:
        return None
    width = (most_above(a, b, among) - above) / _wider(a, _share(a, b) / among)

    def told(then: InterimLook) -> bool:
        return abs(matters - above) > width * _shrunk(fewer, then) * _wider(a, then.share / among)

    return _first(fewer, told)


def _margin(a: Measurement, b: Measurement) -> float | None:
    """What ``a`` is to be above ``b`` by; None of a metric whose differences have no scale."""
    if a.meaning is None or a.meaning.scale != "linear":
        return None
    claimed = None if a.claimed is None or b.claimed is None else a.claimed - b.claimed
    return min(a.meaning.matters, claimed) if claimed and claimed > 0 else a.meaning.matters


def _first(now: InterimLook, told: Callable[[InterimLook], bool]) -> int | None:
    """The seeds of the first look beyond the one that there is that tells."""
    if now.seeds < FEWEST:
        return FEWEST
    possible = takewhile(lambda then: then.seeds <= MOST, now.later())
    return next((then.seeds for then in possible if told(then)), None)


def _share(a: Measurement, b: Measurement) -> float:
    """Of the level, where all seeds count: that of the row which was looked at more often."""
    return min(a.look.share, b.look.share)


def _fewer(a: Measurement, b: Measurement) -> InterimLook:
    """Of the row with fewer seeds, which are those that both have."""
    return min(a.look, b.look, key=lambda look: look.seeds)


def _paired(a: Measurement, b: Measurement) -> Pivot | None:
    """``a`` less ``b``, seed by seed; None where fewer than two have both, or all are alike."""
    both = sorted(a.each.keys() & b.each.keys())
    spread = Spread.of([a.each[s] - b.each[s] for s in both]) if len(both) > 1 else None
    return None if spread is None or spread.alike() else one_sample(spread)


def _below(d: Pivot | None, alpha: float) -> bool:
    """Is all of the interval below 0?"""
    return d is not None and d.upper(alpha) < 0


def _outside(d: Pivot, alpha: float) -> bool:
    """Is 0 outside of the interval?"""
    return _below(d, alpha) or d.lower(alpha) > 0


def _apart(a: Measurement, b: Measurement, shrunk: float) -> bool:
    """Would their intervals touch no longer?"""
    low, high = (a, b) if a.value < b.value else (b, a)
    width = (low.highest - low.value) + (high.value - high.lowest)
    return high.value - low.value > width * shrunk


def _off(m: Measurement, value: float) -> float:
    """How far its interval reaches from ``value``."""
    return max(value - m.lowest, m.highest - value)


def _beyond(m: Measurement, value: float, margin: float, width: float) -> bool:
    """Are it and its interval, so much wider, further than ``margin`` from ``value``?"""
    reach = (m.highest - m.value if m.value < value else m.value - m.lowest) * width
    return abs(m.value - value) > reach + margin


def _wider(m: Measurement, share: float) -> float:
    """How much further than its interval a one-sided limit of a share of the level lies."""
    freedom = m.look.seeds - 1 if m.look.seeds > 1 else math.inf
    usual, now = (t_quantile(1 - LEVEL * part, freedom) for part in (0.5, share))
    return now / usual


def _shrunk(now: InterimLook, then: InterimLook) -> float:
    """To what part Student's interval over so many seeds shrinks with those of another look."""
    first, later = (
        t_quantile(1 - LEVEL / 2, k - 1) / math.sqrt(k) for k in (now.seeds, then.seeds)
    )
    return later / first
