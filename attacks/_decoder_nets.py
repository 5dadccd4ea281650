"""Networks from features of any sides back to inputs: FLea's Table 5, and a deeper one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor

WIDTH = 32  # channels, as in Table 5
# Weights that a position of the inputs meets in each network, and in those trained beside it.
TABLE5 = 22 * WIDTH**2
CONV = 42 * WIDTH**2
SCALES = 2  # at which edges are compared


def as_maps(t: Tensor) -> Tensor:
    """(n, C), (n, C, L) or (n, C, H, W) as (n, C, H, W)."""
    return t.reshape(*t.shape, *[1] * (4 - t.dim()))


def operations(network: str) -> int:
    """About how many products an example costs at every position, of all networks trained."""
    linear, relu = TABLE5, 2 * TABLE5
    return {"linear": linear, "relu": relu, "conv": relu + CONV}[network]


def table5(
    features: Sequence[int], inputs: Sequence[int], rng: torch.Generator, *, relu: bool
) -> torch.nn.Sequential:
    """Features (n, *features) -> (n, *inputs), both (channels, height, breadth).

    Four layers of 32 channels: 1x1; transposed 3x3 with stride 2, which doubles the sides; 3x3 with
    stride 2, which halves them again; 1x1. As released there is nothing between them; ``relu`` puts
    a ReLU after each of the first three.

    Table 5 takes features of the inputs' own sides. For others the first layer is the transposed
    convolution that brings them to the inputs' sides (see ``side``), and the rest stays.

    Numbers come from ``rng`` alone.
    """
    first = _first(features, inputs)
    up = torch.nn.ConvTranspose2d(
        WIDTH, WIDTH, 3, stride=2, padding=1, output_padding=1, device="meta"
    )
    down = torch.nn.Conv2d(WIDTH, WIDTH, 3, stride=2, padding=1, device="meta")
    last = torch.nn.Conv2d(WIDTH, inputs[0], 1, device="meta")
    between = [torch.nn.ReLU()] if relu else []
    return _started(torch.nn.Sequential(first, *between, up, *between, down, *between, last), rng)


def deep(
    features: Sequence[int], inputs: Sequence[int], rng: torch.Generator
) -> torch.nn.Sequential:
    """Features (n, *features) -> (n, *inputs): about nine convolutions with shortcuts.

    The first layer is that of ``table5``; then two pairs of 3x3 convolutions with shortcuts around
    one pair at half the sides, and a last 3x3. Numbers come from ``rng`` alone.
    """
    from attacks._decoder_blocks import Halves, Shortcut

    last = torch.nn.Conv2d(WIDTH, inputs[0], 3, padding=1, device="meta")
    first = _first(features, inputs)
    return _started(
        torch.nn.Sequential(first, Shortcut(WIDTH), Halves(WIDTH), Shortcut(WIDTH), last), rng
    )


def _first(features: Sequence[int], inputs: Sequence[int]) -> torch.nn.Module:
    """The layer from the features' channels and sides to 32 channels of the inputs' sides."""
    sides = list(zip(features[1:], inputs[1:], strict=True))
    if all(a == b for a, b in sides):
        return torch.nn.Conv2d(features[0], WIDTH, 1, device="meta")
    kernels, strides, pads = zip(*(side(a, b) for a, b in sides), strict=True)
    return torch.nn.ConvTranspose2d(features[0], WIDTH, kernels, strides, pads, device="meta")


def _started(net: torch.nn.Sequential, rng: torch.Generator) -> torch.nn.Sequential:
    """The network with numbers."""
    net.to_empty(device="cpu")  # torch's own start would throw the global dice
    for layer in net.modules():
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


def _start(layer: torch.nn.Module, rng: torch.Generator) -> None:
    """Uniform weights with variance 1/3 over the taps of a channel, as torch has it; biases 0.

    Larger ones (He et al. 2015) fit the auxiliary data as well, and the clients' half as well.
    """
    if isinstance(layer, torch.nn.Conv2d | torch.nn.ConvTranspose2d):
        bound = layer.weight[0].numel() ** -0.5
        with torch.no_grad():
            layer.weight.copy_((2 * torch.rand(layer.weight.shape, generator=rng) - 1) * bound)
            if layer.bias is not None:
                layer.bias.zero_()


def unlike_edges(guess: Tensor, x: Tensor) -> Tensor:
    """Mean square of what the differences of neighbours are off, at full and at half the sides.

    Of inputs (n, *shape), (): what is blurred has none, so an error in them counts twice.
    """
    off, parts = as_maps(guess - x), []
    for _ in range(SCALES):
        steps = [off.diff(dim=d) for d in (2, 3) if off.shape[d] > 1]
        parts += [step.square().mean() for step in steps]
        off = torch.nn.functional.avg_pool2d(off, [min(2, s) for s in off.shape[2:]])
    return torch.stack(parts).sum() if parts else off.new_zeros(())
