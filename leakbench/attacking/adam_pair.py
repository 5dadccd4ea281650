"""What two steps of Adam say of their gradients: of every number the direction of the two."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from leakbench.attacking.adam_step import SURE
from leakbench.base.lazy import torch
from leakbench.federation.defense import StepTerms

if TYPE_CHECKING:
    from torch import Tensor

# What epsilon takes of a step whose gradient is small: so much nearer to a bound is still at it.
NEAR = 2e-3
ODD = 0.02  # share of numbers that no two steps make, beyond which somebody changed the message
LOST = 0.02  # of the shortest sum of two steps: what rounding may leave open of it
MANY, REACHED = 1000, 0.99  # so many numbers reach the longest step, unless it was shortened


class AdamPair:
    """Two steps of Adam as an attacker reads them.

    Adam begins anew, so the first step goes as far as the sign of its gradient g; the second, where
    the gradient is h, goes
        c (b1 g + h) / sqrt(b2 g² + h²),  c = sqrt(1 + b2) / (1 + b1),
    which is shorter than the first wherever h opposes g. So the sum has the sign of g, and what is
    left of it is a function of h / g: each number tells the direction of (g, h) in the plane, or
    two of them where both have one sign and h is the larger. What the two leave open is the length
    alone; one step leaves the size, too, of each gradient open. Nothing of this is published as far
    as we know. Epsilon is left out: of gradients that are small beside it directions are wrong, so
    what they lead to is held against a replay of the steps, which is exact.

    ``second``: {name: the weights that the second step began at}. ``one``, ``other``: {name: (2,
    ...)}, unit vectors (g, h) that make what was sent, float64; zeros where both gradients are 0 or
    nothing was sent.
    """

    def __init__(
        self, second: Mapping[str, Tensor], one: Mapping[str, Tensor], other: Mapping[str, Tensor]
    ) -> None:
        self.second, self.one, self.other = dict(second), dict(one), dict(other)

    def at(self, second: Mapping[str, Tensor]) -> AdamPair:
        """The same of another victim, whose second step began at these weights."""
        moved = copy.copy(self)
        moved.second = dict(second)
        return moved


def read_pair(
    moved: Mapping[str, Tensor],
    received: Mapping[str, Tensor],
    rates: Mapping[str, float],
    factors: Sequence[float],
    terms: StepTerms,
    dtype: torch.dtype,
    sent: Mapping[str, Tensor],
) -> AdamPair | None:
    """The pair behind ``moved``; None where it is of no two steps of Adam, or noised or cut.

    Args:
        moved: how far both steps went against the gradient, over the rate, {name: tensor}.
        received: the weights that the first began at.
        rates: {name: its learning rate}, of a step whose factor is 1.
        factors: on the rate, of both steps.
        terms: Adam's own.
        dtype: in which the client computed.
        sent: {name: bool}, which numbers the message tells.
    """
    first, last = factors
    b1, b2 = terms.beta1, terms.beta2
    c = (1 + b2) ** 0.5 / (1 + b1)
    if not 0 < 1.1 * last * c < first or b2 <= 0:
        return None
    longest = c * (1 + b1 * b1 / b2) ** 0.5
    decay = terms.weight_decay if terms.decoupled else 0.0
    second, one, other, odd, many, reached = {}, {}, {}, 0.0, 0, 0.0
    for name, whole in moved.items():
        w, told = received[name].double(), sent[name]
        blur = SURE * torch.finfo(dtype).eps * (w.abs() / rates[name] + 2)
        plain = whole.double() - (first + last) * decay * w
        step = first * (_sign(plain, last * c, blur) + decay * w)
        at = w - rates[name] * torch.where(told, step, 0.0)
        u = (whole.double() - first * decay * w - last * decay * at) * told
        size = u.abs()
        strange = (size > first + last * longest + blur) | (
            (size < first - last * c - NEAR) & (size > blur) & ((size - last * c).abs() > NEAR)
        )
        lost = blur > LOST * (first - last * c)
        odd, many = odd + float((strange | lost).sum()), many + int(told.sum())
        reached = max(reached, float(size.max()))
        g = _sign(u, last * c, blur)
        one[name], other[name] = _directions((u - first * g) / last * g, u, g, (b1, b2, c))
        second[name] = at.to(received[name])
    shortened = many >= MANY and reached < REACHED * (first + last * longest)
    return None if shortened or odd > ODD * many else AdamPair(second, one, other)


def _sign(u: Tensor, alone: float, blur: Tensor) -> Tensor:
    """Of the first gradient: 0 where the sum is what the second makes ``alone``, or nothing."""
    size = u.abs()
    only = (size < alone + blur) & (size > alone - NEAR)
    return torch.where(only | (size <= blur), 0.0, u.sign())


def _directions(
    left: Tensor, u: Tensor, g: Tensor, terms: tuple[float, float, float]
) -> tuple[Tensor, Tensor]:
    """Both unit vectors (2, ...) whose second step is ``left``, where the first went to ``g``.

    left = c (b1 + r) / sqrt(b2 + r²) is a square equation in r = h / g, of whose roots one or both
    have the sign of ``left``.
    """
    b1, b2, c = terms
    square = left * left - c * c
    square = torch.where(square.abs() < 1e-9, torch.full_like(square, 1e-9), square)
    half, rest = c * c * b1, left * left * b2 - c * c * b1 * b1
    root = (half * half - square * rest).clamp(min=0).sqrt()
    low, high = (half + root) / square, (half - root) / square
    fits = (b1 + low) * left >= 0, (b1 + high) * left >= 0
    kept = b1 / (1 + b1) * ((1 + b2) / b2) ** 0.5  # what is left where h is 0
    still = (left < kept + NEAR / 10) & (left > kept - NEAR)
    out = []
    for r in (torch.where(fits[0], low, high), torch.where(fits[1], high, low)):
        length = (1 + r * r).sqrt()
        ours = torch.where(still, g, g / length)
        theirs = torch.where(still, 0.0, g * r / length)
        out.append(torch.stack([ours, torch.where((g == 0) & (u != 0), u.sign(), theirs)]))
    return out[0], out[1]
