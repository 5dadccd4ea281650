"""Total variation: natural images change little from one pixel to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor

SIDE = 32  # pixels; a coarser image changes more from one pixel to the next


def variation(x: Tensor) -> Tensor:
    """The total variation of each batch: (V, B, channels, H, W) to (V,).

    Isotropic, the mean over pixels of the length of the image's slope. Of three channels their
    differences count, too: edges of colour photographs lie in all channels at once ("double
    opponents", Astrom et al. 2016, as in the package `breaching`).
    """
    if x.shape[2] == 3:
        first, second, third = x.unbind(2)
        opponents = torch.stack([first - second, first - third, second - third], 2)
        x = torch.cat([x, opponents], 2)
    down = torch.nn.functional.pad(x[..., 1:, :] - x[..., :-1, :], (0, 0, 0, 1))
    across = torch.nn.functional.pad(x[..., 1:] - x[..., :-1], (0, 1))
    lengths = (down.square() + across.square() + 1e-8).sqrt()
    return lengths.flatten(1).mean(1)


def weight(given: float, shape: tuple[int, ...]) -> float:
    """What ``given``, a weight for images of 32 pixels a side, is for inputs of ``shape``.

    In proportion to their pixels; 0 for what is no picture.
    """
    if len(shape) != 3 or min(shape[1:]) < 2:
        return 0.0
    return given * min(shape[1] * shape[2] / SIDE**2, 1.0)
