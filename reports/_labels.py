"""Where a label goes: beside its point and clear of everything drawn, or in the right margin with a hair line."""

from __future__ import annotations

from dataclasses import dataclass

from reports._svg import width

Box = tuple[float, float, float, float]  # left, top, right, bottom
HEIGHT = 13.0


@dataclass(frozen=True)
class Label:
    """Text with its anchor at (x, y), the baseline; ``hair``: a line from there to the point, or none."""

    text: str
    x: float
    y: float
    anchor: str
    hair: tuple[tuple[float, float], ...] = ()


def beside(text: str, x: float, y: float, taken: list[Box], frame: Box, size: float = 11.5) -> Label:
    """The first place round (x, y) that overlaps least; the box it takes is added to ``taken``."""
    wide = width(text, size) + 2
    spots = []
    for gap in (0.0, 8.0, 18.0, 30.0, 44.0, 60.0, 78.0):
        for dx, dy in ((1, 0.35), (1, 1.35), (1, -0.65), (-1, 0.35), (-1, 1.35), (-1, -0.65)):
            left = x + 11 if dx > 0 else x - 11 - wide
            base = y + dy * 11 + (gap if dy > 0.5 else -gap if dy < 0 else 0) + 0.5
            spots.append((left, base, "start" if dx > 0 else "end", gap))
    best: tuple[float, float, float, str, Box, float] | None = None
    for left, base, anchor, gap in spots:
        box = (left, base - HEIGHT + 2.5, left + wide, base + 2.5)
        outside = max(0.0, frame[0] - box[0]) + max(0.0, box[2] - frame[2]) + max(0.0, frame[1] - box[1]) + max(0.0, box[3] - frame[3])
        cost = sum(_overlap(box, other) for other in taken) + 60 * outside + gap / 4
        if best is None or cost < best[0] - 1e-6:
            best = (cost, left, base, anchor, box, gap)
    assert best  # noqa: S101 (there is always a spot)
    taken.append(best[4])
    left, base, anchor, _, gap = best[1:]
    end = left if anchor == "start" else left + wide
    hair = ((x, y), (end, base - 4)) if gap >= 18 else ()
    return Label(text, end, base, anchor, hair)


def column(points: list[tuple[str, float, float]], x: float, top: float, bottom: float) -> list[Label]:
    """Labels (text, px, py) stacked in one column at ``x``, in the order of their points, with hair lines."""
    order = sorted(points, key=lambda p: (p[2], p[0]))
    step = min(HEIGHT, (bottom - top) / max(len(order), 1))
    ys = [p[2] for p in order]
    for i in range(len(ys)):
        ys[i] = max(ys[i], top + HEIGHT / 2, ys[i - 1] + step if i else top)
    for i in range(len(ys) - 1, -1, -1):
        ys[i] = min(ys[i], bottom if i == len(ys) - 1 else ys[i + 1] - step)
    return [Label(t, x, y + 4, "start", ((px + 7, py), (x - 12, y), (x - 3, y))) for (t, px, py), y in zip(order, ys, strict=True)]


def _overlap(a: Box, b: Box) -> float:
    return max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
