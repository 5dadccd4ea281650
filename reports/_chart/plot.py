"""Where everything stands in a chart: its scales, and the settings' places.

The scales hold for every attacker, the places are by one of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from leakbench.judging import PAPER, Axes, Judged, Question, row_of
from leakbench.results import Number, Utility
from leakbench.words import ATTACKERS
from reports._chart.scale import AxisScale, domain, leakage, top_of


@dataclass(frozen=True)
class Size:
    """A drawing's pixels and margins."""

    name: str
    wide: int
    high: int
    left: int
    right: int
    top: int = 34
    bottom: int = 46
    column: bool = True  # do crowded labels go to the right margin?


WIDE = Size("wide", 786, 424, 52, 148)
NARROW = Size("narrow", 358, 400, 38, 12, column=False)


@dataclass(frozen=True)
class PlotPoint:
    """A setting in the chart, in pixels."""

    judged: Judged
    row: Number
    utility: Utility
    x: float  # by the chosen attacker
    y: float
    paper: float | None  # by the paper's own attack if that counts
    faint: bool = False  # the chosen attacker has no number here, so ``row`` is the worst case

    @property
    def index(self) -> int:
        """The setting's."""
        return self.judged.setting.index

    @property
    def family(self) -> str:
        """The setting's."""
        return self.judged.setting.family

    @property
    def dead(self) -> bool:
        """Is any seed?"""
        return self.judged.setting.dead


@dataclass(frozen=True)
class Plot:
    """One question in one size."""

    question: Question
    size: Size
    xs: AxisScale
    ys: AxisScale
    strip: float  # the pixel where the grey strip of chance and of dead runs begins
    axes: Axes

    @property
    def rows(self) -> list[Number]:
        """Every number that some attacker shows here."""
        return _rows(self.question)

    def points(self, key: str) -> list[PlotPoint]:
        """Every setting that has a leakage and a utility."""
        return [self._point(j, w, u, key) for j, w, u in _drawn(self.question)]

    def _point(self, judged: Judged, worst: Number, utility: Utility, key: str) -> PlotPoint:
        row = row_of(judged, key)
        paper = None if judged.verdict.rule == 4 or judged.setting.dead else row_of(judged, PAPER)
        y = self.ys(utility.value.value)
        if judged.setting.dead:
            y = min(max(y, self.strip + 7), self.ys.start - 7)
        shown = row or worst
        x = self.xs(shown.value.value)
        ghost = self.xs(paper.value.value) if paper else None
        return PlotPoint(judged, shown, utility, x, y, ghost, faint=row is None)


def plot(question: Question, size: Size) -> Plot | None:
    """The scales of a question's chart; None where no setting has both a leakage and a utility."""
    shown = _drawn(question)
    if not shown:
        return None
    left, right = float(size.left), float(size.wide - size.right)
    xs = leakage(question.meaning, _rows(question), left, right)
    ys = _utility([u for _, _, u in shown], size)
    strip = min(ys(shown[0][2].chance), ys.start - 14)  # never too thin to hold a cross
    axes = Axes.of(question, (xs.low, xs.high), (ys.low, ys.high))
    return Plot(question, size, xs, ys, strip, axes)


def _drawn(question: Question) -> list[tuple[Judged, Number, Utility]]:
    shown = [(j, j.verdict.worst, j.setting.final) for j in question.judged]
    return [(j, w, u) for j, w, u in shown if w is not None and u is not None]


def _rows(question: Question) -> list[Number]:
    return [r for j, _, _ in _drawn(question) for a in ATTACKERS if (r := row_of(j, a.key))]


def _utility(found: Sequence[Utility], size: Size) -> AxisScale:
    meaning = found[0].meaning
    ends = [v for u in found for v in (u.value.value, u.value.low, u.value.high, u.chance)]
    low, high = domain(ends, top_of(meaning))
    # A metric that begins at 0.5 leaves no room under its chance but for the strip.
    if low == 0.0 and min(ends) > 0.3:
        low = math.floor(min(ends) * 10 - 0.5) / 10
    if meaning.direction == "down":
        low, high = high, low
    return AxisScale(low, high, float(size.high - size.bottom), float(size.top))
