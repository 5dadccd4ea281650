"""One line from the blind guess to nothing defended, with a dot per attacker: percent coordinates,
so it serves every width.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup

from leakbench.judging import Number, Question, plain, words
from reports._chart.scale import Scale, domain
from reports._chart.svg import tag

HEIGHT, MIDDLE = 20, 10
# A dot must not be cut off at the end of the scale.
START, STOP = 1.5, 98.5


@dataclass(frozen=True)
class Dot:
    """``kind``: an attacker's key, the class that gives it its look; ``name``: for those who do not
    see it.
    """

    kind: str
    name: str
    row: Number


def scale(question: Question) -> Scale:
    """From values of the question's metric to percent of a track's width, the same for all its
    settings; right leaks more.
    """
    spoken = words(question.metric)
    rows = [
        r
        for j in question.judged
        for r in (*j.case.attacks, j.case.cascade, j.case.any_attack)
        if r is not None
    ]
    low, high = domain(
        [v for r in rows for v in (r.value, r.low, r.high, r.floor, r.control)],
        spoken.end,
        log=spoken.log,
        full=True,
    )
    ends = (START, STOP) if question.leaks == "up" else (STOP, START)
    return Scale(low, high, *ends, spoken.log)


def track(metric: str, to: Scale, dots: Iterable[Dot], *, bars: bool = False) -> Markup:
    """Dots in their order, the last on top; floor and control are those of the last dot's row.
    ``bars``: with 95 % intervals.
    """
    shown = list(dots)
    last = shown[-1].row
    told = [
        f"blind guess {plain(metric, last.floor)}",
        *(f"{d.name} {plain(metric, d.row.value)}" for d in shown),
    ]
    told.append(f"nothing defended {plain(metric, last.control)}")
    inside = [
        _across(to(last.floor), to(last.control), "base"),
        _upright(to(last.floor), "floor"),
        _upright(to(last.control), "ctl"),
        _across(to(shown[0].row.value), to(last.value), "reach") if len(shown) > 1 else "",
    ]
    for dot in shown:
        inside += [_across(to(dot.row.low), to(dot.row.high), "span")] if bars else []
        inside.append(
            tag("circle", cx=percent(to(dot.row.value)), cy=MIDDLE, r=4.5, class_=f"k {dot.kind}")
        )
    return tag(
        "svg",
        *inside,
        class_="track",
        role="img",
        aria_label=", ".join(told),
        width="100%",
        height=HEIGHT,
    )


def percent(x: float) -> str:
    """A coordinate as SVG writes it."""
    return f"{x:.2f}%"


def _across(a: float, b: float, css: str) -> Markup:
    return tag("line", x1=percent(a), x2=percent(b), y1=MIDDLE, y2=MIDDLE, class_=css)


def _upright(x: float, css: str) -> Markup:
    return tag("line", x1=percent(x), x2=percent(x), y1=3, y2=HEIGHT - 3, class_=css)
