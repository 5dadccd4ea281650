"""How images and kernels lie in memory while a network is trained: their channels last.

Convolutions read them so up to 1.6 times as fast (docs/speed.md); the numbers are the same up to
rounding. What leaves a training lies as torch makes it, channels first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from leakbench.base.lazy import torch
from leakbench.base.tree import Tree, tmap
from leakbench.federation.parties import Batch

if TYPE_CHECKING:
    from torch import Tensor, nn


LANES = 8  # channels that a processor of AVX2 takes at once


def lies_last(module: nn.Module) -> bool:
    """Has it convolutions over images, and none that must not read them so?

    On processors of AVX2 alone torch 2.15 writes beyond its memory in the derivative of a 1x1
    convolution that strides over fewer channels than ``LANES``: the process dies, or goes on.
    """
    found = [part for part in module.modules() if isinstance(part, torch.nn.Conv2d)]
    return bool(found) and not any(_written_beyond(part) for part in found)


def _written_beyond(part: nn.Conv2d) -> bool:
    strides = max(map(int, part.stride)) > 1 and max(map(int, part.kernel_size)) == 1
    return strides and part.in_channels // part.groups < LANES


def laid(t: Tensor) -> Tensor:
    """The same, the channels last, where it is an image (B, C, H, W) or a kernel of float32."""
    if t.dim() != 4 or t.dtype != torch.float32:
        return t
    return t.contiguous(memory_format=torch.channels_last)


def laid_batch(batch: Batch) -> Batch:
    """The same, its inputs ``laid``."""
    return replace(batch, x=laid(batch.x))


def plain_layout(tree: Tree) -> Tree:
    """The same numbers as torch lays them: what is computed from them later has the same bits."""
    return tmap(lambda t: t.contiguous(), tree)
