"""The strong Wolfe line search of ``torch.optim.LBFGS``, as a coroutine.

It asks for points, and whoever runs it evaluates them.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


ARMIJO, WOLFE = 1e-4, 0.9
STILL = 1e-9  # a bracket shorter than this is not searched any more


@dataclass(frozen=True)
class Point:
    """A point along the direction."""

    t: float  # step length
    value: float
    slope: float  # along the direction
    gradient: Tensor = field(repr=False)  # (N,)


LineSearch = Generator[float, Point, tuple[Point, int]]


def strong_wolfe(start: Point, t: float, longest: float, most: int) -> LineSearch:
    """Decide as ``torch.optim.lbfgs._strong_wolfe`` does.

    That is torch 2.x; minFunc's bracketing and zoom. Yields step lengths, and is sent the point at
    each. One difference: where a value is not a number but its slope passes, torch's ends in an
    IndexError and this one with that point.

    Args:
        start: where the search starts, t = 0.
        t: the first step length.
        longest: the largest magnitude in the direction.
        most: iterations at most, one at least.

    Returns:
        the point to go to, and how many points were asked for.
    """
    flat_enough = -WOLFE * start.slope

    def rises(p: Point) -> bool:
        return p.value > start.value + ARMIJO * p.t * start.slope

    before, new, i = start, (yield t), 0
    while i < most:
        if rises(new) or (i > 1 and new.value >= before.value):
            break
        if abs(new.slope) <= flat_enough:
            return new, i + 1
        if new.slope >= 0:
            break
        t = cubic(before, new, new.t + 0.01 * (new.t - before.t), 10 * new.t)
        before, new, i = _own(new), (yield t), i + 1
    bracket = [before if i < most else start, _own(new)]

    low, stuck = _lowest(bracket), False
    while i < most and not abs(bracket[1].t - bracket[0].t) * longest < STILL:
        t, stuck = _between(bracket, stuck)
        new, i = (yield t), i + 1
        new = _own(new)
        if rises(new) or new.value >= bracket[low].value:
            bracket[1 - low] = new
            low = _lowest(bracket)
            continue
        if new.slope * (bracket[1 - low].t - bracket[low].t) >= 0:
            bracket[1 - low] = bracket[low]
        bracket[low] = new
        if abs(new.slope) <= flat_enough:
            break
    return bracket[low], i + 1


def cubic(a: Point, b: Point, least: float, most: float) -> float:
    """Where the cubic through two points and their slopes has its minimum.

    At least ``least`` and at most ``most``.
    """
    d1 = a.slope + b.slope - _over(3 * (a.value - b.value), a.t - b.t)
    square = d1 * d1 - a.slope * b.slope
    if not square >= 0:
        return (least + most) / 2
    d2 = math.sqrt(square)
    if a.t > b.t:
        a, b = b, a
    t = b.t - (b.t - a.t) * _over(b.slope + d2 - d1, b.slope - a.slope + 2 * d2)
    return min(max(t, least), most)


def _between(bracket: list[Point], stuck: bool) -> tuple[float, bool]:
    """The next step length, and whether it is too near to an end of the bracket.

    It is not so twice in a row (``stuck``: the last one was).
    """
    least, most = sorted(p.t for p in bracket)
    t, margin = cubic(bracket[0], bracket[1], least, most), 0.1 * (most - least)
    if not min(most - t, t - least) < margin:
        return t, False
    if not (stuck or t >= most or t <= least):
        return t, True
    return (most - margin if abs(t - most) < abs(t - least) else least + margin), False


def _lowest(bracket: list[Point]) -> int:
    return 0 if bracket[0].value <= bracket[1].value else 1


def _own(p: Point) -> Point:
    """With a copy of the gradient.

    It is a row of all problems', which should not live as long as a bracket.
    """
    return replace(p, gradient=p.gradient.clone())


def _over(a: float, b: float) -> float:
    """Divide as tensors do: by zero, infinite or not a number."""
    return a / b if b else a * math.copysign(math.inf, b)
