"""Best trade-offs by each attacker, and what of the papers' own is lost to a stronger one. All
corners are in data units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from leakbench.judging import Judged, Question, better
from reports._attackers import PAPER, counts, row_of

Corner = tuple[float, float]  # leakage, utility
Slab = tuple[float, float, float, float]  # leakage from, to; utility from, to


@dataclass(frozen=True)
class Trade:
    """A setting's place by one attacker: leakage and utility in data units."""

    judged: Judged
    leak: float
    gain: float


@dataclass(frozen=True)
class Axes:
    """Which way is better, and where the steps leave the chart: the worst leakage and the worst
    utility that it shows.
    """

    leaks_up: bool
    gains_up: bool
    most: float
    least: float

    @classmethod
    def of(
        cls, question: Question, leakage: tuple[float, float], utility: tuple[float, float]
    ) -> Axes:
        """From the domains of the two axes, (lowest, highest) of each."""
        up = next(
            (
                better(j.setting.utility.metric) == "up"
                for j in question.judged
                if j.setting.utility
            ),
            True,
        )
        leaks = question.leaks == "up"
        return cls(
            leaks, up, max(leakage) if leaks else min(leakage), min(utility) if up else max(utility)
        )

    def turned(self, leak: float, gain: float) -> Corner:
        """Less of the first and more of the second is better."""
        return (leak if self.leaks_up else -leak), (gain if self.gains_up else -gain)


def trades(question: Question, key: str) -> list[Trade]:
    """Every setting that this attacker may speak of: dead runs and attacks too weak to judge are
    none of them.

    Where only the paper's own attack counts, that is not the worst case: no stronger attacker has
    tried to take it away.
    """
    out = []
    for j in question.judged:
        row, u = row_of(j, key), j.setting.utility
        if (
            row is not None
            and u is not None
            and counts(j, row)
            and (key == PAPER or j.verdict.rule != 6)
        ):
            out.append(Trade(j, row.value, u.value))
    return out


def front(question: Question, key: str, axes: Axes) -> list[Trade]:
    """Those that no other betters, safest first."""
    return sorted(
        undominated(trades(question, key), axes), key=lambda t: axes.turned(t.leak, t.gain)
    )


def undominated(live: Sequence[Trade], axes: Axes) -> list[Trade]:
    """Those for which no other is as good in both and better in one."""
    at = [axes.turned(t.leak, t.gain) for t in live]
    return [
        t
        for t, (x, y) in zip(live, at, strict=True)
        if not any(a <= x and b >= y and (a, b) != (x, y) for a, b in at)
    ]


def steps(best: Sequence[Trade], axes: Axes) -> list[Corner]:
    """The corners of a front's staircase, from the bottom of the chart to its right edge; of no
    settings none.
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
