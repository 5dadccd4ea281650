"""The network of FLea's Table 5, from features back to inputs, for features of any sides."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

WIDTH = 32  # channels, as in Table 5


def as_maps(t: Tensor) -> Tensor:
    """(n, C), (n, C, L) or (n, C, H, W) as (n, C, H, W)."""
    return t.reshape(*t.shape, *[1] * (4 - t.dim()))


def table5(
    features: Sequence[int], inputs: Sequence[int], rng: torch.Generator, *, relu: bool
) -> nn.Sequential:
    """Features (n, *features) -> (n, *inputs), both (channels, height, breadth).

    Four layers of 32 channels: 1x1; transposed 3x3 with stride 2, which doubles the sides; 3x3 with
    stride 2, which halves them again; 1x1. As released there is nothing between them; ``relu`` puts
    a ReLU after each of the first three.

    Table 5 takes features of the inputs' own sides. For others the first layer is the transposed
    convolution that brings them to the inputs' sides (see ``side``), and the rest stays.

    Numbers come from ``rng`` alone.
    """
    sides = list(zip(features[1:], inputs[1:], strict=True))
    first: nn.Module
    if all(a == b for a, b in sides):
        first = nn.Conv2d(features[0], WIDTH, 1, device="meta")
    else:
        kernels, strides, pads = zip(*(side(a, b) for a, b in sides), strict=True)
        first = nn.ConvTranspose2d(features[0], WIDTH, kernels, strides, pads, device="meta")
    up = nn.ConvTranspose2d(WIDTH, WIDTH, 3, stride=2, padding=1, output_padding=1, device="meta")
    down = nn.Conv2d(WIDTH, WIDTH, 3, stride=2, padding=1, device="meta")
    last = nn.Conv2d(WIDTH, inputs[0], 1, device="meta")
    between = [nn.ReLU()] if relu else []
    net = nn.Sequential(first, *between, up, *between, down, *between, last)
    net.to_empty(device="cpu")  # torch's own start would throw the global dice
    for layer in net:
        _start(layer, rng)
    return net


def side(features: int, inputs: int) -> tuple[int, int, int]:
    """(kernel, stride, padding) of a transposed convolution from ``features`` to ``inputs`` a side.

    The stride is the ratio of the sides, so a feature meets the inputs that it was made of; the
    kernel reaches over its neighbours' too, as far to the left as to the right. A side of one is
    spread over all.
    """
    if features == 1:
        return inputs, inputs, 0
    stride = max(1, round(inputs / features))
    rest = inputs - (features - 1) * stride
    pad = max(0, math.ceil((2 * stride + 1 - rest) / 2))
    return rest + 2 * pad, stride, pad


def _start(layer: nn.Module, rng: torch.Generator) -> None:
    """Uniform weights with variance 1/3 over the taps of a channel, as torch has it; biases 0.

    Larger ones (He et al. 2015) fit the auxiliary data as well, and the clients' half as well.
    """
    if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d):
        bound = layer.weight[0].numel() ** -0.5
        with torch.no_grad():
            layer.weight.copy_((2 * torch.rand(layer.weight.shape, generator=rng) - 1) * bound)
            if layer.bias is not None:
                layer.bias.zero_()
