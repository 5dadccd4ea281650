"""How many members are named at which share of false alarms: both axes logarithmic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from leakbench.results import Roc
from reports._chart.labels import column
from reports._chart.lines import BOTTOM, COLOURS, DASHES, HIGH, LEFT, RIGHT, ROOM, TOP, WIDE
from reports._chart.scale import AxisScale
from reports._chart.svg import path, tag, width

CERTAIN = 0.01  # false alarms at which it is told in words, or one of fewer examples
GAP = 12  # between the drawing and the names


@dataclass(frozen=True)
class RocLine:
    """A curve as it is drawn: one look wherever the attack, and who listens, is the same."""

    roc: Roc
    name: str
    colour: int
    dash: int

    @property
    def look(self) -> str:
        """The classes of its drawing."""
        return f"f{self.colour % COLOURS} s{self.dash % DASHES}"


def roc_chart(title: str, shown: Sequence[RocLine]) -> Markup:
    """Curves, and beside them what each names where false alarms are rare, the most first.

    The axes begin at one false alarm; a share below that, also none at all, is drawn at the edge.
    The dotted diagonal is who guesses.
    """
    least = min(1 / line.roc.others for line in shown)
    share = max(CERTAIN, least)
    xs, ys = AxisScale(least, 1.0, LEFT, RIGHT, True), AxisScale(least, 1.0, BOTTOM, TOP, True)
    parts = [_axes(xs, ys, share), path([(LEFT, BOTTOM), (RIGHT, TOP)], class_="floor")]
    named = []
    for line in shown:
        r = line.roc
        steps = [(xs(x), ys(y)) for x, y in zip(r.false, r.true, strict=True)]
        parts.append(path(steps, class_=f"line {line.look}"))
        found = at(r, share)
        named.append((_fitting(f"{found:.2f} {line.name}"), ys(found), line.look))
    named.sort(key=lambda n: (n[1], n[0]))  # as `column` sorts them
    points = [(text, RIGHT, y) for text, y, _ in named]
    places = column(points, RIGHT + GAP, TOP + 6, BOTTOM)
    for label, (_, _, look) in zip(places, named, strict=True):
        parts.append(tag("text", label.text, x=label.x, y=label.y, class_=f"end {look}"))
    told = "; ".join(f"{line.name} names {at(line.roc, share):.2f} of members" for line in shown)
    return tag(
        "svg",
        *parts,
        class_="lines",
        viewBox=f"0 0 {WIDE} {HIGH}",
        role="img",
        aria_label=f"{title}. At {share:.1%} false alarms {told}.",
    )


def _fitting(text: str) -> str:
    while width(text) > ROOM:
        text = text.removesuffix("…")[:-1].rstrip(" ,") + "…"
    return text


def at(r: Roc, share: float) -> float:
    """The share of members that is named at so many false alarms, of one example at least."""
    fits = [y for x, y in zip(r.false, r.true, strict=True) if x <= share * (1 + 1e-9)]
    return fits[-1] if fits else r.true[0]


def _axes(xs: AxisScale, ys: AxisScale, share: float) -> Markup:
    out = [path([(xs(share), TOP), (xs(share), BOTTOM)], class_="floor")]
    for value, text in ys.ticks(4):
        out.append(path([(LEFT, ys(value)), (RIGHT, ys(value))], class_="grid"))
        out.append(tag("text", text, x=LEFT - 6, y=ys(value) + 4, text_anchor="end"))
    for value, text in xs.ticks(4):
        out.append(path([(xs(value), TOP), (xs(value), BOTTOM)], class_="grid"))
        out.append(tag("text", text, x=xs(value), y=BOTTOM + 16, text_anchor="middle"))
    if ys(share) < BOTTOM - 12:
        out.append(tag("text", "fewer", x=LEFT - 6, y=BOTTOM + 4, text_anchor="end"))
    middle = (LEFT + RIGHT) / 2
    across = "→ false alarms, ↑ members named (log)"
    out.append(tag("text", across, x=middle, y=BOTTOM + 34, text_anchor="middle"))
    told = f"members named at {share:g}"
    out.append(tag("text", told, x=RIGHT + GAP, y=TOP, class_="ink"))
    return tag("g", *out, class_="ax", aria_hidden="true")
