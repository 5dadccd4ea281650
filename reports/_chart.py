"""The trade-off chart of one question: leakage across, utility up, better is up and left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from leakbench.questions import better, words
from leakbench.settings import Question, Utility
from leakbench.verdict import Number
from leakbench.verdict_words import plain
from reports._points import FEW, Point, Size, arrow, bars, label_text, labels, mark, obstacles, stairs
from reports._scale import Scale, domain
from reports._svg import path, tag, width

WIDE = Size(786, 424, 52, 148)
NARROW = Size(358, 400, 38, 12, column=False)


def chart(question: Question, marks: Mapping[str, str], size: Size) -> Markup:
    """The SVG of a question's live, dead and weak settings."""
    shown = [(j, j.verdict.worst, j.setting.utility) for j in question.judged]
    live = [(j, w, u) for j, w, u in shown if w is not None and u is not None]
    if not live:
        return Markup("")
    xs, ys = _scales(question, [(w, u) for _, w, u in live], [j.verdict.paper for j, _, _ in live], size)
    chance = min(ys(live[0][2].chance), ys.start - 14)  # the strip of dead runs, never too thin to hold one
    points = []
    for j, w, u in live:
        y = min(max(ys(u.value), chance + 7), ys.start - 7) if j.setting.dead else ys(u.value)
        points.append(Point(j, w, u, xs(w.value), y, xs(j.verdict.paper.value) if j.verdict.paper and j.verdict.rule != 4 else None))
    front, claimed = stairs(points)
    taken = obstacles(points, front, xs)
    texts = labels(points, taken, size)
    parts = [
        tag(
            "rect", x=float(size.left), y=chance, width=float(size.wide - size.right - size.left), height=ys.start - chance, class_="strip"
        ),
        _axes(question, live[0][2].metric, xs, ys, size),
        _lines([w for _, w, _ in live], question, xs, ys, size),
        path(claimed, class_="front claimed") if len(claimed) > 1 else "",
        path(front, class_="front") if len(front) > 1 else "",
        *(bars(p, xs, ys) for p in points),
        *(arrow(p) for p in points),
        *(mark(p, marks[p.judged.setting.family]) for p in points),
        *(label_text(t) for t in texts),
    ]
    told = f"Trade-off chart, {question.task}, {question.label}: leakage against utility of {len(points)} settings."
    kind = ("wide" if size.column else "narrow") + (" many" if len(points) > FEW else "")
    return tag(
        "svg",
        *parts,
        viewBox=f"0 0 {size.wide} {size.high}",
        class_=f"chart {kind}",
        role="group",
        aria_label=f"{told} The table below holds the same numbers.",
    )


def _scales(question: Question, rows: Sequence[tuple[Number, Utility]], papers: Sequence[Number | None], size: Size) -> tuple[Scale, Scale]:
    spoken, metric = words(question.metric), rows[0][1].metric
    ends = [v for w, _ in rows for v in (w.value, w.low, w.high, w.floor, w.control)] + [p.value for p in papers if p]
    low, high = domain(ends, spoken.end, log=spoken.log, full=True)
    left, right = float(size.left), float(size.wide - size.right)
    xs = Scale(low, high, left, right, spoken.log) if question.leaks == "up" else Scale(low, high, right, left, spoken.log)
    low, high = domain([v for _, u in rows for v in (u.low, u.high, u.chance)], words(metric).end)
    bottom, top = float(size.high - size.bottom), float(size.top)
    return xs, Scale(low, high, bottom, top) if better(metric) == "up" else Scale(high, low, bottom, top)


def _axes(question: Question, metric: str, xs: Scale, ys: Scale, size: Size) -> Markup:
    left, right, top, bottom = size.left, size.wide - size.right, size.top, size.high - size.bottom
    out = []
    for value, text in xs.ticks(5 if size.column else 4):
        out += [
            path([(xs(value), top), (xs(value), bottom)], class_="grid"),
            tag("text", text, x=xs(value), y=bottom + 17, text_anchor="middle"),
        ]
    for value, text in ys.ticks():
        out += [
            path([(left, ys(value)), (right, ys(value))], class_="grid"),
            tag("text", text, x=left - 7, y=ys(value) + 4, text_anchor="end"),
        ]
    name, title = words(metric).title, words(question.metric).title
    middle = (left + right) / 2
    if size.column:
        turned = {"transform": f"rotate(-90 12 {(top + bottom) / 2:.1f})", "x": 12, "y": (top + bottom) / 2, "text_anchor": "middle"}
        out += [tag("text", f"utility: {name}, better →", class_="ink", **turned)]
        out += [tag("text", "← safer", x=left, y=bottom + 37), tag("text", "leaks more →", x=right, y=bottom + 37, text_anchor="end")]
        title = f"leakage: {title}" if width(f"leakage: {title}", 12) < right - left - 150 else title
        out += [tag("text", title, x=middle, y=bottom + 37, class_="ink", text_anchor="middle")]
    else:
        out += [tag("text", f"↑ {name}", x=2, y=12, class_="ink")]
        room = "leakage" if width(title, 12) > 230 else title
        out += [tag("text", room, x=left, y=bottom + 37, class_="ink"), tag("text", "worse →", x=right, y=bottom + 37, text_anchor="end")]
    return tag("g", *out, class_="ax", aria_hidden="true")


def _lines(rows: Sequence[Number], question: Question, xs: Scale, ys: Scale, size: Size) -> Markup:
    """Blind guess and control: a line, or a band where they differ between settings."""
    floors, controls = [r.floor for r in rows], [r.control for r in rows]
    out = []
    for values, css, name in ((floors, "floor", "blind guess"), (controls, "ctl", "nothing defended")):
        a, b = sorted((xs(min(values)), xs(max(values))))
        if b - a > 2:
            out.append(tag("rect", x=a, y=ys.stop, width=b - a, height=ys.start - ys.stop, class_=f"{css} band"))
        for x in {a, b}:
            out.append(path([(x, ys.stop), (x, ys.start)], class_=css))
        text = plain(question.metric, min(values))
        text = f"{name} {text}" if b - a <= 2 else f"{name} {text} to {plain(question.metric, max(values))}"
        flip = (css == "ctl") == (question.leaks == "up")
        anchor = "end" if flip else "start"
        at = (max(b, size.left + 150.0) if not size.column else b) if flip else a
        out.append(tag("text", text, x=at, y=size.top - 8, class_="ref", text_anchor=anchor))
    return tag("g", *out, aria_hidden="true")
