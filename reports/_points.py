"""What stands in the trade-off chart: a mark per setting, its intervals, its arrow, its label, and the fronts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from leakbench.questions import words
from leakbench.settings import Judged, Utility
from leakbench.verdict import Number
from leakbench.verdict_words import plain
from reports._labels import Box, Label, beside, column
from reports._scale import Scale
from reports._svg import SHAPES, path, shape, tag

# Above so many settings only some are labelled, and arrows and bars are faint.
FEW = 24


@dataclass(frozen=True)
class Size:
    """A drawing's pixels and margins; ``column``: whether crowded labels go to the right margin."""

    wide: int
    high: int
    left: int
    right: int
    top: int = 34
    bottom: int = 46
    column: bool = True


@dataclass(frozen=True)
class Point:
    """A setting in the chart, in pixels: its worst case and, if the paper's own attack ran, where that stands."""

    judged: Judged
    row: Number
    utility: Utility
    x: float
    y: float
    paper: float | None


def shapes(families: Sequence[str]) -> dict[str, str]:
    """Family -> mark, the same in every chart of a page."""
    return {f: SHAPES[i % len(SHAPES)] for i, f in enumerate(dict.fromkeys(families))}


def glyph(judged: Judged, mark: str, x: float, y: float, r: float = 6.0) -> Markup:
    """A mark filled by its verdict: full leaks, half in part, empty held, a cross dead, grey cannot be judged."""
    if judged.verdict.rule == 3 or judged.setting.dead:
        return shape("cross", x, y, r, class_="mk dead")
    kind = "open" if judged.verdict.rule in (6, 9) else judged.verdict.tone
    drawn = shape(mark, x, y, r, class_=f"mk {kind}", fill="url(#half)" if kind == "part" else None)
    return drawn + tag("text", "?", x=x, y=y + 3.6, class_="ask", text_anchor="middle") if kind == "open" else drawn


def half_fill() -> Markup:
    """The definition of the fill `half`, once a page, for every drawing."""
    stops = tag("stop", offset="50%", class_="hp") + tag("stop", offset="50%", class_="ht")
    return tag("defs", tag("linearGradient", stops, id="half"))


def stairs(points: Sequence[Point]) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Corners of the best trade-off by the worst case (as the table has it) and by the papers' own attacks; live settings only."""
    live = [p for p in points if not p.judged.setting.dead and p.judged.verdict.rule != 4]
    front = [(p.x, p.y) for p in live if p.judged.on_front]
    tested = [(p.paper, p.y) for p in live if p.paper is not None]
    own = [a for a in tested if not any(b != a and b[0] <= a[0] and b[1] <= a[1] for b in tested)]
    return _steps(front), _steps(own)


def _steps(corners: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    out: list[tuple[float, float]] = []
    for x, y in sorted(set(corners)):
        if out:
            out.append((x, out[-1][1]))
        out.append((x, y))
    return out


def obstacles(points: Sequence[Point], front: Sequence[tuple[float, float]], xs: Scale) -> list[Box]:
    taken: list[Box] = []
    for p in points:
        taken.append((p.x - 8, p.y - 8, p.x + 8, p.y + 8))
        a, b = sorted((xs(p.row.low), xs(p.row.high)))
        taken.append((a, p.y - 3, b, p.y + 3))
        if p.paper is not None:
            taken.append((min(p.paper, p.x) - 4, p.y - 3, max(p.paper, p.x), p.y + 3))
    for (ax, ay), (bx, by) in pairwise(front):
        taken.append((min(ax, bx) - 2, min(ay, by) - 2, max(ax, bx) + 2, max(ay, by) + 2))
    return taken


def labels(points: Sequence[Point], taken: list[Box], size: Size) -> list[Label]:
    left, right = size.left, size.wide - size.right
    frame = (float(left) + 2, size.top - 2.0, float(right) + (size.right if size.column else 0), float(size.high - size.bottom))
    edge = left + 0.86 * (right - left)
    points = worth_a_label(points)
    crowded = [p for p in points if size.column and p.x > edge and not p.judged.setting.dead]
    out = column([(_short(p.judged.setting.name, 22), p.x, p.y) for p in crowded], right + 18.0, size.top - 6.0, frame[3])
    rest = [p for p in points if p not in crowded]
    if not size.column:
        for mates in _neighbours([p for p in rest if not p.judged.setting.dead]):
            first = mates[0]
            text = first.judged.setting.name if len(mates) == 1 else f"{first.judged.setting.name.split(' ')[0]} ×{len(mates)}"
            out.append(beside(_short(text, 26), first.x, first.y, taken, frame))
        rest = [p for p in rest if p.judged.setting.dead]
    for p in rest:
        text = f"{p.judged.setting.name}: dead" if p.judged.setting.dead else p.judged.setting.name
        out.append(beside(_short(text, 34), p.x, p.y, taken, frame))
    return out


def worth_a_label(points: Sequence[Point]) -> Sequence[Point]:
    """All of few points; of many the front, the dead and each family's most useful one."""
    if len(points) <= FEW:
        return points
    top: dict[str, Point] = {}
    for p in points:
        family = p.judged.setting.family
        if not p.judged.setting.dead and (family not in top or p.y < top[family].y):
            top[family] = p
    chosen = [p for p in points if p.judged.on_front or p in top.values()]
    return [*chosen[: FEW - 4], *[p for p in points if p.judged.setting.dead][:4]]


def _neighbours(points: Sequence[Point]) -> list[list[Point]]:
    """Points of one family that lie close together, for one label."""
    groups: list[list[Point]] = []
    for p in sorted(points, key=lambda p: (p.judged.setting.family, p.y)):
        for group in groups:
            near = group[-1]
            if near.judged.setting.family == p.judged.setting.family and abs(near.x - p.x) < 40 and abs(near.y - p.y) < 36:
                group.append(p)
                break
        else:
            groups.append([p])
    return groups


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def bars(p: Point, xs: Scale, ys: Scale) -> Markup:
    """95 % intervals, both ways; a cross in the strip has none upwards, for it does not stand at its utility."""
    tone = "none" if p.judged.setting.dead else p.judged.verdict.tone
    across = path([(xs(p.row.low), p.y), (xs(p.row.high), p.y)], class_=f"bar {tone}")
    return across if p.judged.setting.dead else across + path([(p.x, ys(p.utility.low)), (p.x, ys(p.utility.high))], class_=f"bar {tone}")


def arrow(p: Point) -> Markup:
    """From what the paper's own attack reaches on the same run to the worst case: the attacker's doing alone."""
    if p.paper is None or p.judged.setting.dead:
        return Markup("")
    ghost = tag("circle", cx=p.paper, cy=p.y, r=3.2, class_="ghost")
    if abs(p.x - p.paper) < 14:
        return ghost
    way = 1 if p.x > p.paper else -1
    tip = p.x - way * 9
    head = path([(tip - way * 4, p.y - 3), (tip, p.y), (tip - way * 4, p.y + 3)], class_="arrow")
    return path([(p.paper + way * 4, p.y), (tip, p.y)], class_="arrow") + head + ghost


def mark(p: Point, kind: str) -> Markup:
    setting = p.judged.setting
    gain = f"{words(p.utility.metric).title} {plain(p.utility.metric, p.utility.value)}"
    told = f"{setting.name}: {gain}. {p.judged.sentence}"
    inside = [tag("title", told), tag("circle", cx=p.x, cy=p.y, r=15, class_="hit"), glyph(p.judged, kind, p.x, p.y)]
    return tag("a", *inside, href=f"#r{setting.index}", class_="pt", aria_label=told)


def label_text(label: Label) -> Markup:
    hair = path(list(label.hair), class_="hair") if label.hair else Markup("")
    return hair + tag("text", label.text, x=label.x, y=label.y, text_anchor=label.anchor, class_="lab")
