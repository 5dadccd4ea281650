"""The words in a chart: which settings are labelled and where, and where "lost to the stronger
attacker" can be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from leakbench.judging import Corner, Slab
from reports._chart.labels import Box, Label, beside, column, within
from reports._chart.plot import Plot, Point, Size
from reports._chart.svg import width

# Above so many settings only some are labelled, and arrows and bars are faint.
FEW = 24
# The share of a label that may be covered where many compete for room.
COVERED = 0.25
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


def obstacles(
    plot: Plot, points: Sequence[Point], front: Sequence[tuple[float, float]]
) -> list[Box]:
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


def labels(
    points: Sequence[Point], on_front: Sequence[int], taken: list[Box], size: Size
) -> dict[int, Label]:
    """Setting -> its label; the boxes that they take are added to ``taken``.

    Wide: beyond 86 % of the width in one column in the right margin, else beside the point. Narrow:
    neighbours of a family share one. Where there are many settings, a label that would hide others
    is left out.
    """
    left, right = size.left, size.wide - size.right
    frame = (
        float(left) + 2,
        size.top - 2.0,
        float(right) + (size.right if size.column else 0),
        float(size.high - size.bottom),
    )
    edge, most = left + 0.86 * (right - left), COVERED if len(points) > FEW else None
    names = short_names(points)
    worthy = worth_a_label(points, on_front)
    live = [p for p in worthy if not p.judged.setting.dead]
    crowded = sorted(
        (p for p in live if size.column and p.x > edge),
        key=lambda p: (p.y, _cut(names[p.judged.setting.name], 22)),
    )
    stacked = column(
        [(_cut(names[p.judged.setting.name], 22), p.x, p.y) for p in crowded],
        right + 18.0,
        size.top - 6.0,
        frame[3],
    )
    out: dict[int, Label | None] = {
        p.judged.setting.index: label for p, label in zip(crowded, stacked, strict=True)
    }
    rest = [p for p in live if p not in crowded]
    for mates in [[p] for p in rest] if size.column else _neighbours(points, worthy):
        first = mates[0]
        text = (
            names[first.judged.setting.name]
            if len(mates) == 1
            else f"{first.judged.setting.name.split(' ')[0]} ×{len(mates)}"
        )
        out[first.judged.setting.index] = beside(
            _cut(text, 34 if size.column else 26), first.x, first.y, taken, frame, most=most
        )
    for p in worthy:
        if p.judged.setting.dead:
            out[p.judged.setting.index] = beside(
                f"{_cut(names[p.judged.setting.name], 28)}: dead", p.x, p.y, taken, frame, most=most
            )
    return {i: label for i, label in out.items() if label is not None}


def lost_place(
    plot: Plot, slabs: Sequence[Slab], taken: Sequence[Box]
) -> tuple[float, float] | None:
    """Where "lost to the stronger attacker" begins (left, first baseline), clear of everything;
    None where there is no room.
    """
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


def _neighbours(points: Sequence[Point], worthy: Sequence[Point]) -> list[list[Point]]:
    """Live points of one family that lie close together, for one label; only groups with one that
    is worth it.
    """
    groups: list[list[Point]] = []
    for p in sorted(
        (p for p in points if not p.judged.setting.dead),
        key=lambda p: (p.judged.setting.family, p.y),
    ):
        for group in groups:
            near = group[-1]
            if (
                near.judged.setting.family == p.judged.setting.family
                and abs(near.x - p.x) < 40
                and abs(near.y - p.y) < 36
            ):
                group.append(p)
                break
        else:
            groups.append([p])
    return [g for g in groups if any(p in worthy for p in g)]


def short_names(points: Sequence[Point]) -> dict[str, str]:
    """Each name without the last parameters that no two live settings of its family need to be told
    apart; wrappers stay.
    """
    out: dict[str, str] = {}
    for family in {p.judged.setting.family for p in points}:
        mine = [p.judged.setting for p in points if p.judged.setting.family == family]
        live = {s.name for s in mine if not s.dead}
        most = max(s.name.count(", ") for s in mine) + 1
        count = next(
            c
            for c in range(1, most + 1)
            if c == most or len({_told(n, c) for n in live}) == len(live)
        )
        out |= {s.name: _told(s.name, count) for s in mine}
    return out


def _told(name: str, count: int) -> str:
    """A name with its first ``count`` parameters and its wrappers."""
    head, joint, wrappers = name.partition(" + ")
    return ", ".join(head.split(", ")[:count]) + joint + wrappers


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
