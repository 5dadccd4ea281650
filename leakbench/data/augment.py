"""Random changes of training images, by named draws.

One of its own for each image, the same on every device and engine. Images are x
(*party, B, C, H, W) floats; ``rng.party`` is () for one client, or (M,) for M of them at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leakbench.base.lazy import torch
from leakbench.base.streams import Rng

if TYPE_CHECKING:
    from torch import Tensor


def flip(x: Tensor, rng: Rng) -> Tensor:
    """Each image of ``x`` (*party, B, C, H, W) mirrored left to right with probability one half."""
    mirrored = rng.uniform("flip", x.shape[-4]) < 0.5
    return torch.where(mirrored[..., None, None, None], x.flip(-1), x)


def rotate(x: Tensor, rng: Rng, degrees: float) -> Tensor:
    """Each image of ``x`` (*party, B, C, H, W) turned by an angle uniform in +-``degrees``."""
    return turned(x, (2 * rng.uniform("rotation", x.shape[-4]) - 1) * degrees)


def turned(x: Tensor, angle: Tensor) -> Tensor:
    """``x`` (..., C, H, W) turned about its middle, against the clock, by ``angle`` (...) degrees.

    Bilinear, zero (black) from outside the image.
    """
    height, breadth = x.shape[-2:]
    flat, a = x.reshape(-1, *x.shape[-3:]), angle.to(x.dtype).reshape(-1, 1, 1).deg2rad()
    down, right = _middles(height, x)[:, None], _middles(breadth, x)
    # Sides count from -1 to 1, so an oblong image is weighed by its sides: a turn must not shear.
    # Entry by entry, not by a product of matrices, whose last bits would depend on how many images
    # are turned at once.
    across = a.cos() * right - a.sin() * down * height / breadth
    along = a.sin() * right * breadth / height + a.cos() * down
    grid = torch.stack([across, along], -1)
    sample = torch.nn.functional.grid_sample
    out = sample(flat, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
    return out.view(x.shape)


def _middles(pixels: int, like: Tensor) -> Tensor:
    """Where the middles of a side's pixels lie between -1 and 1, (pixels,)."""
    return (2 * torch.arange(pixels, dtype=like.dtype, device=like.device) + 1) / pixels - 1
