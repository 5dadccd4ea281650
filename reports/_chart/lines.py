"""One small drawing of lines, over rounds or over a parameter.

Bands for intervals, names at the ends, the blind guess dotted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

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
class Trace:
    """What a line goes through, from left to right."""

    at: tuple[float, ...]
    value: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    floor: tuple[float, ...] = ()  # the blind guess, where there is one


@dataclass(frozen=True)
class Across:
    """What runs across."""

    name: str
    first: float
    last: float
    log: bool
    at: str  # "in round": what stands before a place in a sentence
    marked: bool = False  # is each place a run of its own, and gets a dot?

    @classmethod
    def rounds(cls, shown: Sequence[Trace], last: int) -> Across:
        """From the first round that a line of several has, log where they are many."""
        first = min((t.at[0] for t in shown if len(t.at) > 1), default=1)
        log = last >= LOG_FROM and first >= 1
        return cls("round", first, max(last, first + 1), log, "in round")


@dataclass(frozen=True)
class CurveLine:
    """A line as it is drawn."""

    trace: Trace
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


def lines(title: str, shown: Sequence[CurveLine], across: Across, axis: Axis) -> Markup:
    """Values up. A line through a single place is a dot with its interval."""
    traces = [line.trace for line in shown]
    values = [v for t in traces for part in (t.value, t.low, t.high, t.floor) for v in part]
    values += [axis.level[0]] if axis.level else []
    low, high = _heights(values, axis.top)
    xs = AxisScale(across.first, across.last, LEFT, RIGHT, across.log)
    ys = AxisScale(low, high, BOTTOM, TOP)
    parts = [_axes(xs, ys, across)]
    parts += [_band(line, xs, ys) for line in shown]
    parts += [_floor(line.trace, xs, ys) for line in shown if line.trace.floor]
    if axis.level:
        height = ys(axis.level[0])
        parts.append(path([(LEFT, height), (RIGHT, height)], class_="floor"))
        parts.append(tag("text", axis.level[1], x=LEFT + 4, y=height - 4, class_="ref"))
    parts += [_line(line, xs, ys) for line in shown]
    if across.marked:
        parts += [_dots(line, xs, ys) for line in shown]
    parts += _names(shown, ys)
    told = "; ".join(f"{line.name}{_told(line)}: {_ends(line, across, axis)}" for line in shown)
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
    names = [(_label(line), RIGHT, ys(line.trace.value[-1])) for line in shown]
    looks = {(n[0], n[2]): line.look for n, line in zip(names, shown, strict=True)}
    names.sort(key=lambda p: (p[2], p[0]))  # as `column` sorts them: each meets its own look
    out = []
    for label, (text, _, y) in zip(
        column(names, RIGHT + 12, TOP - 6, BOTTOM + 4), names, strict=True
    ):
        out.append(path([(RIGHT + 1, y), (RIGHT + 10, label.y - 4)], class_="hair"))
        out.append(tag("text", text, x=label.x, y=label.y, class_=f"end {looks[text, y]}"))
    return out


def _axes(xs: AxisScale, ys: AxisScale, across: Across) -> Markup:
    out = []
    for value, text in ys.ticks(4):
        out.append(path([(LEFT, ys(value)), (RIGHT, ys(value))], class_="grid"))
        out.append(tag("text", text, x=LEFT - 6, y=ys(value) + 4, text_anchor="end"))
    for value, text in xs.ticks(4):
        out.append(path([(xs(value), TOP), (xs(value), BOTTOM)], class_="grid"))
        out.append(tag("text", text, x=xs(value), y=BOTTOM + 16, text_anchor="middle"))
    name, at = across.name + " (log)" * xs.log, (LEFT + RIGHT) / 2
    out.append(tag("text", name, x=at, y=BOTTOM + 34, text_anchor="middle", class_="ink"))
    return tag("g", *out, class_="ax", aria_hidden="true")


def _along(
    t: Trace, values: Sequence[float], xs: AxisScale, ys: AxisScale
) -> list[tuple[float, float]]:
    return [(xs(x), ys(v)) for x, v in zip(t.at, values, strict=True)]


def _band(line: CurveLine, xs: AxisScale, ys: AxisScale) -> Markup:
    t = line.trace
    if len(t.at) < 2 or t.low == t.high:
        return Markup("")
    upper, lower = _along(t, t.high, xs, ys), _along(t, t.low, xs, ys)
    return path([*upper, *reversed(lower)], class_=f"area {line.look}")


def _floor(t: Trace, xs: AxisScale, ys: AxisScale) -> Markup:
    if len(t.at) < 2:
        return path([(LEFT, ys(t.floor[0])), (RIGHT, ys(t.floor[0]))], class_="floor")
    return path(_along(t, t.floor, xs, ys), class_="floor")


def _line(line: CurveLine, xs: AxisScale, ys: AxisScale) -> Markup:
    t = line.trace
    if len(t.at) < 2:
        x = xs(t.at[0])
        bar = path([(x, ys(t.low[0])), (x, ys(t.high[0]))], class_=f"bar {line.look}")
        return bar + _dots(line, xs, ys)
    return path(_along(t, t.value, xs, ys), class_=f"line {line.look}")


def _dots(line: CurveLine, xs: AxisScale, ys: AxisScale) -> Markup:
    places = _along(line.trace, line.trace.value, xs, ys)
    return Markup("").join(
        tag("circle", cx=x, cy=y, r=3.5, class_=f"dot {line.look}") for x, y in places
    )


def _label(line: CurveLine) -> str:
    """What the margin holds: the name is cut where it must be, the verdict never."""
    end = f": {line.verdict}" if line.verdict else ""
    text = line.name
    while width(text + end) > ROOM:
        text = text.removesuffix("…")[:-1].rstrip(" ,") + "…"
    return text + end


def _told(line: CurveLine) -> str:
    return f" ({line.verdict})" if line.verdict else ""


def _ends(line: CurveLine, across: Across, axis: Axis) -> str:
    pairs = zip(line.trace.value, line.trace.at, strict=True)
    told = [f"{axis.text(v)} {across.at} {_plain(x)}" for v, x in pairs]
    return ", ".join(dict.fromkeys((told[0], told[-1])))


def _plain(x: float) -> str:
    return str(x) if isinstance(x, int) else f"{x:g}"
