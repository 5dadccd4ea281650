"""How many members are named at which share of false alarms: both axes logarithmic."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from leakbench.results import Roc
from reports._chart.labels import column
from reports._chart.lines import BOTTOM, COLOURS, HIGH, LEFT, RIGHT, TOP, WIDE
from reports._chart.scale import AxisScale
from reports._chart.svg import cut, path, tag

NAME = 32  # letters at a curve's end
CERTAIN = 0.01  # false alarms at which it is told in words, or one of fewer examples


def roc_chart(title: str, shown: Sequence[tuple[str, Roc]]) -> Markup:
    """Curves with their names at the right, and the diagonal of who guesses.

    A share below the first tick, also none at all, is drawn at the lower edge.
    """
    least = min(1 / r.others for _, r in shown)
    lowest = 10 ** _floor_of(least)
    xs, ys = AxisScale(lowest, 1.0, LEFT, RIGHT, True), AxisScale(lowest, 1.0, BOTTOM, TOP, True)
    parts = [_axes(xs, ys), path([(LEFT, BOTTOM), (RIGHT, TOP)], class_="floor")]
    named = []
    for i, (name, r) in enumerate(shown):
        look = f"f{i % COLOURS} s{i // COLOURS}"
        steps = [(xs(x), ys(y)) for x, y in zip(r.false, r.true, strict=True)]
        parts.append(path(steps, class_=f"line {look}"))
        named.append((name, steps[len(steps) // 2][1], look))
    named.sort(key=lambda n: (n[1], cut(n[0], NAME)))  # as `column` sorts them
    places = column([(cut(n, NAME), RIGHT, y) for n, y, _ in named], RIGHT + 12, TOP - 6, BOTTOM)
    for label, (_, _, look) in zip(places, named, strict=True):
        parts.append(tag("text", label.text, x=label.x, y=label.y, class_=f"end {look}"))
    share = max(CERTAIN, least)
    told = "; ".join(f"{name} names {at(r, share):.2f} of members" for name, r in shown)
    return tag(
        "svg",
        *parts,
        class_="lines",
        viewBox=f"0 0 {WIDE} {HIGH}",
        role="img",
        aria_label=f"{title}. At {share:.1%} false alarms {told}.",
    )


def at(r: Roc, share: float) -> float:
    """The share of members that is named at so many false alarms, of one example at least."""
    fits = [y for x, y in zip(r.false, r.true, strict=True) if x <= share * (1 + 1e-9)]
    return fits[-1] if fits else r.true[0]


def _floor_of(share: float) -> int:
    """The power of ten below a share."""
    power = 0
    while 10.0**power > share:
        power -= 1
    return power


def _axes(xs: AxisScale, ys: AxisScale) -> Markup:
    out = []
    for value, text in ys.ticks(4):
        out.append(path([(LEFT, ys(value)), (RIGHT, ys(value))], class_="grid"))
        out.append(tag("text", text, x=LEFT - 6, y=ys(value) + 4, text_anchor="end"))
    for value, text in xs.ticks(4):
        out.append(path([(xs(value), TOP), (xs(value), BOTTOM)], class_="grid"))
        out.append(tag("text", text, x=xs(value), y=BOTTOM + 16, text_anchor="middle"))
    middle = (LEFT + RIGHT) / 2
    out.append(tag("text", "false alarms (log)", x=middle, y=BOTTOM + 34, text_anchor="middle"))
    return tag("g", *out, class_="ax", aria_hidden="true")
