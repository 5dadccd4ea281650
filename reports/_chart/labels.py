"""Where a label goes: beside its point, or in the right margin with a hair line.

Beside its point it is clear of everything drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reports._chart.svg import width

Box = tuple[float, float, float, float]  # left, top, right, bottom
HEIGHT = 13.0
GAPS = (0.0, 8.0, 18.0, 30.0, 44.0, 60.0, 78.0)
# Right or left of the point, level with it, below or above: lines down, which way a gap goes.
SIDES = tuple((x, *at) for x in (1, -1) for at in ((0.35, 0), (1.35, 1), (-0.65, -1)))


@dataclass(frozen=True)
class Label:
    """Text with its anchor at (x, y), the baseline."""

    text: str
    x: float
    y: float
    anchor: str
    hair: tuple[tuple[float, float], ...] = ()  # a line from there to the point, or none


def box_of(label: Label, size: float = 11.5) -> Box:
    """What its text takes."""
    wide = width(label.text, size) + 2
    left = label.x - wide if label.anchor == "end" else label.x
    return left, label.y - HEIGHT + 2.5, left + wide, label.y + 2.5


def beside(
    text: str,
    x: float,
    y: float,
    taken: list[Box],
    frame: Box,
    size: float = 11.5,
    most: float | None = None,
) -> Label | None:
    """The first place round (x, y) that overlaps least; the box it takes is added to ``taken``.

    ``most``: None where even that would have a greater share of the label covered, or cover as
    much.
    """
    wide = width(text, size) + 2
    spots = []
    for gap in GAPS:
        for dx, dy, away in SIDES:
            left = x + 11 if dx > 0 else x - 11 - wide
            base = y + dy * 11 + away * gap + 0.5
            spots.append((left, base, "start" if dx > 0 else "end", gap))
    edges = [(left, base - HEIGHT + 2.5, left + wide, base + 2.5) for left, base, _, _ in spots]
    boxes, low, high = np.array(edges), np.array(frame[:2]), np.array(frame[2:])
    outside = np.maximum(0, low - boxes[:, :2]) + np.maximum(0, boxes[:, 2:] - high)
    covered = overlap(boxes, taken).sum(1)
    cost = covered + 60 * outside.sum(1) + np.array([gap / 4 for *_, gap in spots])
    best = int(np.flatnonzero(cost <= cost.min() + 1e-6)[0])
    if most is not None and covered[best] > most * wide * HEIGHT:
        return None
    taken.append(tuple(boxes[best].tolist()))
    left, base, anchor, gap = spots[best]
    end = left if anchor == "start" else left + wide
    hair = ((x, y), (end, base - 4)) if gap >= 18 else ()
    return Label(text, end, base, anchor, hair)


def side_by_side(
    one: tuple[float, float], other: tuple[float, float], low: float, high: float, gap: float = 10.0
) -> tuple[float, float] | None:
    """Where two texts (left, width) of a line begin so that they do not touch; None: no room.

    Between ``low`` and ``high``; the left one gives way first.
    """
    (a, wide), (b, broad) = one, other
    if b < a:
        turned = side_by_side(other, one, low, high, gap)
        return turned and (turned[1], turned[0])
    b = min(max(b, low + wide + gap), high - broad)
    a = max(min(a, b - gap - wide), low)
    return (a, b) if a + wide + gap <= b + 1e-6 else None


def column(
    points: list[tuple[str, float, float]], x: float, top: float, bottom: float
) -> list[Label]:
    """Labels (text, px, py) stacked in one column at ``x``, with hair lines.

    They go from the highest point down.
    """
    order = sorted(points, key=lambda p: (p[2], p[0]))
    step = min(HEIGHT, (bottom - top) / max(len(order), 1))
    ys = [p[2] for p in order]
    for i in range(len(ys)):
        ys[i] = max(ys[i], top + HEIGHT / 2, ys[i - 1] + step if i else top)
    for i in range(len(ys) - 1, -1, -1):
        ys[i] = min(ys[i], bottom if i == len(ys) - 1 else ys[i + 1] - step)
    return [
        Label(t, x, y + 4, "start", ((px + 7, py), (x - 12, y), (x - 3, y)))
        for (t, px, py), y in zip(order, ys, strict=True)
    ]


def overlap(boxes: NDArray[Any], taken: Sequence[Box]) -> NDArray[Any]:
    """(boxes, taken) areas shared; ``boxes``: (n, 4)."""
    if not taken:
        return np.zeros((len(boxes), 1))
    a, b = boxes[:, None, :], np.array(taken)[None, :, :]
    wide = np.minimum(a[..., 2], b[..., 2]) - np.maximum(a[..., 0], b[..., 0])
    high = np.minimum(a[..., 3], b[..., 3]) - np.maximum(a[..., 1], b[..., 1])
    return np.maximum(0, wide) * np.maximum(0, high)


def within(
    inside: Sequence[Box], wide: float, high: float, taken: Sequence[Box], step: float = 6.0
) -> tuple[float, float] | None:
    """Left and top of a box of this size that lies in the union of ``inside``, or None.

    It touches nothing of ``taken``; None if no such box does.

    ``inside``: boxes that do not overlap. Of all such places the one with the most room to the
    sides and above.
    """
    if not inside:
        return None
    left, top = min(b[0] for b in inside), min(b[1] for b in inside)
    right, bottom = max(b[2] for b in inside), max(b[3] for b in inside)
    xs, ys = np.arange(left, right - wide, step), np.arange(top, bottom - high, step)
    if not len(xs) or not len(ys):
        return None
    corners = np.stack([a.ravel() for a in np.meshgrid(xs, ys)], 1)
    boxes = np.concatenate([corners, corners + np.array((wide, high))], 1)
    whole = overlap(boxes, inside).sum(1) > wide * high - 1e-6
    free = whole & (overlap(boxes, taken).sum(1) == 0)
    if not free.any():
        return None
    boxes = boxes[free]
    grown = boxes + np.array((-12, -12, 12, 12))
    room = overlap(grown, inside).sum(1) - overlap(grown, taken).sum(1)
    x, y = boxes[int(np.argmax(room)), :2]
    return float(x), float(y)
