"""How far the gradients of two steps of Adam are from the directions that their sum tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from leakbench.attacking import AdamPair
from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor


class Directions:
    """The steps of several victims (``AdamPair``).

    Of each number the two gradients (g, h) are held against the direction told: the share of their
    lengths' sum that does not lie along it, of each tensor, which counts by the root of its size.
    It is 0 where every direction is right, whatever the lengths, as ``Signs`` is of one step; where
    two directions were told, the nearer one counts.

    Args:
        pairs: those that were read.
        sent: {name: 0 or 1, (V, ...)}, which numbers were sent.
    """

    def __init__(self, pairs: Sequence[AdamPair], sent: Mapping[str, Tensor]) -> None:
        self._told = {}
        for name, there in sent.items():
            ways = [torch.stack([p.one[name], p.other[name]]) for p in pairs]
            told = torch.stack(ways, 2).to(there)  # (ways, g and h, V, ...)
            weight = (told[0] != 0).any(0).flatten(1).sum(1).to(there.dtype).sqrt()
            self._told[name] = (told, there, weight)

    def apart(self, made: Mapping[str, Tensor]) -> Tensor:
        """How far ``made`` {"0/name", "1/name": (V, ...)} is from what was told, (V,)."""
        wrong, weights = [], []
        for name, (told, there, weight) in self._told.items():
            g, h = made[f"0/{name}"] * there, made[f"1/{name}"] * there
            along = torch.maximum(*(way[0] * g + way[1] * h for way in told)).flatten(1).sum(1)
            squares = g.square() + h.square()
            some = squares > 0  # a root has no slope at 0
            lengths = torch.where(some, torch.where(some, squares, 1.0).sqrt(), 0.0)
            whole = lengths.flatten(1).sum(1)
            share = 1 - along / torch.where(whole > 0, whole, 1.0)
            wrong.append(share * weight)
            weights.append(weight)
        return torch.stack(wrong).sum(0) / torch.stack(weights).sum(0).clamp(min=1)
