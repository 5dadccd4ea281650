"""Mix-up with what others shared (FLea, Eq. 2 and 3; FedMix and FedBR mix raw means so, too)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor


def one_hot(y: Tensor, classes: int, like: Tensor) -> Tensor:
    """(B, classes) of y (B,) int64, in the dtype of ``like``."""
    # Not torch's own, which asks for the largest label and so does not go under vmap.
    return (y[..., None] == torch.arange(classes, device=y.device)).to(like.dtype)


def mix(mine: Tensor, theirs: Tensor, beta: Tensor) -> Tensor:
    """FLea, Eq. 2: beta_i mine_i + (1 - beta_i) theirs_i, rows (B, ...), beta () or (B,)."""
    weight = beta.reshape(*beta.shape, *[1] * (mine.dim() - beta.dim()))
    return weight * mine + (1 - weight) * theirs


def soft_cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """FLea, Eq. 3: -sum_c target[c] log p[c] of each example, (B,); both (B, classes)."""
    return -(target * logits.log_softmax(1)).sum(1)
