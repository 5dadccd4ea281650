"""Layers with a way around them, of the deeper decoder.

Apart from its other code: to make a class of layers torch is loaded.
"""

from __future__ import annotations

from torch import Tensor, nn


class Halves(nn.Module):
    """x (n, width, H, W) plus what two convolutions at half the sides make of it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.down = nn.Conv2d(width, width, 3, stride=2, padding=1, device="meta")
        self.inner = nn.Conv2d(width, width, 3, padding=1, device="meta")

    def forward(self, x: Tensor) -> Tensor:
        """The smaller maps are upsampled to x's sides, each place copied."""
        small = self.inner(self.down(x).relu()).relu()
        return x + nn.functional.interpolate(small, size=x.shape[2:])


class Shortcut(nn.Module):
    """x (n, width, H, W) plus what two 3x3 convolutions make of it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.one = nn.Conv2d(width, width, 3, padding=1, device="meta")
        self.two = nn.Conv2d(width, width, 3, padding=1, device="meta")

    def forward(self, x: Tensor) -> Tensor:
        """The same sides."""
        out: Tensor = x + self.two(self.one(x).relu())
        return out
