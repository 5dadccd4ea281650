"""Distillation from the global model (FLea, Eq. 4; FedNTD's leaves the true class out)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def divergence(p: Tensor, q: Tensor) -> Tensor:
    """KL(p || q) = sum_c p[c] log(p[c] / q[c]) of each example, (B,).

    Of logits p and q (B, classes). FLea, Eq. 4, is the mean of ``divergence(local, glob)``; its
    authors' code computes ``divergence(glob, local)``.
    """
    p, q = p.log_softmax(1), q.log_softmax(1)
    return (p.exp() * (p - q)).sum(1)
