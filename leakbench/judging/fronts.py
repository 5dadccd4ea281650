"""Best trade-offs by each attacker, and what of the papers' own a stronger one takes away.

All corners are in data units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from leakbench.judging.attackers import PAPER, row_of
from leakbench.judging.question import Judged, Question
from leakbench.results import front as _front
from leakbench.results.number import Number

Corner = tuple[float, float]  # leakage, utility
Slab = tuple[float, float, float, float]  # leakage from, to; utility from, to


@dataclass(frozen=True)
class Trade:
    """A setting's place by one attacker."""

    judged: Judged
    number: Number

    @property
    def leak(self) -> float:
        """The leakage, as measured."""
        return self.number.value.value

    @property
    def gain(self) -> float:
        """The utility, as measured."""
        return self.number.utility.value.value


@dataclass(frozen=True)
class Axes:
    """Which way is better, and where the steps leave the chart."""

    leaks_up: bool
    gains_up: bool
    most: float  # the worst leakage that it shows
    least: float  # the worst utility that it shows

    @classmethod
    def of(
        cls, question: Question, leakage: tuple[float, float], utility: tuple[float, float]
    ) -> Axes:
        """From the domains of the two axes, (lowest, highest) of each."""
        gains = [j.setting.final.meaning.direction for j in question.judged if j.setting.final]
        up = not gains or gains[0] == "up"
        leaks = question.meaning.direction == "up"
        most = max(leakage) if leaks else min(leakage)
        return cls(leaks, up, most, min(utility) if up else max(utility))

    def turned(self, leak: float, gain: float) -> Corner:
        """Less of the first and more of the second is better."""
        return (leak if self.leaks_up else -leak), (gain if self.gains_up else -gain)


def trades(question: Question, key: str) -> list[Trade]:
    """Every setting that this attacker may speak of.

    Left out are dead runs, attacks too weak to judge, and the worst case where only the paper's own
    attack tried. To a stronger attacker also who cannot be judged: a low number that few units gave
    is no trade-off.
    """
    out = []
    for judged in question.judged:
        number = row_of(judged, key)
        if number is None or not judged.setting.final or not _front.fits_front(number):
            continue
        if key == PAPER or judged.verdict.judged:
            out.append(Trade(judged, number))
    return out


def front(question: Question, key: str, axes: Axes) -> list[Trade]:
    """Those that no other betters, safest first.

    Of the papers' own attacks they are those that tradeoff.csv names; of the worst case, too, where
    every setting could be judged.
    """
    every = trades(question, key)
    about = {t.number.configuration.key: t.judged.setting.about for t in every}
    best_numbers = _front.best_numbers([t.number for t in every], about)
    kept = {n.key for n in best_numbers}
    best = [t for t in every if t.number.key in kept]
    return sorted(best, key=lambda t: axes.turned(t.leak, t.gain))


def steps(best: Sequence[Trade], axes: Axes) -> list[Corner]:
    """The corners of a front's staircase, from the bottom of the chart to its right edge.

    A front of no settings has none.
    """
    out: list[Corner] = []
    for t in best:
        out += [(t.leak, out[-1][1] if out else axes.least), (t.leak, t.gain)]
    return [*out, (axes.most, out[-1][1])] if out else []


def lost(question: Question, key: str, axes: Axes) -> list[Slab]:
    """Where a paper's own attack promises a trade-off that this attacker takes away.

    Only settings that both attacked make the promise: what a stronger attacker did not try was not
    lost to it.
    """
    own, now = trades(question, PAPER), front(question, key, axes)
    both = {id(t.judged) for t in trades(question, key)}
    promised = [axes.turned(t.leak, t.gain) for t in own if id(t.judged) in both]
    left = [axes.turned(t.leak, t.gain) for t in now]
    end, bottom = axes.turned(axes.most, axes.least)
    edges = sorted({x for x, _ in (*promised, *left) if x < end} | {end})
    out: list[Slab] = []
    for a, b in pairwise(edges):
        high = max((y for x, y in promised if x <= a), default=bottom)
        low = max((y for x, y in left if x <= a), default=bottom)
        if high > low:
            (x0, y0), (x1, y1) = axes.turned(a, low), axes.turned(b, high)
            if out and out[-1][2:] == (y0, y1):
                out[-1] = (out[-1][0], x1, y0, y1)
            else:
                out.append((x0, x1, y0, y1))
    return out
