"""L-BFGS by hand (Nocedal and Wright, Algorithms 7.4, 7.5 and 3.5): creating a torch.optim
optimiser costs 2.5 s of imports.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

_ARMIJO, _CURVATURE = 1e-4, 0.9  # sufficient decrease and strong Wolfe curvature
_TRIES = 25  # evaluations per line search


@dataclass(frozen=True)
class Solution:
    """Where the search ended: the best point seen.

    ``x``: (n,). ``value``: f(x). ``steps``: iterations done. ``gradient_norm``: Euclidean, at x.
    ``converged``: the gradient is within the tolerance, or no step along the gradient itself lowers
    the value any more (rounding).
    """

    x: Tensor
    value: float
    steps: int
    gradient_norm: float
    converged: bool


@dataclass(frozen=True)
class _Point:
    x: Tensor
    value: float
    gradient: Tensor


def minimise(
    f: Callable[[Tensor], Tensor],
    x0: Tensor,
    *,
    steps: int,
    memory: int = 20,
    tolerance: float = 0.0,
    enough: float = -math.inf,
) -> Solution:
    """Minimise a smooth function without bounds.

    Args: f: (n,) to a scalar (), differentiable by autograd. A value that is not finite counts as a
        wall: the step is shortened. x0: (n,), float64 advised; where to start. steps: most
        iterations; each costs one to about three evaluations of ``f`` and its gradient. memory:
        pairs of differences that are kept. tolerance: stop once the gradient's norm is at most
        this. enough: stop once the value is at most this.

    Raises:
        ValueError: ``x0`` is not a vector, or ``f`` or its gradient is not finite there.
    """
    if x0.ndim != 1:
        raise ValueError(f"expected a starting vector (n,), got {tuple(x0.shape)}. Flatten it.")
    here = _at(f, x0.detach().clone())
    if not math.isfinite(here.value):
        raise ValueError(
            "the function or its gradient is not finite at the starting point. Start elsewhere."
        )
    pairs: list[tuple[Tensor, Tensor, float]] = []
    done, converged = 0, float(here.gradient.norm()) <= tolerance
    while done < steps and not converged and here.value > enough:
        direction = -_two_loops(here.gradient, pairs)
        if float(direction @ here.gradient) >= 0:  # rounding spoilt the pairs
            pairs, direction = [], -_two_loops(here.gradient, [])
        there = _search(f, here, direction)
        done += 1
        # Nothing along it lowers the value: begin again from the gradient, or it is the end.
        if there is None:
            converged, pairs = not pairs, []
            continue
        s, y = there.x - here.x, there.gradient - here.gradient
        if float(s @ y) > 1e-14 * float(y @ y):
            pairs = (
                [*pairs[-memory + 1 :], (s, y, 1 / float(s @ y))]
                if memory > 1
                else [(s, y, 1 / float(s @ y))]
            )
        here = there
        converged = float(here.gradient.norm()) <= tolerance
    return Solution(here.x, here.value, done, float(here.gradient.norm()), converged)


def _at(f: Callable[[Tensor], Tensor], x: Tensor) -> _Point:
    leaf = x.detach().requires_grad_()
    with torch.enable_grad():
        value = f(leaf)
        gradient = torch.autograd.grad(value, leaf)[0]
    number = float(value.detach())
    return _Point(
        x,
        number if math.isfinite(number) and bool(gradient.isfinite().all()) else math.inf,
        gradient,
    )


def _two_loops(gradient: Tensor, pairs: list[tuple[Tensor, Tensor, float]]) -> Tensor:
    """The inverse Hessian's estimate times the gradient."""
    if not pairs:
        return gradient * min(1.0, 1 / max(float(gradient.abs().sum()), 1e-300))
    d, weights = gradient.clone(), []
    for s, y, rho in reversed(pairs):
        weights.append(rho * float(s @ d))
        d -= weights[-1] * y
    s, y, rho = pairs[-1]
    d /= rho * float(y @ y)
    for (s, y, rho), weight in zip(pairs, reversed(weights), strict=True):
        d += (weight - rho * float(y @ d)) * s
    return d


def _search(f: Callable[[Tensor], Tensor], here: _Point, direction: Tensor) -> _Point | None:
    """A point on the ray that meets the strong Wolfe conditions, or the lowest found; None if none
    lowers the value.

    Bracketing and zooming are one loop: ``low`` is the best end of the interval, ``high`` its other
    end (none yet: it grows).
    """
    slope0 = float(direction @ here.gradient)
    low, low_t, low_slope = here, 0.0, slope0
    high: tuple[float, float, float] | None = None  # t, value, slope
    t = 1.0
    for _ in range(_TRIES):
        new = _at(f, here.x + t * direction)
        slope = float(direction @ new.gradient)
        if new.value > here.value + _ARMIJO * t * slope0 or new.value >= low.value:
            high = (t, new.value, slope)
        else:
            if abs(slope) <= -_CURVATURE * slope0:
                return new
            if slope * ((high[0] if high else math.inf) - low_t) >= 0:
                high = (low_t, low.value, low_slope)
            low, low_t, low_slope = new, t, slope
        if high is None:
            t *= 2.0
            continue
        if abs(high[0] - low_t) <= 1e-12 * max(1.0, low_t):
            break
        t = _between(low_t, low.value, low_slope, *high)
    return low if low.value < here.value else None


def _between(a: float, fa: float, da: float, b: float, fb: float, db: float) -> float:
    """The minimum of the cubic through both ends (Eq. 3.59), kept 10 % away from them; their middle
    where there is none.
    """
    width = b - a
    if math.isfinite(fb) and math.isfinite(db):
        d1 = da + db - 3 * (fa - fb) / (a - b)
        square = d1 * d1 - da * db
        if square >= 0:
            d2 = math.copysign(math.sqrt(square), width)
            bottom = db - da + 2 * d2
            if bottom != 0:
                inside = (b - width * (db + d2 - d1) / bottom - a) / width
                return a + width * min(max(inside, 0.1), 0.9)
    return a + 0.5 * width
