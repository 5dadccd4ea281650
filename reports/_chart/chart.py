"""The trade-off chart of one question by one attacker: leakage across, utility up, better is up and
left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from leakbench.judging import Number, plain, words
from reports._chart.callouts import FEW, LOST, pixels, slab_boxes
from reports._chart.labels import Label
from reports._chart.plot import NARROW, WIDE, Plot, Size
from reports._chart.points import mark, way
from reports._chart.scene import Scene
from reports._chart.svg import path, tag, width

# How far beyond the plot's edges lines and circles are shown: half of what stands on an edge.
BLEED = 9.0


def chart(found: Scene, marks: Mapping[str, str], ident: str) -> Markup:
    """The SVG. ``ident``: the question's place in the page's data."""
    plot, size = found.plot, found.plot.size
    left, bottom = float(size.left), plot.ys.start
    metric = found.points[0].utility.metric
    ground = tag(
        "rect",
        x=left,
        y=plot.strip,
        width=size.wide - size.right - left,
        height=bottom - plot.strip,
        class_="strip",
    )
    stressed = set(found.on) if len(found.on) <= FEW else set()
    inside = [
        ground,
        path_of_boxes(plot, found),
        _lines(plot),
        path(pixels(plot, found.claimed), class_="front claimed"),
        path(pixels(plot, found.front), class_="front now"),
        *(way(p, plot, stressed=p.judged.setting.index in stressed) for p in found.points),
    ]
    parts = [
        _axes(metric, plot),
        tag("g", *inside, clip_path=f"url(#plot-{size.name})"),
        _line_names(plot),
        _lost(found.lost_at),
        tag("g", *(mark(p, marks[p.judged.setting.family]) for p in found.points), class_="pts"),
        tag(
            "g", *(_label(i, t) for i, t in found.labels.items()), class_="lbs", aria_hidden="true"
        ),
    ]
    told = (
        f"Trade-off chart, {plot.question.task}, {plot.question.label}: leakage against utility of"
        f" {len(found.points)} settings."
    )
    return tag(
        "svg",
        *parts,
        viewBox=f"0 0 {size.wide} {size.high}",
        class_=f"chart {size.name}" + (" many" if len(found.points) > FEW else ""),
        role="group",
        aria_label=f"{told} The table below holds the same numbers.",
        data_question=ident,
        data_size=size.name,
    )


def path_of_boxes(plot: Plot, found: Scene) -> Markup:
    """The hatched stretch between a paper's promise and what the attacker leaves of it."""
    boxes = slab_boxes(plot, found.lost)
    return tag(
        "path",
        d="".join(f"M{a:.1f} {b:.1f}H{c:.1f}V{d:.1f}H{a:.1f}Z" for a, b, c, d in boxes),
        class_="lost",
        fill="url(#hatch)",
    )


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
    box = tag(
        "rect", x=size.left - BLEED, y=size.top - BLEED, width=wide + 2 * BLEED, height=high + BLEED
    )
    return tag("clipPath", box, id=f"plot-{size.name}")


def _axes(metric: str, plot: Plot) -> Markup:
    size, xs, ys = plot.size, plot.xs, plot.ys
    left, right, top, bottom = size.left, size.wide - size.right, size.top, size.high - size.bottom
    ticks, out = [], []
    for value, text in xs.ticks(5 if size.column else 4):
        ticks += [
            path([(xs(value), top), (xs(value), bottom)], class_="grid"),
            tag("text", text, x=xs(value), y=bottom + 17, text_anchor="middle"),
        ]
    for value, text in ys.ticks():
        ticks += [
            path([(left, ys(value)), (right, ys(value))], class_="grid"),
            tag("text", text, x=left - 7, y=ys(value) + 4, text_anchor="end"),
        ]
    name, title = words(metric).title, words(plot.question.metric).title
    middle = (left + right) / 2
    if size.column:
        turned = {
            "transform": f"rotate(-90 12 {(top + bottom) / 2:.1f})",
            "x": 12,
            "y": (top + bottom) / 2,
            "text_anchor": "middle",
        }
        out += [tag("text", f"utility: {name}, better →", class_="ink", **turned)]
        out += [
            tag("text", "← safer", x=left, y=bottom + 37),
            tag("text", "leaks more →", x=right, y=bottom + 37, text_anchor="end"),
        ]
        title = (
            f"leakage: {title}" if width(f"leakage: {title}", 12) < right - left - 150 else title
        )
        out += [tag("text", title, x=middle, y=bottom + 37, class_="ink", text_anchor="middle")]
    else:
        out += [tag("text", f"↑ {name}", x=2, y=12, class_="ink")]
        room = "leakage" if width(title, 12) > 230 else title
        out += [
            tag("text", room, x=left, y=bottom + 37, class_="ink"),
            tag("text", "worse →", x=right, y=bottom + 37, text_anchor="end"),
        ]
    return tag("g", tag("g", *ticks, class_="ticks"), *out, class_="ax", aria_hidden="true")


def _ends(rows: Sequence[Number]) -> list[tuple[str, str, float, float]]:
    """Blind guess and control: (class, name, lowest, highest)."""
    out = []
    for values, css, name in (
        ([r.floor for r in rows], "floor", "blind guess"),
        ([r.control for r in rows], "ctl", "nothing defended"),
    ):
        out.append((css, name, min(values), max(values)))
    return out


def _lines(plot: Plot) -> Markup:
    """Blind guess and control: a line, or a band where they differ between settings. They carry
    their values, for zooming.
    """
    xs, ys = plot.xs, plot.ys
    out = []
    for css, _, low, high in _ends(plot.rows):
        a, b = sorted((xs(low), xs(high)))
        if b - a > 2:
            given = {"data_from": repr(low), "data_to": repr(high)}
            out.append(
                tag(
                    "rect",
                    x=a,
                    y=ys.stop,
                    width=b - a,
                    height=ys.start - ys.stop,
                    class_=f"{css} band",
                    **given,
                )
            )
        for value in dict.fromkeys((low, high)):
            out.append(
                path([(xs(value), ys.stop), (xs(value), ys.start)], class_=css, data_at=repr(value))
            )
    return tag("g", *out, class_="refs", aria_hidden="true")


def _line_names(plot: Plot) -> Markup:
    metric, size = plot.question.metric, plot.size
    out = []
    for css, name, low, high in _ends(plot.rows):
        a, b = sorted((plot.xs(low), plot.xs(high)))
        text = f"{name} {plain(metric, low)}" + (f" to {plain(metric, high)}" if b - a > 2 else "")
        flip = (css == "ctl") == (plot.question.leaks == "up")
        at = (b if size.column else max(b, size.left + 150.0)) if flip else a
        out.append(
            tag(
                "text",
                text,
                x=at,
                y=size.top - 8,
                class_="ref",
                text_anchor="end" if flip else "start",
            )
        )
    return tag("g", *out, class_="refnames", aria_hidden="true")


def _lost(at: tuple[float, float] | None) -> Markup:
    """The words in the hatching; where they have no room they wait, unseen, for an attacker that
    leaves them some.
    """
    lines = [tag("text", line, y=16.0 * i) for i, line in enumerate(LOST)]
    place: dict[str, Any] = (
        {"transform": f"translate({at[0]:.1f} {at[1]:.1f})"} if at else {"display": "none"}
    )
    return tag("g", *lines, class_="lostword", aria_hidden="true", **place)


def _label(index: int, label: Label) -> Markup:
    words_ = tag("text", label.text, x=label.x, y=label.y, text_anchor=label.anchor, class_="lab")
    return tag("g", path(list(label.hair), class_="hair"), words_, class_="lb", data_id=index)
