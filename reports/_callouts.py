"""The words in a chart: which settings are labelled and where, and where "lost to the stronger attacker" can be read."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from reports._fronts import Corner, Slab
from reports._labels import Box, Label, beside, column, within
from reports._plot import Plot, Point, Size
from reports._svg import width

# Above so many settings only some are labelled, and arrows and bars are faint.
FEW = 24
LOST = ("lost to the", "stronger attacker")
LOST_SIZE = 13.5


def pixels(plot: Plot, corners: Sequence[Corner]) -> list[tuple[float, float]]:
    """Corners in data units as pixels."""
    return [(plot.xs(x), plot.ys(y)) for x, y in corners]


def slab_boxes(plot: Plot, slabs: Sequence[Slab]) -> list[Box]:
    """Slabs in data units as boxes of pixels."""
    out = []
    for x0, x1, y0, y1 in slabs:
        (a, b), (c, d) = sorted((plot.xs(x0), plot.xs(x1))), sorted((plot.ys(y0), plot.ys(y1)))
        out.append((a, c, b, d))
    return out


def obstacles(plot: Plot, points: Sequence[Point], front: Sequence[tuple[float, float]]) -> list[Box]:
    """What a label must keep clear of: points, bars, arrows and the staircase."""
    taken: list[Box] = []
    for p in points:
        taken.append((p.x - 8, p.y - 8, p.x + 8, p.y + 8))
        a, b = sorted((plot.xs(p.row.low), plot.xs(p.row.high)))
        taken.append((a, p.y - 3, b, p.y + 3))
        if p.paper is not None:
            taken.append((min(p.paper, p.x) - 4, p.y - 3, max(p.paper, p.x), p.y + 3))
    for (ax, ay), (bx, by) in pairwise(front):
        taken.append((min(ax, bx) - 2, min(ay, by) - 2, max(ax, bx) + 2, max(ay, by) + 2))
    return taken


def labels(points: Sequence[Point], on_front: Sequence[int], taken: list[Box], size: Size) -> dict[int, Label]:
    """Setting -> its label; the boxes that they take are added to ``taken``.

    Wide: beyond 86 % of the width in one column in the right margin, else beside the point. Narrow: neighbours of a family share one.
    """
    left, right = size.left, size.wide - size.right
    frame = (float(left) + 2, size.top - 2.0, float(right) + (size.right if size.column else 0), float(size.high - size.bottom))
    edge = left + 0.86 * (right - left)
    names = short_names([p.judged.setting.name for p in points])
    points = worth_a_label(points, on_front)
    live = [p for p in points if not p.judged.setting.dead]
    crowded = sorted((p for p in live if size.column and p.x > edge), key=lambda p: (p.y, _cut(names[p.judged.setting.name], 22)))
    stacked = column([(_cut(names[p.judged.setting.name], 22), p.x, p.y) for p in crowded], right + 18.0, size.top - 6.0, frame[3])
    out = {p.judged.setting.index: label for p, label in zip(crowded, stacked, strict=True)}
    rest = [p for p in live if p not in crowded]
    for mates in [[p] for p in rest] if size.column else _neighbours(rest):
        first = mates[0]
        text = names[first.judged.setting.name] if len(mates) == 1 else f"{first.judged.setting.name.split(' ')[0]} ×{len(mates)}"
        out[first.judged.setting.index] = beside(_cut(text, 34 if size.column else 26), first.x, first.y, taken, frame)
    for p in points:
        if p.judged.setting.dead:
            out[p.judged.setting.index] = beside(f"{_cut(names[p.judged.setting.name], 28)}: dead", p.x, p.y, taken, frame)
    return out


def lost_place(plot: Plot, slabs: Sequence[Slab], taken: Sequence[Box]) -> tuple[float, float] | None:
    """Where "lost to the stronger attacker" begins (left, first baseline), clear of everything; None where there is no room."""
    wide = max(width(line, LOST_SIZE) for line in LOST) * 1.06 + 8  # it is set bold
    at = within(slab_boxes(plot, slabs), wide, 40.0, taken)
    return None if at is None else (at[0] + 4, at[1] + 16)


def worth_a_label(points: Sequence[Point], on_front: Sequence[int]) -> Sequence[Point]:
    """All of few points; of many the front, the dead and each family's most useful one."""
    if len(points) <= FEW:
        return points
    top: dict[str, Point] = {}
    for p in points:
        family = p.judged.setting.family
        if not p.judged.setting.dead and (family not in top or p.y < top[family].y):
            top[family] = p
    chosen = [p for p in points if p.judged.setting.index in on_front or p in top.values()]
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


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Each name without the parameters, last ones first, that no two of these names need to be told apart; wrappers stay."""
    heads = {n: n.partition(" + ")[0].split(", ") for n in names}
    kept = {n: len(parts) for n, parts in heads.items()}

    def told(name: str, count: int) -> str:
        return ", ".join(heads[name][:count]) + "".join(name.partition(" + ")[1:])

    for name in heads:
        while kept[name] > 1 and told(name, kept[name] - 1) not in {told(n, c) for n, c in kept.items() if n != name}:
            kept[name] -= 1
    return {n: told(n, c) for n, c in kept.items()}


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
