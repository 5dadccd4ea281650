"""One chart before it is drawn: a question by one attacker in one size.

The drawing and the page's data both come from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leakbench.judging import PAPER, Corner, Slab, front, lost, steps
from reports._chart.callouts import labels, lost_place, obstacles, pixels
from reports._chart.labels import Label
from reports._chart.plot import Plot, PlotPoint

# The part of a chart's width and height in which the crowded corner is looked for, and the room
# left round it.
CORNER, ROOM = 0.25, 0.03


@dataclass(frozen=True)
class Scene:
    """Everything that a chart draws, in its place."""

    plot: Plot
    key: str
    points: tuple[PlotPoint, ...]
    front: tuple[Corner, ...]  # this and the next two in data units
    claimed: tuple[Corner, ...]
    lost: tuple[Slab, ...]
    on: tuple[int, ...]  # the settings on the front, safest first, by number
    start: int  # the setting that the keyboard begins with
    labels: dict[int, Label]  # by setting
    lost_at: tuple[float, float] | None  # where the words stand, in pixels
    # Leakage from, to and utility from, to of the crowded corner, in data units; None where nothing
    # is crowded.
    crowd: tuple[float, float, float, float] | None


def scene(plot: Plot, key: str) -> Scene:
    """Everything placed."""
    points = plot.points(key)
    best = front(plot.question, key, plot.axes)
    on = tuple(t.judged.setting.index for t in best)
    now, claimed = steps(best, plot.axes), steps(front(plot.question, PAPER, plot.axes), plot.axes)
    slabs = lost(plot.question, key, plot.axes)
    taken = obstacles(plot, points, pixels(plot, now))
    written = labels(points, on, taken, plot.size)
    return Scene(
        plot=plot,
        key=key,
        points=tuple(points),
        front=tuple(now),
        claimed=tuple(claimed),
        lost=tuple(slabs),
        on=on,
        start=on[0] if on else min(points, key=lambda p: (p.x, p.y)).index,
        labels=written,
        lost_at=lost_place(plot, slabs, taken),
        crowd=_crowd(plot, points),
    )


def _crowd(plot: Plot, points: Sequence[PlotPoint]) -> tuple[float, float, float, float] | None:
    """Round the densest few settings: three or more, and not all."""
    wide, high = abs(plot.xs.stop - plot.xs.start), abs(plot.ys.stop - plot.ys.start)
    live = [p for p in points if not p.dead]
    best: list[PlotPoint] = []
    for middle in live:
        near = [p for p in live if abs(p.x - middle.x) <= CORNER * wide / 2]
        near = [p for p in near if abs(p.y - middle.y) <= CORNER * high / 2]
        best = max(best, near, key=len)
    if len(best) < 3 or len(best) == len(live):
        return None
    x0, x1 = min(p.x for p in best) - ROOM * wide, max(p.x for p in best) + ROOM * wide
    y0, y1 = min(p.y for p in best) - ROOM * high, max(p.y for p in best) + ROOM * high
    a, b = sorted((plot.xs.value(x0), plot.xs.value(x1)))
    c, d = sorted((plot.ys.value(y0), plot.ys.value(y1)))
    return a, b, c, d
