"""Names beside the points of a figure: none over another, over a point or out of the axes.

A thin line leads to one that stands away.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Place = tuple[float, float]  # x, y
Box = tuple[float, float, float, float]  # left, bottom, right, top

# Pixels from a point to its name, and how many directions are tried.
NEAR, FAR, STEP, WAYS = (7, 127, 4, 40)
LETTERS = 5.5  # their size, in points
PASSES = 8
# Half the width of a point; nearer points are one; names that stand so far away get a line.
REACH, SAME, LINE = (4, 6, 14)


@dataclass(frozen=True)
class Named:
    """A point of the axes, in data, and its name."""

    x: float
    y: float
    text: str
    colour: str


def write_labels(
    axes: Any, named: Sequence[Named], others: Sequence[Place] = (), bars: Sequence[Box] = ()
) -> list[Any]:
    """Write each name in the nearest free place next to its point; returns the texts.

    To be called when all else is drawn.

    Points that lie on one another have their names in one column, with one line.

    Args:
        axes: of matplotlib.
        named: the points.
        others: more points, in data, that no name shall cover.
        bars: boxes, in data, that names keep off where they can.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    renderer = FigureCanvasAgg(axes.figure).get_renderer()
    axes.figure.draw_without_rendering()  # settles where the axes are

    def pixels(x: float, y: float) -> Place:
        px, py = axes.transData.transform((x, y))
        return float(px), float(py)

    points = [pixels(n.x, n.y) for n in named]
    free = _Free(
        tuple(axes.bbox.extents),
        [*points, *(pixels(*o) for o in others)],
        [(*pixels(*b[:2]), *pixels(*b[2:])) for b in bars],
    )
    groups, texts, sizes = _together(points), [], []
    for group in groups:
        column = [_text(axes, named[i]) for i in group]
        extents = [text.get_window_extent(renderer) for text in column]
        high = max(e.height for e in extents) + 1
        sizes.append((max(e.width for e in extents), len(extents) * high))
        texts.append(column)
    boxes = free.places([points[g[0]] for g in groups], sizes)
    for group, column, box in zip(groups, texts, boxes, strict=True):
        _column(axes, [(named[i], points[i]) for i in group], column, box)
    return [text for column in texts for text in column]


def _column(
    axes: Any, group: Sequence[tuple[Named, Place]], texts: Sequence[Any], box: Box
) -> None:
    """Put the names into the box, beginning at the side that is near to the point.

    A line leads to a box that stands away.
    """
    n, first = group[0]
    right, tall = (box[0] + box[2]) / 2 > first[0], (box[3] - box[1]) / len(group)
    for j, ((_, point), text) in enumerate(zip(group, texts, strict=True)):
        text.set_ha("left" if right else "right")
        place = (box[0] if right else box[2], box[3] - (j + 0.5) * tall)
        text.set_position(_offset(axes, point, place))
    end = _nearest(first, box)
    if math.dist(first, end) > LINE:
        look = {"arrowstyle": "-", "lw": 0.4, "color": n.colour, "alpha": 0.7}
        line = {**look, "shrinkA": 0, "shrinkB": 2}
        to = _offset(axes, first, end)
        drawn = axes.annotate(
            "", (n.x, n.y), xytext=to, textcoords="offset points", arrowprops=line
        )
        drawn.set_in_layout(False)


def _text(axes: Any, n: Named) -> Any:
    look = {"fontsize": LETTERS, "color": n.colour, "va": "center", "parse_math": False}
    text = axes.annotate(n.text, (n.x, n.y), xytext=(0, 0), textcoords="offset points", **look)
    text.set_in_layout(False)
    return text


def _offset(axes: Any, point: Place, to: Place) -> Place:
    """From one place to another, in pixels, as points of a printer."""
    unit = 72 / axes.figure.dpi
    return (to[0] - point[0]) * unit, (to[1] - point[1]) * unit


def _together(points: Sequence[Place]) -> list[list[int]]:
    """The numbers of the points in groups that lie on one another."""
    groups: list[list[int]] = []
    for i, p in enumerate(points):
        near = next((g for g in groups if math.dist(points[g[0]], p) < SAME), None)
        if near is None:
            groups.append([i])
        else:
            near.append(i)
    return groups


@dataclass(frozen=True)
class _Free:
    """What is not free, in pixels."""

    frame: Box  # all outside of it
    points: Sequence[Place]
    bars: Sequence[Box]  # as far as possible

    def places(self, points: Sequence[Place], sizes: Sequence[tuple[float, float]]) -> list[Box]:
        """A box of its size beside each of ``points``.

        The best one for each in turn, again while the others move.
        """
        found: dict[int, Box] = {}
        order = list(range(len(points)))
        for _ in range(PASSES):
            before = dict(found)
            for i in order:
                found.pop(i, None)
                others = [(points[j], box) for j, box in found.items()]
                found[i] = self._best(points[i], sizes[i], others)
            order.reverse()
            if found == before:
                break
        return [found[i] for i in range(len(points))]

    def _best(
        self, point: Place, size: tuple[float, float], others: Sequence[tuple[Place, Box]]
    ) -> Box:
        least, best = math.inf, None
        for away, box in _around(point, *size):
            if best is not None and away >= least:
                break
            cost = away + self._cost(point, box, others)
            if cost < least:
                least, best = cost, box
        assert best  # noqa: S101 (the first costs less than infinity)
        return best

    def _cost(self, point: Place, box: Box, others: Sequence[tuple[Place, Box]]) -> float:
        """What speaks against it, in pixels of distance that would be as bad."""
        left, bottom, right, top = self.frame
        outside = box[0] < left + 2 or box[1] < bottom + 2 or box[2] > right - 2 or box[3] > top - 2
        line = (point, _nearest(point, box))
        lines = [(p, _nearest(p, b)) for p, b in others]
        marks = [(x - REACH, y - REACH, x + REACH, y + REACH) for x, y in self.points]
        away = [m for p, m in zip(self.points, marks, strict=True) if math.dist(p, point) > SAME]
        crossed = sum(_cross(line, other) or _through(other, box) for other in lines)
        crossed += sum(_through(line, b) for _, b in others)
        # A line like a bar's.
        (ax, ay), (bx, by) = line
        flat = math.dist(*line) > LINE and min(abs(ax - bx), abs(ay - by)) < 3
        return (
            1000 * (outside + sum(_meet(box, b) for _, b in others))
            + 300 * sum(_meet(box, m) for m in marks)
            + 150 * crossed
            + 40 * sum(_through(line, m) for m in away)
            + 25 * any(_meet(box, bar) for bar in self.bars)
            + 10 * flat
        )


def _around(point: Place, width: float, height: float) -> list[tuple[float, Box]]:
    """(distance, box) of every place that is tried."""
    out = []
    for away in range(NEAR, FAR, STEP):
        for i in range(WAYS):
            angle = math.tau * (i + 0.5) / WAYS
            x = point[0] + math.cos(angle) * (away + width / 2)
            y = point[1] + math.sin(angle) * (away + height / 2)
            box = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
            out.append((float(away), box))
    return out


def _nearest(point: Place, box: Box) -> Place:
    """The place of the box that is nearest to the point."""
    return min(max(point[0], box[0]), box[2]), min(max(point[1], box[1]), box[3])


def _meet(a: Box, b: Box) -> bool:
    """Do the boxes overlap, or come nearer than two pixels?"""
    return a[0] < b[2] + 2 and b[0] < a[2] + 2 and a[1] < b[3] + 2 and b[1] < a[3] + 2


def _through(line: tuple[Place, Place], box: Box) -> bool:
    """Does a part of the line lie inside the box?"""
    (ax, ay), (bx, by) = line
    begin, end = 0.0, 1.0
    for at, step, low, high in ((ax, bx - ax, box[0], box[2]), (ay, by - ay, box[1], box[3])):
        if step == 0:
            if not low < at < high:
                return False
            continue
        one, two = sorted(((low - at) / step, (high - at) / step))
        begin, end = max(begin, one), min(end, two)
    return begin < end


def _cross(a: tuple[Place, Place], b: tuple[Place, Place]) -> bool:
    """Do two lines cross, other than at their ends?"""

    def side(p: Place, q: Place, r: Place) -> float:
        return (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0])

    return side(*a, b[0]) * side(*a, b[1]) < 0 and side(*b, a[0]) * side(*b, a[1]) < 0
