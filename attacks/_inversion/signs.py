"""What one step of Adam says of a gradient: every sign, and small numbers whole.

A step is lr g / (|g| + 1e-8), so that a number of the gradient is told by it where it is small, and
elsewhere by its sign alone (``AdamStep``). A candidate's gradient is held against both:

    the share of its absolute sum whose sign is wrong, of each tensor, over the numbers of which
    the sign alone is known, and those that are 0 (behind a ReLU that was off); and the angle
    between the known numbers of each output unit.

The first is 0 where every sign is right, whatever the sizes; it is that of one-bit compressed
sensing (Plan and Vershynin 2013) with the norm that is the sum, which no single large number rules.
A tensor counts by the root of its size: the head has most numbers, and its signs say hardly more
than the label. The second compares directions unit by unit, for of a head's row the size is the
probability of its class, and the direction is what the layers below made of the image.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from leakbench.attacking import AdamStep
from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor

KNOWN = 0.3  # of the angle beside the share of wrong signs
ROW = 8  # known numbers of a unit, from which on they have a direction


class Signs:
    """The steps of several victims, {name: (V, ...)} each.

    Args:
        steps: those that were read, none of them ``rough``.
        observed: the gradients as far as they are told, {name: (V, ...)}.
        sent: {name: 0 or 1, (V, ...)}, which numbers were sent.
    """

    def __init__(
        self, steps: Sequence[AdamStep], observed: Mapping[str, Tensor], sent: Mapping[str, Tensor]
    ) -> None:
        self._signs, self._rows = {}, {}
        for name, seen in observed.items():
            known = torch.stack([s.known(name) for s in steps]) * (sent[name] > 0)
            there = (~known | (seen == 0)) * sent[name]
            self._signs[name] = (seen.sign() * there, there.to(seen))
            if seen.dim() > 2:
                flat = known.flatten(2)
                some = (flat.sum(2, keepdim=True) >= ROW) & (seen.flatten(2) != 0).any(2, True)
                told = flat * some
                if bool(told.any()):
                    self._rows[name] = (told.to(seen), seen.flatten(2) * told)

    def apart(self, made: Mapping[str, Tensor]) -> Tensor:
        """How far the gradients ``made`` {name: (V, ...)} are from what was told, (V,)."""
        wrong, weights = [], []
        for name, (signs, there) in self._signs.items():
            g = (made[name] * there).flatten(1)
            size, right = g.abs().sum(1), (signs.flatten(1) * g).sum(1)
            share = 1 - right / torch.where(size > 0, size, 1.0)
            weight = signs.flatten(1).abs().sum(1).sqrt()
            wrong.append(share * weight)
            weights.append(weight)
        total = torch.stack(wrong).sum(0) / torch.stack(weights).sum(0).clamp(min=1)
        return total + KNOWN * self._turned(made, total)

    def _turned(self, made: Mapping[str, Tensor], like: Tensor) -> Tensor:
        """1 - cosine of the known numbers of a unit, on average over these numbers, (V,)."""
        total, count = torch.zeros_like(like), torch.zeros_like(like)
        for name, (told, seen) in self._rows.items():
            g = made[name].flatten(2) * told
            half = 0.5 * (_unit(g) - _unit(seen)).square().sum(2)
            many = told.sum(2)
            total, count = total + (half * many).sum(1), count + many.sum(1)
        return total / count.clamp(min=1)


def _unit(rows: Tensor) -> Tensor:
    """Rows of length 1; of a row of zeros nothing is made."""
    squares = rows.square().sum(-1, keepdim=True)
    return rows / torch.where(squares > 0, squares, 1.0).sqrt()
