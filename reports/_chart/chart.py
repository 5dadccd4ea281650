"""The trade-off chart of one question by one attacker.

Leakage goes across, utility up; better is up and left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from leakbench.results import Number
from reports._chart.callouts import FEW, LOST, pixels, slab_boxes
from reports._chart.labels import Label, side_by_side
from reports._chart.plot import NARROW, WIDE, Plot, Size
from reports._chart.points import mark, way
from reports._chart.scale import blind_guess, nothing_defended
from reports._chart.scene import Scene
from reports._chart.svg import path, tag, width

# How far beyond the plot's edges lines and circles are shown: half of what stands on an edge.
BLEED = 9.0
REF_SIZE = 13.2  # of the names of lines: 12 by the style, and a tenth more for wide fonts


def chart(found: Scene, marks: Mapping[str, str], ident: str) -> Markup:
    """The SVG. ``ident``: the question's place in the page's data."""
    plot, size, points = found.plot, found.plot.size, found.points
    left, bottom = float(size.left), plot.ys.start
    wide, high = size.wide - size.right - left, bottom - plot.strip
    stressed = set(found.on) if len(found.on) <= FEW else set()
    inside = [
        tag("rect", x=left, y=plot.strip, width=wide, height=high, class_="strip"),
        path_of_boxes(plot, found),
        _lines(plot),
        path(pixels(plot, found.claimed), class_="front claimed"),
        path(pixels(plot, found.front), class_="front now"),
        *(way(p, plot, stressed=p.index in stressed) for p in points),
    ]
    labels = [_label(i, t) for i, t in found.labels.items()]
    parts = [
        _axes(points[0].utility.meaning.heading, plot),
        tag("g", *inside, clip_path=f"url(#plot-{size.name})"),
        _line_names(plot),
        _lost(found.lost_at),
        tag("g", *(mark(p, marks[p.family]) for p in points), class_="pts"),
        tag("g", *labels, class_="lbs", aria_hidden="true"),
    ]
    told = (
        f"Trade-off chart, {plot.question.task}, {plot.question.label}: leakage against utility of"
        f" {len(points)} settings. The table below holds the same numbers."
    )
    return tag(
        "svg",
        *parts,
        viewBox=f"0 0 {size.wide} {size.high}",
        class_=f"chart {size.name}" + " many" * (len(points) > FEW),
        role="group",
        aria_label=told,
        data_question=ident,
        data_size=size.name,
    )


def path_of_boxes(plot: Plot, found: Scene) -> Markup:
    """The hatched stretch between a paper's promise and what the attacker leaves of it."""
    boxes = slab_boxes(plot, found.lost)
    d = "".join(f"M{a:.1f} {b:.1f}H{c:.1f}V{d:.1f}H{a:.1f}Z" for a, b, c, d in boxes)
    return tag("path", d=d, class_="lost", fill="url(#hatch)")


def plot_fills() -> Markup:
    """What every chart of the page refers to: the hatching, and the plot's edges in both sizes."""
    lines = tag("rect", width=7, height=7, class_="hb") + tag("path", d="M0 0V7", class_="hl")
    hatch = tag(
        "pattern",
        lines,
        id="hatch",
        width=7,
        height=7,
        patternUnits="userSpaceOnUse",
        patternTransform="rotate(45)",
    )
    return tag("defs", hatch, *(_edges(s) for s in (WIDE, NARROW)))


def _edges(size: Size) -> Markup:
    wide, high = size.wide - size.left - size.right, size.high - size.top - size.bottom
    corner = {"x": size.left - BLEED, "y": size.top - BLEED}
    box = tag("rect", **corner, width=wide + 2 * BLEED, height=high + BLEED)
    return tag("clipPath", box, id=f"plot-{size.name}")


def _axes(utility: str, plot: Plot) -> Markup:
    """``utility``: its name."""
    size, xs, ys = plot.size, plot.xs, plot.ys
    left, right, top, bottom = size.left, size.wide - size.right, size.top, size.high - size.bottom
    ticks = []
    for value, text in xs.ticks(5 if size.column else 4):
        ticks.append(path([(xs(value), top), (xs(value), bottom)], class_="grid"))
        ticks.append(tag("text", text, x=xs(value), y=bottom + 17, text_anchor="middle"))
    for value, text in ys.ticks():
        ticks.append(path([(left, ys(value)), (right, ys(value))], class_="grid"))
        ticks.append(tag("text", text, x=left - 7, y=ys(value) + 4, text_anchor="end"))
    title, under = plot.question.meaning.heading, bottom + 37
    if size.column:
        middle, centre = (top + bottom) / 2, (left + right) / 2
        turned = {"transform": f"rotate(-90 12 {middle:.1f})", "x": 12, "y": middle}
        if width(f"leakage: {title}", 12) < right - left - 150:
            title = f"leakage: {title}"
        out = [
            tag(
                "text",
                f"utility: {utility}, better →",
                class_="ink",
                **turned,
                text_anchor="middle",
            ),
            tag("text", "← safer", x=left, y=under),
            tag("text", "leaks more →", x=right, y=under, text_anchor="end"),
            tag("text", title, x=centre, y=under, class_="ink", text_anchor="middle"),
        ]
    else:
        room = "leakage" if width(title, 12) > 230 else title
        out = [
            tag("text", f"↑ {utility}", x=2, y=12, class_="ink"),
            tag("text", room, x=left, y=under, class_="ink"),
            tag("text", "worse →", x=right, y=under, text_anchor="end"),
        ]
    return tag("g", tag("g", *ticks, class_="ticks"), *out, class_="ax", aria_hidden="true")


def _ends(rows: Sequence[Number]) -> list[tuple[str, str, float, float]]:
    """Blind guess and control: (class, name, lowest, highest)."""
    return [
        ("floor", "blind guess", *blind_guess(rows)),
        ("ctl", "nothing defended", *nothing_defended(rows)),
    ]


def _lines(plot: Plot) -> Markup:
    """Blind guess and control: a line, or a band where they differ or are not known well.

    They carry their values, for zooming.
    """
    xs, ys = plot.xs, plot.ys
    out = []
    for css, _, low, high in _ends(plot.rows):
        a, b = sorted((xs(low), xs(high)))
        if b - a > 2:
            place = {"x": a, "y": ys.stop, "width": b - a, "height": ys.start - ys.stop}
            given = {"class_": f"{css} band", "data_from": repr(low), "data_to": repr(high)}
            out.append(tag("rect", **place, **given))
        for value in dict.fromkeys((low, high)):
            ends = [(xs(value), ys.stop), (xs(value), ys.start)]
            out.append(path(ends, class_=css, data_at=repr(value)))
    return tag("g", *out, class_="refs", aria_hidden="true")


def _line_names(plot: Plot) -> Markup:
    """Each from its line inwards, unless both would meet."""
    meaning, size = plot.question.meaning, plot.size
    texts, spans = [], []
    for css, name, low, high in _ends(plot.rows):
        a, b = sorted((plot.xs(low), plot.xs(high)))
        text = f"{name} {meaning.text(low)}"
        if b - a > 2:
            text += f" to {meaning.text(high)}"
        wide = width(text, REF_SIZE)
        inwards = (css == "ctl") == (meaning.direction == "up")
        texts.append(text)
        spans.append((b - wide if inwards else a, wide))
    low, high, y = 2.0, size.wide - 2.0, size.top - 8.0
    places = side_by_side(spans[0], spans[1], low, high)
    lefts = [(left, y) for left in places or ()]
    if not lefts:  # two lines
        lefts = [(max(min(a, high - wide), low), y - 14.0 * i) for i, (a, wide) in enumerate(spans)]
    out = [
        tag("text", text, x=x, y=up, class_="ref")
        for text, (x, up) in zip(texts, lefts, strict=True)
    ]
    return tag("g", *out, class_="refnames", aria_hidden="true")


def _lost(at: tuple[float, float] | None) -> Markup:
    """The words in the hatching.

    Where they have no room they wait, unseen, for an attacker that leaves them some.
    """
    lines = [tag("text", line, y=16.0 * i) for i, line in enumerate(LOST)]
    place: dict[str, Any] = {"display": "none"}
    if at is not None:
        place = {"transform": f"translate({at[0]:.1f} {at[1]:.1f})"}
    return tag("g", *lines, class_="lostword", aria_hidden="true", **place)


def _label(index: int, label: Label) -> Markup:
    words = tag("text", label.text, x=label.x, y=label.y, text_anchor=label.anchor, class_="lab")
    return tag("g", path(list(label.hair), class_="hair"), words, class_="lb", data_id=index)
