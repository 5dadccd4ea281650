"""A batch's step of the last layer, taken apart: the plane that the prototype lies in.

A loss that depends on the cosine of prototype w and embedding z = W h + b pulls z along w and along
z. So the step of (W, b) is w u' - (W, b) M with M a symmetric sum of h h' over the batch and u a
sum of the h: exactly, for any number of images. It ends in the span of the h; what no (W, b) h
reaches of it is of rank one and gives u, and that M is symmetric gives w, but for a multiple of
(W, b) u: the mean embedding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from attacks._last_layer import LayerStep
from attacks._least_squares import least_squares
from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor

CLEAR = 3.0  # a singular value that is so many times the middle one is no rounding error


@dataclass(frozen=True)
class Plane:
    """w = sqrt(1 - t^2) ``across`` + t ``along``, with t not known yet."""

    across: Tensor  # (dim,) of norm 1
    along: Tensor  # (dim,) of norm 1: the direction of the mean embedding
    size: float  # |(W, b) u| sqrt(1 - t^2)
    rank: int  # of the step: the images that it is made of, as far as they differ
    # What of the step has not this form, over all but its leading pair; 0 where that is all.
    misfit: float
    # (W, b) M (W, b)' and u' M^-1 u for t = 0, in parts: at (across, across), (across, along) and
    # (along, along), and over u's length squared.
    spread: tuple[float, float, float]
    inverse: float
    length: float  # |(W, b) q| where q is u over its length


def images(moved: Tensor) -> tuple[int, float]:
    """The rank of a step (dim, n) above its rounding errors, and their share of the step.

    At most half of what the rank could be.
    """
    values = torch.linalg.svdvals(moved)
    floor = max(float(values[len(values) // 2]), 1e-14 * float(values[0]))
    return int((values > CLEAR * floor).sum()), floor / float(values[0])


def inputs(step: LayerStep, rank: int) -> Tensor:
    """(n, rank): a basis of the layer's inputs behind a step of ``rank`` images.

    Of none, where noise hides them all: the usual input.
    """
    if not rank:
        return step.usual[:, None] / step.usual.norm()
    _, _, right = torch.linalg.svd(step.moved, full_matrices=False)
    return right[:rank].T


def plane(step: LayerStep, basis: Tensor) -> Plane:
    """The plane of a step whose inputs ``basis`` (n, rank) spans, rank below dim."""
    moved, reach = step.moved @ basis, step.start @ basis  # both (dim, rank)
    held = least_squares(reach, moved)  # (rank, rank): p q' - M
    rest = moved - reach @ held
    _, values, pairs = torch.linalg.svd(rest, full_matrices=False)
    q = pairs[0]
    whole = basis @ q  # u's direction: a positive mix of the layer's inputs, a bias's being 1
    q = q * (whole[-1] if step.bias else whole @ step.usual).sign()
    skew = held - held.T  # p q' - q p'
    p = skew @ q
    w = rest @ q + reach @ p
    along = reach @ q
    length = float(along.norm().clamp(min=1e-300))
    along = along / length
    w = w - (w @ along) * along
    strength = float(w.norm())
    across = w / max(strength, 1e-300)
    away = least_squares(reach, w[:, None])[:, 0]
    mixed = torch.outer(away, q) - held
    mixed = (mixed + mixed.T) / 2
    seen = reach @ mixed @ reach.T
    spread = (across @ seen @ across, across @ seen @ along, along @ seen @ along)
    # What the leading pair leaves over tells the form from others: it alone is nearly everything.
    beyond = torch.linalg.svdvals(moved)[1:].norm().clamp(min=1e-300)
    lopsided = reach @ (skew - torch.outer(p, q) + torch.outer(q, p))
    off = torch.cat([values[1:], lopsided.flatten()]).norm() / beyond if len(values) > 1 else 0.0
    inverse = float(q @ torch.linalg.pinv(mixed) @ q)
    return Plane(
        across,
        along,
        strength * length,
        basis.shape[1],
        float(off),
        (float(spread[0]), float(spread[1]), float(spread[2])),
        inverse,
        length,
    )
