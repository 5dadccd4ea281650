"""Least squares, the same wherever the numbers lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor


def least_squares(a: Tensor, b: Tensor) -> Tensor:
    """(n, k): the x for which a x, of a (m, n), is nearest to b (m, k); of several the shortest.

    Solved on the processor: CUDA's solver takes every ``a`` to be of full rank, and where it is not
    gives what it is not asked for without a word.
    """
    found: Tensor = torch.linalg.lstsq(a.cpu(), b.cpu()).solution
    return found.to(a.device)
