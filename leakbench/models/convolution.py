"""A convolution that is a product of matrices where its images are tiny."""

from __future__ import annotations

import torch
from torch import Tensor, nn

# Pixels that come in times pixels that go out: from 8x8 to 8x8.
TINY = 2**12
_TAPS: dict[tuple[object, ...], Tensor] = {}


class Convolution(nn.Conv2d):
    """``nn.Conv2d`` of x (B, C, H, W); one group, zero padding, no dilation.

    On images of a few pixels the kernel is written out as the matrix that it stands for. The
    result is the same up to rounding. Libraries spend most of a small convolution on setting it
    up, most of all its gradient, and where every client has weights of its own (``vmap``) they
    have no fast way at all.
    """

    def forward(self, x: Tensor) -> Tensor:
        """(B, outputs, H', W')."""
        height, breadth = x.shape[-2:]
        down = (height + 2 * int(self.padding[0]) - self.kernel_size[0]) // self.stride[0] + 1
        across = (breadth + 2 * int(self.padding[1]) - self.kernel_size[1]) // self.stride[1] + 1
        if height * breadth * down * across > TINY:
            return super().forward(x)
        kernel = self.weight.flatten(2).flatten(0, 1)  # (outputs inputs, taps)
        places = kernel @ self._taps(height, breadth, x)
        places = places.view(*self.weight.shape[:2], height * breadth, down * across)
        matrix = places.permute(1, 2, 0, 3).flatten(2).flatten(0, 1)
        out = (x.flatten(1) @ matrix).view(-1, self.out_channels, down, across)
        return out if self.bias is None else out + self.bias[:, None, None]

    def _taps(self, height: int, breadth: int, x: Tensor) -> Tensor:
        """(taps, pixels in times pixels out), 1 where a tap leads from the one to the other."""
        how = self.kernel_size, self.padding, self.stride
        key = (height, breadth, *how, x.dtype, x.device)
        if key in _TAPS:
            return _TAPS[key]
        pixels = torch.eye(height * breadth, dtype=x.dtype, device=x.device)
        pixels = pixels.view(-1, 1, height, breadth)
        size, padding, stride = how
        led = nn.functional.unfold(
            pixels,
            size,
            padding=padding,  # type: ignore[arg-type]
            stride=stride,
        )
        taps = led.transpose(0, 1).flatten(1).contiguous()
        # What stands for a tensor while code is traced is no constant; of one that was made in
        # inference mode nobody can train.
        if type(taps) is Tensor and not taps.is_inference():
            _TAPS[key] = taps
        return taps
