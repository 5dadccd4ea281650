"""A small line from the blind guess to the control: where the paper's own attack stands on it, and
where the worst case does.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from leakbench.judging import Judged, Question
from leakbench.judging import PAPER, row_of
from reports._chart.plot import WIDE, plot
from reports._chart.points import tone
from reports._chart.scale import Scale
from reports._chart.svg import tag

MIDDLE = "50%"


def track_scale(question: Question) -> Scale | None:
    """The chart's own leakage axis, in percent of the width, so that one drawing serves all widths;
    None without a chart.
    """
    found = plot(question, WIDE)
    if found is None:
        return None
    xs = found.xs
    return Scale(
        xs.low, xs.high, *((0.0, 100.0) if question.leaks == "up" else (100.0, 0.0)), xs.log
    )


def track(judged: Sequence[Judged], scale: Scale) -> Markup:
    """One track for one setting or for a folded family: rings where papers' own attacks stand, dots
    where the worst case does.
    """
    rows = [(j, row_of(j, PAPER), j.verdict.worst) for j in judged]
    rows = [(j, p, w) for j, p, w in rows if w]
    if not rows:
        return Markup("")
    worst = [w for _, _, w in rows if w]
    parts = [_line(0.0, 100.0, "base")]
    parts += [_upright(scale(v), "fl") for v in sorted({w.floor for w in worst})[:1]]
    parts += [_upright(scale(v), "ct") for v in sorted({w.control for w in worst})[:1]]
    ends = [(scale(p.value), scale(w.value)) for _, p, w in rows if p and w]
    if ends:
        parts.append(_line(min(a for a, _ in ends), max(b for _, b in ends), "lk"))
    parts += [_dot(scale(p.value), "paper", 3.6) for _, p, _ in rows if p]
    parts += [_dot(scale(w.value), _kind(j), 4.6) for j, _, w in rows if w]
    return tag("svg", *parts, class_="trk", aria_hidden="true")


def _kind(judged: Judged) -> str:
    return "open" if judged.verdict.rule in (6, 9) else tone(judged)


def _at(percent: float) -> str:
    return f"{percent:.1f}%"


def _line(a: float, b: float, css: str) -> Markup:
    return tag("line", x1=_at(a), x2=_at(b), y1=MIDDLE, y2=MIDDLE, class_=css)


def _upright(x: float, css: str) -> Markup:
    return tag("line", x1=_at(x), x2=_at(x), y1="15%", y2="85%", class_=css)


def _dot(x: float, css: str, r: float) -> Markup:
    return tag(
        "circle",
        cx=_at(x),
        cy=MIDDLE,
        r=r,
        class_=f"d {css}",
        fill="url(#half)" if css == "part" else None,
    )
