"""What the end of a search is worth, whichever engine searched."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from attacks._inversion.stack import Stack
from attacks._inversion.variation import variation
from attacks._inversion.victims import Candidate, Victim
from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor


def measured(
    victim: Victim, x: Tensor, private: dict[str, Tensor], engine: str, restart: int
) -> Candidate:
    """The candidate with its mismatch, in double precision and without any prior."""
    stack, x = Stack([victim], torch.float64), x.detach().double()
    with torch.no_grad():
        value = float(stack.mismatch(x[None], {k: v[None] for k, v in private.items()}))
        many = float(variation(x[None])) if x.dim() == 4 else 0.0
    found = value if math.isfinite(value) else math.inf
    return Candidate(x, private, found, many, engine, restart)
