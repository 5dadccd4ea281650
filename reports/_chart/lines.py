"""One small drawing of lines over rounds: bands for intervals, names at the ends, the blind guess
dotted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from leakbench.judging import plain, words
from leakbench.reporting import Curve
from reports._chart.labels import column
from reports._chart.scale import Scale, domain
from reports._chart.svg import path, tag, width

WIDE, HIGH = 392, 236
LEFT, RIGHT, TOP, BOTTOM = 34.0, 236.0, 12.0, 190.0
ROOM = WIDE - RIGHT - 14  # for a name at its line's end
# From here on a linear axis would hide the beginning.
LOG_FROM = 100


@dataclass(frozen=True)
class Line:
    """``tone``: leak, part, held, none; ``name`` stands at its end."""

    curve: Curve
    name: str
    tone: str


def lines(
    title: str,
    shown: Sequence[Line],
    last: int,
    *,
    end: tuple[float, float] | None,
    level: tuple[float, str] | None = None,
) -> Markup:
    """Rounds up to ``last`` across (log where they are many), values up. ``level``: a dotted line
    with its name, such as chance.

    A curve with a single round is a dot with its interval.
    """
    values = [
        v
        for line in shown
        for part in (line.curve.value, line.curve.low, line.curve.high, line.curve.floor)
        for v in part
    ]
    low, high = _heights([*values, *([level[0]] if level else [])], end)
    first = (
        1
        if all(len(line.curve.rounds) == 1 for line in shown)
        else min(line.curve.rounds[0] for line in shown)
    )
    xs = Scale(first, max(last, first + 1), LEFT, RIGHT, last >= LOG_FROM and first >= 1)
    ys = Scale(low, high, BOTTOM, TOP)
    parts = [_axes(xs, ys)]
    parts += [_band(line, xs, ys) for line in shown]
    parts += [_floor(line, xs, ys) for line in shown if line.curve.floor]
    if level:
        parts.append(path([(LEFT, ys(level[0])), (RIGHT, ys(level[0]))], class_="floor"))
        parts.append(tag("text", level[1], x=LEFT + 4, y=ys(level[0]) - 4, class_="ref"))
    parts += [_line(line, xs, ys) for line in shown]
    names = [(_short(line.name), RIGHT, ys(line.curve.value[-1])) for line in shown]
    tones = {(n[0], n[2]): line.tone for n, line in zip(names, shown, strict=True)}
    # Sorted as `column` sorts them, so that each label meets its own line's tone.
    for label, (text, _, y) in zip(
        column(names, RIGHT + 12, TOP - 6, BOTTOM + 4),
        sorted(names, key=lambda p: (p[2], p[0])),
        strict=True,
    ):
        parts += [
            path([(RIGHT + 1, y), (RIGHT + 10, label.y - 4)], class_="hair"),
            tag("text", text, x=label.x, y=label.y, class_=f"end {tones[text, y]}"),
        ]
    told = "; ".join(f"{line.name}: {_ends(line.curve)}" for line in shown)
    return tag(
        "svg",
        *parts,
        class_="lines",
        viewBox=f"0 0 {WIDE} {HIGH}",
        role="img",
        aria_label=f"{title}. {told}.",
    )


def _heights(values: Sequence[float], end: tuple[float, float] | None) -> tuple[float, float]:
    low, high = domain(values, end)
    return min(low, math.floor(min(values) * 10) / 10) if min(values) < 0 else low, high


def _axes(xs: Scale, ys: Scale) -> Markup:
    out = []
    for value, text in ys.ticks(4):
        out += [
            path([(LEFT, ys(value)), (RIGHT, ys(value))], class_="grid"),
            tag("text", text, x=LEFT - 6, y=ys(value) + 4, text_anchor="end"),
        ]
    for value, text in xs.ticks(4):
        out += [
            path([(xs(value), TOP), (xs(value), BOTTOM)], class_="grid"),
            tag("text", text, x=xs(value), y=BOTTOM + 16, text_anchor="middle"),
        ]
    name = "round (log)" if xs.log else "round"
    out.append(
        tag("text", name, x=(LEFT + RIGHT) / 2, y=BOTTOM + 34, text_anchor="middle", class_="ink")
    )
    return tag("g", *out, class_="ax", aria_hidden="true")


def _band(line: Line, xs: Scale, ys: Scale) -> Markup:
    c = line.curve
    if len(c.rounds) < 2 or c.low == c.high:
        return Markup("")
    upper = [(xs(t), ys(v)) for t, v in zip(c.rounds, c.high, strict=True)]
    lower = [(xs(t), ys(v)) for t, v in zip(c.rounds, c.low, strict=True)]
    return path([*upper, *reversed(lower)], class_=f"area {line.tone}")


def _floor(line: Line, xs: Scale, ys: Scale) -> Markup:
    c = line.curve
    if len(c.rounds) < 2:
        return path([(LEFT, ys(c.floor[0])), (RIGHT, ys(c.floor[0]))], class_="floor")
    return path([(xs(t), ys(v)) for t, v in zip(c.rounds, c.floor, strict=True)], class_="floor")


def _line(line: Line, xs: Scale, ys: Scale) -> Markup:
    c = line.curve
    if len(c.rounds) < 2:
        x = xs(c.rounds[0])
        bar = path([(x, ys(c.low[0])), (x, ys(c.high[0]))], class_=f"bar {line.tone}")
        return bar + tag("circle", cx=x, cy=ys(c.value[0]), r=3.5, class_=f"dot {line.tone}")
    return path(
        [(xs(t), ys(v)) for t, v in zip(c.rounds, c.value, strict=True)], class_=f"line {line.tone}"
    )


def _short(text: str) -> str:
    """Cut to what the margin holds."""
    while width(text) > ROOM:
        text = text[:-2].rstrip(" ,") + "…"
    return text


def _ends(c: Curve) -> str:
    last = f"{plain(c.name, c.value[-1])} in round {c.rounds[-1]}"
    return (
        last if len(c.rounds) < 2 else f"{plain(c.name, c.value[0])} in round {c.rounds[0]}, {last}"
    )


def value_end(name: str) -> tuple[float, float] | None:
    """The ends of a metric's or a diagnostic's range; correlations and cosines may fall below 0."""
    return {"prototype_mean_cosine": (0.0, 1.0), "prototype_distance_ratio": None}.get(
        name, words(name).end
    )
