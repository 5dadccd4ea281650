"""The words in a chart.

Which settings are labelled and where, and where "lost to the stronger attacker" can be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from leakbench.judging import Corner, Slab
from leakbench.results import setting_names
from reports._chart.labels import Box, Label, beside, box_of, column, overlap, within
from reports._chart.plot import Plot, PlotPoint, Size
from reports._chart.svg import cut, width

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
    plot: Plot, points: Sequence[PlotPoint], front: Sequence[tuple[float, float]]
) -> list[Box]:
    """What a label must keep clear of: points, bars, arrows and the staircase."""
    taken: list[Box] = []
    for p in points:
        taken.append((p.x - 8, p.y - 8, p.x + 8, p.y + 8))
        a, b = sorted((plot.xs(p.row.value.low), plot.xs(p.row.value.high)))
        taken.append((a, p.y - 3, b, p.y + 3))
        if p.paper is not None:
            taken.append((min(p.paper, p.x), p.y - 3, max(p.paper, p.x), p.y + 3))
            taken.append((p.paper - 3, p.y - 6, p.paper + 3, p.y + 6))
    for (ax, ay), (bx, by) in pairwise(front):
        taken.append((min(ax, bx) - 2, min(ay, by) - 2, max(ax, bx) + 2, max(ay, by) + 2))
    return taken


def labels(
    points: Sequence[PlotPoint], on_front: Sequence[int], taken: list[Box], size: Size
) -> dict[int, Label]:
    """Setting -> its label; the boxes that they take are added to ``taken``.

    Wide: beyond 86 % of the width in one column in the right margin, else beside the point. Narrow:
    neighbours of a family share one. Where there are many settings, a label that would hide others
    is left out, and so is one that would touch another.
    """
    left, right = float(size.left), float(size.wide - size.right)
    edge, bottom = left + 0.86 * (right - left), float(size.high - size.bottom)
    frame = (left + 2, size.top - 2.0, right + (size.right if size.column else 0), bottom)
    most = COVERED if len(points) > FEW else None
    names, worthy = short_names(points), worth_a_label(points, on_front)
    live = [p for p in worthy if not p.dead]
    crowded = [p for p in live if size.column and p.x > edge]
    margin = {p.index: cut(names[p.judged.setting.name], 22) for p in crowded}
    crowded.sort(key=lambda p: (p.y, margin[p.index]))
    places = [(margin[p.index], p.x, p.y) for p in crowded]
    stacked = column(places, right + 18.0, size.top - 6.0, bottom)
    out: dict[int, Label | None] = {}
    written = list(map(box_of, stacked))
    for p, label in zip(crowded, stacked, strict=True):
        out[p.index] = label
    groups = _neighbours(points, worthy)
    if size.column:
        groups = [[p] for p in live if p.index not in out]
    for mates in groups:
        p = mates[0]
        text = names[p.judged.setting.name]
        if len(mates) > 1:
            text = f"{p.judged.setting.title}: {len(mates)} here"
        text = cut(text, 34 if size.column else 26)
        out[p.index] = _clear(beside(text, p.x, p.y, taken, frame, most=most), written, most)
    for p in worthy:
        if p.dead:
            text = f"{cut(names[p.judged.setting.name], 28)}: dead"
            out[p.index] = _clear(beside(text, p.x, p.y, taken, frame, most=most), written, most)
    return {i: label for i, label in out.items() if label is not None}


def _clear(label: Label | None, written: list[Box], most: float | None) -> Label | None:
    """The label, now one of those ``written``; None where it touches one and there are many."""
    if label is None:
        return None
    box = box_of(label)
    if most is not None and overlap(np.array([box]), written).any():
        return None
    written.append(box)
    return label


def lost_place(
    plot: Plot, slabs: Sequence[Slab], taken: Sequence[Box]
) -> tuple[float, float] | None:
    """Where "lost to the stronger attacker" begins (left, first baseline), or None.

    It is clear of everything; None where there is no room.
    """
    wide = max(width(line, LOST_SIZE) for line in LOST) * 1.06 + 8  # it is set bold
    at = within(slab_boxes(plot, slabs), wide, 40.0, taken)
    return None if at is None else (at[0] + 4, at[1] + 16)


def worth_a_label(points: Sequence[PlotPoint], on_front: Sequence[int]) -> Sequence[PlotPoint]:
    """All of few points; of many the front, the dead and each family's most useful one.

    Useful is nobody who cannot be judged: a name there praises.
    """
    if len(points) <= FEW:
        return points
    top: dict[str, PlotPoint] = {}
    for p in points:
        if p.dead or not p.judged.verdict.judged:
            continue
        if p.family not in top or p.y < top[p.family].y:
            top[p.family] = p
    useful = {p.index for p in top.values()}
    chosen = [p for p in points if p.index in on_front or p.index in useful]
    return [*chosen[: FEW - 4], *[p for p in points if p.dead][:4]]


def _neighbours(points: Sequence[PlotPoint], worthy: Sequence[PlotPoint]) -> list[list[PlotPoint]]:
    """Live points of one family that lie close together, for one label.

    Only groups with one that is worth it.
    """
    groups: list[list[PlotPoint]] = []
    live = [p for p in points if not p.dead]
    for p in sorted(live, key=lambda p: (p.family, p.y)):
        mine = next((g for g in groups if _near(g[-1], p)), None)
        if mine is None:
            groups.append([p])
        else:
            mine.append(p)
    wanted, out = {p.index for p in worthy}, []
    for group in groups:
        if any(p.index in wanted for p in group):
            out.append(group)
    return out


def _near(one: PlotPoint, other: PlotPoint) -> bool:
    close = abs(one.x - other.x) < 40 and abs(one.y - other.y) < 36
    return close and one.family == other.family


def short_names(points: Sequence[PlotPoint]) -> dict[str, str]:
    """{name: the same without parameters that tell no two live settings of its family apart}.

    Only the last parameters go; wrappers stay.
    """
    out: dict[str, str] = {}
    for family in {p.family for p in points}:
        mine = {p.judged.setting.key: p.judged.setting for p in points if p.family == family}
        methods = {s.family: s.method for s in mine.values()}
        names = setting_names([s.configuration for s in mine.values()], methods)
        live = [names[key] for key, s in mine.items() if not s.dead]
        most = max(len(name.parameters) for name in names.values())
        count = min(1, most)
        while count < most and len({name.first(count) for name in live}) < len(live):
            count += 1
        for key, s in mine.items():
            told = names[key].first(count) if count < most else str(names[key])
            out[s.name] = f"{s.called}: {told}" if s.called else told
    return out
