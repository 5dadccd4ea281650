"""Adam on bounded signs of the slope, with total variation and a box: many victims at once.

Geiping et al. 2020 take Adam on the sign of the slope, which frees nets with ReLUs from pixels that
no longer move; plain Adam is faster where nets are smooth. Here each slope is divided by its own
root mean square and bounded by tanh, which is the sign where it is large and the slope where it is
small, and does as well as the better of the two on either kind of net. The weight of the total
variation may fall on the way: smooth pictures first, then details. Starts are patterned (a small
random picture, repeated), and the rate falls along a cosine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attacks._inversion.stack import Stack
from attacks._inversion.variation import variation
from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor

RATE = 0.1  # of a pixel's range
NEAR_RATE = 0.03  # from a start that is near the images already
WARM = 20  # steps in which the rate rises
TILE = 4  # pixels a side of a patterned start
EXACT = 1e-7  # mismatch below which single precision has nothing left
BETAS = (0.9, 0.999)


@dataclass
class _Moving:
    """What Adam keeps of one unknown (V, ...)."""

    at: Tensor
    mean: Tensor
    square: Tensor


def descend(
    stack: Stack,
    x: Tensor,
    free: Mapping[str, Tensor],
    *,
    steps: int,
    weight: float,
    fall: float = 1.0,
    box: bool,
    tell: Callable[[float], None] = lambda _: None,
    rates: Sequence[float] = (),
) -> tuple[Tensor, dict[str, Tensor], Tensor]:
    """Where the descent ends from images ``x`` (V, B, *shape) and ``free`` inputs {name: (V, ...)}.

    Each victim's descent is its own: what is beside it changes nothing but rounding. One whose
    gradient is matched to the last digit stays where it is. One whose numbers are no longer finite
    stays at its last finite point.

    Args:
        stack: the victims.
        x: where the images start.
        free: where the private inputs start that are solved for.
        steps: of Adam.
        weight: of the total variation beside the mismatch, at the first step.
        fall: the share of it that is left at the last, in (0, 1].
        box: are images kept in [0, 1]?
        tell: called with the share of the steps that is done.
        rates: of each victim, at most; ``RATE`` unless given.

    Returns:
        images, private inputs, and the last finite mismatch (V,), before the last step.
    """
    moving = {"x": _begun(x), **{f"free/{k}": _begun(v) for k, v in free.items()}}
    most = torch.tensor(rates or [RATE] * len(x), dtype=x.dtype, device=x.device)
    last = torch.full((len(x),), math.inf, dtype=x.dtype, device=x.device)
    for i in range(steps):
        at = {k: m.at.detach().requires_grad_() for k, m in moving.items()}
        mismatch = stack.mismatch(at["x"], _free(at))
        value = mismatch
        if weight:
            value = value + weight * fall ** (i / steps) * variation(at["x"])
        slopes = torch.autograd.grad(value.sum(), list(at.values()))
        finite = torch.stack([s.flatten(1).isfinite().all(1) for s in slopes]).all(0)
        goes = finite & mismatch.detach().isfinite() & (mismatch.detach() > EXACT)
        last = torch.where(mismatch.detach().isfinite(), mismatch.detach(), last)
        if not bool(goes.any()):
            break
        share = min((i + 1) / WARM, 1.0) * 0.5 * (1 + math.cos(math.pi * i / steps))
        for m, slope in zip(moving.values(), slopes, strict=True):
            _step(m, slope, goes, most * share, i + 1)
        if box:
            moving["x"].at.clamp_(0, 1)
        tell((i + 1) / steps)
    ended = {k: m.at for k, m in moving.items()}
    return ended["x"], _free(ended), last


def _free(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {k.removeprefix("free/"): v for k, v in tensors.items() if k != "x"}


def _begun(t: Tensor) -> _Moving:
    return _Moving(t.clone(), torch.zeros_like(t), torch.zeros_like(t))


def _step(m: _Moving, slope: Tensor, goes: Tensor, rate: Tensor, count: int) -> None:
    """One step of Adam on tanh(slope / its root mean square), for the victims that still go."""
    wide = [-1] + [1] * (slope.dim() - 1)
    size = slope.flatten(1).square().mean(1).sqrt().clamp(min=1e-30).view(wide)
    bounded = torch.where(goes.view(wide), torch.tanh(slope / size), 0.0)
    m.mean.mul_(BETAS[0]).add_(bounded, alpha=1 - BETAS[0])
    m.square.mul_(BETAS[1]).addcmul_(bounded, bounded, value=1 - BETAS[1])
    root = (m.square / (1 - BETAS[1] ** count)).sqrt_().add_(1e-8)
    move = (m.mean / (1 - BETAS[0] ** count)).div_(root)
    m.at.sub_(torch.where(goes.view(wide), rate.view(wide) * move, 0.0))


def patterned(shape: Sequence[int], rng: torch.Generator) -> Tensor:
    """A start (B, *shape): a small random picture, repeated over each image's sides; else normal.

    Normal numbers, which the first step brings into the box.
    """
    if len(shape) != 4 or min(shape[2:]) < TILE:
        return torch.randn(*shape, generator=rng)
    small = torch.randn(*shape[:2], TILE, TILE, generator=rng)
    times = [math.ceil(side / TILE) for side in shape[2:]]
    return small.repeat(1, 1, *times)[:, :, : shape[2], : shape[3]].contiguous()
