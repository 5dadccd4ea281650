"""Levenberg-Marquardt: inputs whose features are given ones, many examples side by side.

No Jacobian is written down: an example's features are its own alone, so one product with the
Jacobian of the whole batch is one with that of every example, and conjugate gradients need no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor


INNER = 50  # conjugate gradients in a step, at most
SETTLED = 1e-10  # of the first residual's square: rounding
GAIN = 1e-6  # of the gradient's square: where the inner search stops
DAMPING = 1e-3  # at the start, of the curvature along the gradient
EASE, STIFFEN = 0.2, 5.0  # what becomes of the damping after a step that was taken, or not
LEAST, MOST = 1e-10, 1e4  # damping: beyond the upper end no step is short enough


@dataclass(frozen=True)
class Reached:
    """Where a search stands."""

    x: Tensor  # (n, *shape)
    off: Tensor  # (n,) squared distance of its features from the given ones


def search(
    extract: Callable[[Tensor], Tensor],
    features: Tensor,
    start: Tensor,
    bounds: tuple[float, float],
    steps: int,
) -> Iterator[Reached]:
    """Yield the start and where each of up to ``steps`` steps leads; fewer once all are settled.

    A step solves (J'J + d) p = J'r by conjugate gradients. It is taken for the examples whose
    residual it lowers; for these the damping d falls, for the others it grows. Damped steps leave
    alone what features say nothing of: there the start stays. Steps end at the bounds, and what
    stands at a bound and pulls outwards is left out of the step.

    Args:
        extract: (n, *shape) to features (n, ...), differentiable twice, of each example alone.
        features: (n, ...) the given ones.
        start: (n, *shape) within the bounds.
        bounds: (low, high) of every number of an input; may be infinite.
        steps: 0 or more.
    """
    with torch.no_grad():
        point = Reached(start.clone(), _squares(extract(start) - features))
    first, damping = point.off, torch.full_like(point.off, DAMPING)
    scale = torch.zeros_like(point.off)
    yield point
    for _ in range(steps):
        going = (point.off > SETTLED * first) & (damping < MOST)
        if not bool(going.any()):
            return
        x, target = point.x[going], features[going]
        curved = _Curvature(extract, x, target, bounds)
        if not bool((scale[going] > 0).all()):
            scale[going] = curved.along_gradient()
        step = curved.step(damping[going] * scale[going])
        with torch.no_grad():
            moved = (x + step).clamp(*bounds)
            off = _squares(extract(moved) - target)
        better = off < point.off[going]  # not so where it is not finite
        fresh = Reached(point.x.clone(), point.off.clone())
        fresh.x[going] = torch.where(_beside(better, x), moved, x)
        fresh.off[going] = torch.where(better, off, point.off[going])
        factor = torch.where(better, EASE, STIFFEN).to(damping)
        damping[going] = (damping[going] * factor).clamp(LEAST, MOST)
        point = fresh
        yield point


class _Curvature:
    """The extractor's linear part at x, and J'J of it."""

    def __init__(
        self,
        extract: Callable[[Tensor], Tensor],
        x: Tensor,
        features: Tensor,
        bounds: tuple[float, float],
    ) -> None:
        with torch.enable_grad():
            self.x = x.detach().requires_grad_()
            self.off = extract(self.x) - features
            # J'u is linear in u, so its derivative by u, times v, is Jv.
            self.u = torch.zeros_like(self.off, requires_grad=True)
            (self.back,) = torch.autograd.grad(self.off, self.x, self.u, create_graph=True)
        uphill = self._transposed(self.off.detach())
        stuck = ((x <= bounds[0]) & (uphill > 0)) | ((x >= bounds[1]) & (uphill < 0))
        self.free = (~stuck).to(x)
        self.downhill = -uphill * self.free

    def _transposed(self, v: Tensor) -> Tensor:
        """J'v."""
        (out,) = torch.autograd.grad(self.off, self.x, v, retain_graph=True)
        return out

    def _forward(self, v: Tensor) -> Tensor:
        """Jv."""
        (out,) = torch.autograd.grad(self.back, self.u, v, retain_graph=True)
        return out

    def along_gradient(self) -> Tensor:
        """(n,) the curvature in the direction of the gradient."""
        return _squares(self._forward(self.downhill)) / _squares(self.downhill).clamp(min=1e-30)

    def step(self, damping: Tensor) -> Tensor:
        """(n, *shape): where (J'J + damping) of it is the way down."""
        x, rest = torch.zeros_like(self.downhill), self.downhill.clone()
        way, size = rest.clone(), _squares(rest)
        enough = GAIN * size
        for _ in range(INNER):
            curved = self._transposed(self._forward(way)) * self.free
            curved += _beside(damping, way) * way
            length = size / (way * curved).flatten(1).sum(1).clamp(min=1e-30)
            x += _beside(length, way) * way
            rest -= _beside(length, way) * curved
            now = _squares(rest)
            if not bool((now > enough).any()):
                break
            way = rest + _beside(now / size.clamp(min=1e-30), way) * way
            size = now
        return x


def _squares(t: Tensor) -> Tensor:
    """(n,) of t (n, ...)."""
    return t.flatten(1).square().sum(1)


def _beside(v: Tensor, t: Tensor) -> Tensor:
    """(n,) shaped to be multiplied with t (n, ...)."""
    return v.reshape(-1, *[1] * (t.dim() - 1))
