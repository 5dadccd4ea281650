"""A small line from the blind guess to the control.

On it stand the paper's own attack and the worst case.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from leakbench.judging import PAPER, Judged, Question, row_of
from leakbench.results import Number
from reports._chart.plot import WIDE, plot
from reports._chart.points import look
from reports._chart.scale import AxisScale
from reports._chart.svg import tag

MIDDLE = "50%"


def track_scale(question: Question) -> AxisScale | None:
    """The chart's own leakage axis, in percent of the width; None without a chart.

    One drawing serves all widths.
    """
    found = plot(question, WIDE)
    if found is None:
        return None
    ends = (0.0, 100.0) if question.meaning.direction == "up" else (100.0, 0.0)
    return AxisScale(found.xs.low, found.xs.high, *ends, found.xs.log)


def track(judged: Sequence[Judged], scale: AxisScale | None) -> Markup:
    """One track for one setting or for a folded family.

    Bars stand where papers' own attacks are, dots where the worst case is.
    """
    rows = [(j, row_of(j, PAPER), w) for j in judged if (w := j.verdict.worst)]
    if scale is None or not rows:
        return Markup("")
    parts = [
        _line(0.0, 100.0, "base"),
        _upright(scale(min(w.floor.value for _, _, w in rows)), "fl"),
        _upright(scale(min(w.control.value for _, _, w in rows)), "ct"),
    ]
    ends = [(scale(p.value.value), scale(w.value.value)) for _, p, w in rows if p]
    if ends:
        parts.append(_line(min(a for a, _ in ends), max(b for _, b in ends), "lk"))
    parts += [_upright(a, "d paper") for a, _ in ends]
    parts += [_dot(scale(w.value.value), look(j), 4.6) for j, _, w in rows]
    return tag("svg", *parts, class_="trk", aria_hidden="true")


def place(row: Number, scale: AxisScale) -> str:
    """Where a number's dot stands."""
    return _at(scale(row.value.value))


def _at(percent: float) -> str:
    return f"{percent:.1f}%"


def _line(a: float, b: float, css: str) -> Markup:
    return tag("line", x1=_at(a), x2=_at(b), y1=MIDDLE, y2=MIDDLE, class_=css)


def _upright(x: float, css: str) -> Markup:
    return tag("line", x1=_at(x), x2=_at(x), y1="15%", y2="85%", class_=css)


def _dot(x: float, css: str, r: float) -> Markup:
    fill = "url(#half)" if css == "part" else None
    return tag("circle", cx=_at(x), cy=MIDDLE, r=r, class_=f"d {css}", fill=fill)
