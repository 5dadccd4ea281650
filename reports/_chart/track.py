"""One line from the blind guess to nothing defended, with a dot per attacker.

Its coordinates are in percent, so it serves every width.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup

from leakbench.judging import PAPER, Question
from leakbench.results import Number
from reports._chart.scale import AxisScale, leakage
from reports._chart.svg import tag

HEIGHT, MIDDLE = 20, 10
# A dot must not be cut off at the end of the scale.
START, STOP = 1.5, 98.5


@dataclass(frozen=True)
class Dot:
    """An attacker's dot on a track."""

    kind: str  # the attacker's key, the class that gives it its look
    name: str  # for those who do not see it
    row: Number


def scale(question: Question) -> AxisScale:
    """From values of the question's metric to percent of a track's width.

    It is the same for all its settings; right leaks more.
    """
    cases = [j.evidence for j in question.judged]
    rows = [r for c in cases for r in (*c.attacks, c.cascade, c.any_attack) if r is not None]
    return leakage(question.meaning, rows, START, STOP)


def track(to: AxisScale, dots: Iterable[Dot], *, bars: bool = False) -> Markup:
    """Dots in their order, the last on top; ``bars``: with 95 % intervals.

    Floor and control are those of the last dot's row.
    """
    shown = list(dots)
    last = shown[-1].row
    text, floor, control = last.meaning.text, last.floor.value, last.control.value
    inside = [
        _across(to(floor), to(control), "base"),
        _upright(to(floor), "floor"),
        _upright(to(control), "ctl"),
    ]
    if len(shown) > 1:
        inside.append(_across(to(shown[0].row.value.value), to(last.value.value), "reach"))
    told = [f"blind guess {text(floor)}"]
    for dot in shown:
        value = dot.row.value
        told.append(f"{dot.name} {text(value.value)}")
        if bars:
            inside.append(_across(to(value.low), to(value.high), "span"))
        inside.append(_mark(to(value.value), dot.kind))
    told.append(f"nothing defended {text(control)}")
    label = ", ".join(told)
    size = {"width": "100%", "height": HEIGHT}
    return tag("svg", *inside, class_="track", role="img", aria_label=label, **size)


def _mark(x: float, kind: str) -> Markup:
    """A dot; the paper's own attack is a bar, which no verdict is."""
    at = percent(x)
    if kind == PAPER:
        return tag("line", x1=at, x2=at, y1=MIDDLE - 5, y2=MIDDLE + 5, class_=f"k {kind}")
    return tag("circle", cx=at, cy=MIDDLE, r=4.5, class_=f"k {kind}")


def percent(x: float) -> str:
    """A coordinate as SVG writes it."""
    return f"{x:.2f}%"


def _across(a: float, b: float, css: str) -> Markup:
    return tag("line", x1=percent(a), x2=percent(b), y1=MIDDLE, y2=MIDDLE, class_=css)


def _upright(x: float, css: str) -> Markup:
    return tag("line", x1=percent(x), x2=percent(x), y1=3, y2=HEIGHT - 3, class_=css)
