"""One small drawing of lines over rounds.

Bands for intervals, names at the ends, the blind guess dotted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from leakbench.reporting import Curve
from reports._chart.labels import column
from reports._chart.scale import AxisScale, domain
from reports._chart.svg import path, tag, width

WIDE, HIGH = 392, 236
LEFT, RIGHT, TOP, BOTTOM = 34.0, 206.0, 12.0, 190.0
ROOM = WIDE - RIGHT - 14  # for a name at its line's end
# The style has as many.
COLOURS, DASHES = 6, 4
# From here on a linear axis would hide the beginning.
LOG_FROM = 100


@dataclass(frozen=True)
class CurveLine:
    """A curve as it is drawn."""

    curve: Curve
    name: str  # stands at its end
    verdict: str = ""  # stands behind the name: a colour alone would not say it
    family: int = 0  # whose colour it has
    dash: int = 0  # which of that family's settings it is

    @property
    def look(self) -> str:
        """The classes of its drawing."""
        return f"f{self.family % COLOURS} s{self.dash % DASHES}"


@dataclass(frozen=True)
class Axis:
    """What stands upright."""

    top: float | None  # its end where it has one
    text: Callable[[float], str]  # how a value is written
    level: tuple[float, str] | None = None  # a dotted line with its name, such as chance


def lines(title: str, shown: Sequence[CurveLine], last: int, axis: Axis) -> Markup:
    """Rounds up to ``last`` across (log where they are many), values up.

    A curve with a single round is a dot with its interval.
    """
    curves = [line.curve for line in shown]
    values = [v for c in curves for part in (c.value, c.low, c.high, c.floor) for v in part]
    values += [axis.level[0]] if axis.level else []
    low, high = _heights(values, axis.top)
    first = 1
    if any(len(c.rounds) > 1 for c in curves):
        first = min(c.rounds[0] for c in curves)
    xs = AxisScale(first, max(last, first + 1), LEFT, RIGHT, last >= LOG_FROM and first >= 1)
    ys = AxisScale(low, high, BOTTOM, TOP)
    parts = [_axes(xs, ys)]
    parts += [_band(line, xs, ys) for line in shown]
    parts += [_floor(line.curve, xs, ys) for line in shown if line.curve.floor]
    if axis.level:
        height = ys(axis.level[0])
        parts.append(path([(LEFT, height), (RIGHT, height)], class_="floor"))
        parts.append(tag("text", axis.level[1], x=LEFT + 4, y=height - 4, class_="ref"))
    parts += [_line(line, xs, ys) for line in shown]
    parts += _names(shown, ys)
    told = "; ".join(f"{line.name}{_told(line)}: {_ends(line.curve, axis)}" for line in shown)
    label = f"{title}. {told}."
    return tag(
        "svg", *parts, class_="lines", viewBox=f"0 0 {WIDE} {HIGH}", role="img", aria_label=label
    )


def _heights(values: Sequence[float], top: float | None) -> tuple[float, float]:
    low, high = domain(values, top)
    if min(values) < 0:
        low = min(low, math.floor(min(values) * 10) / 10)
    return low, high


def _names(shown: Sequence[CurveLine], ys: AxisScale) -> list[Markup]:
    """At the lines' ends, with hair lines."""
    names = [(_label(line), RIGHT, ys(line.curve.value[-1])) for line in shown]
    looks = {(n[0], n[2]): line.look for n, line in zip(names, shown, strict=True)}
    names.sort(key=lambda p: (p[2], p[0]))  # as `column` sorts them: each meets its own look
    out = []
    for label, (text, _, y) in zip(
        column(names, RIGHT + 12, TOP - 6, BOTTOM + 4), names, strict=True
    ):
        out.append(path([(RIGHT + 1, y), (RIGHT + 10, label.y - 4)], class_="hair"))
        out.append(tag("text", text, x=label.x, y=label.y, class_=f"end {looks[text, y]}"))
    return out


def _axes(xs: AxisScale, ys: AxisScale) -> Markup:
    out = []
    for value, text in ys.ticks(4):
        out.append(path([(LEFT, ys(value)), (RIGHT, ys(value))], class_="grid"))
        out.append(tag("text", text, x=LEFT - 6, y=ys(value) + 4, text_anchor="end"))
    for value, text in xs.ticks(4):
        out.append(path([(xs(value), TOP), (xs(value), BOTTOM)], class_="grid"))
        out.append(tag("text", text, x=xs(value), y=BOTTOM + 16, text_anchor="middle"))
    name, at = "round (log)" if xs.log else "round", (LEFT + RIGHT) / 2
    out.append(tag("text", name, x=at, y=BOTTOM + 34, text_anchor="middle", class_="ink"))
    return tag("g", *out, class_="ax", aria_hidden="true")


def _along(
    c: Curve, values: Sequence[float], xs: AxisScale, ys: AxisScale
) -> list[tuple[float, float]]:
    return [(xs(t), ys(v)) for t, v in zip(c.rounds, values, strict=True)]


def _band(line: CurveLine, xs: AxisScale, ys: AxisScale) -> Markup:
    c = line.curve
    if len(c.rounds) < 2 or c.low == c.high:
        return Markup("")
    upper, lower = _along(c, c.high, xs, ys), _along(c, c.low, xs, ys)
    return path([*upper, *reversed(lower)], class_=f"area {line.look}")


def _floor(c: Curve, xs: AxisScale, ys: AxisScale) -> Markup:
    if len(c.rounds) < 2:
        return path([(LEFT, ys(c.floor[0])), (RIGHT, ys(c.floor[0]))], class_="floor")
    return path(_along(c, c.floor, xs, ys), class_="floor")


def _line(line: CurveLine, xs: AxisScale, ys: AxisScale) -> Markup:
    c = line.curve
    if len(c.rounds) < 2:
        x = xs(c.rounds[0])
        bar = path([(x, ys(c.low[0])), (x, ys(c.high[0]))], class_=f"bar {line.look}")
        return bar + tag("circle", cx=x, cy=ys(c.value[0]), r=3.5, class_=f"dot {line.look}")
    return path(_along(c, c.value, xs, ys), class_=f"line {line.look}")


def _label(line: CurveLine) -> str:
    """What the margin holds: the name is cut where it must be, the verdict never."""
    end = f": {line.verdict}" if line.verdict else ""
    text = line.name
    while width(text + end) > ROOM:
        text = text.removesuffix("…")[:-1].rstrip(" ,") + "…"
    return text + end


def _told(line: CurveLine) -> str:
    return f" ({line.verdict})" if line.verdict else ""


def _ends(c: Curve, axis: Axis) -> str:
    told = [f"{axis.text(v)} in round {t}" for v, t in zip(c.value, c.rounds, strict=True)]
    return ", ".join(dict.fromkeys((told[0], told[-1])))
