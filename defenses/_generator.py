"""A generator of inputs of a class from noise: four transposed convolutions (FLea, Appendix C.3).

Its weights are {"w0": (z + classes, c h w), "b0": (c h w,), "w1": (c, c / 2, 4, 4), "b1": (c / 2,),
..., "w4", "b4"}; each convolution doubles the sides, and what overhangs is cut off.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

from leakbench import Facts
from leakbench.base import Rng, torch

if TYPE_CHECKING:
    from torch import Tensor

Generator: TypeAlias = "dict[str, Tensor]"
LAYERS = 4
KERNEL = 4
WIDEST = 3.0  # standard deviations of a signal


def start(rng: Rng, facts: Facts, noise: int, channels: int) -> Generator:
    """Fresh weights, uniform with PyTorch's usual bounds."""
    widths = [*(max(channels >> i, 1) for i in range(LAYERS)), facts.shape[0]]
    flat = channels * math.prod(_sides(facts))
    shapes: dict[str, tuple[int, ...]] = {"0": (noise + facts.classes, flat)}
    for i in range(1, LAYERS + 1):
        shapes[str(i)] = (widths[i - 1], widths[i], KERNEL, KERNEL)
    out: Generator = {}
    for name, shape in shapes.items():
        inputs = shape[0] if name == "0" else shape[0] * KERNEL * KERNEL // 4
        bound = inputs**-0.5
        out[f"w{name}"] = (2 * rng.uniform(f"generator/w{name}", *shape) - 1) * bound
        out[f"b{name}"] = (2 * rng.uniform(f"generator/b{name}", shape[1]) - 1) * bound
    return out


def made(weights: Generator, labels: Tensor, noise: Tensor, facts: Facts) -> Tensor:
    """Inputs (n, *shape) of one-hot ``labels`` (n, classes) and ``noise`` (n, z).

    Images lie in their range, standardised signals within three deviations: without bounds the way
    to different examples is ever larger ones, and those spoil the clients' networks.
    """
    functional = torch.nn.functional
    high, wide = _sides(facts)
    x = torch.relu(torch.cat([noise, labels], 1) @ weights["w0"] + weights["b0"])
    x = x.reshape(len(x), -1, high, wide)
    for i in range(1, LAYERS + 1):
        x = functional.conv_transpose2d(x, weights[f"w{i}"], weights[f"b{i}"], 2, 1)
        x = functional.leaky_relu(x, 0.2) if i < LAYERS else x
    x = x[..., : facts.shape[1], : facts.shape[2]]
    lies = facts.input_range
    return WIDEST * torch.tanh(x / WIDEST) if facts.signal else lies.native(x.sigmoid())


def _sides(facts: Facts) -> tuple[int, int]:
    """Of what the first convolution gets: a sixteenth of the input's, rounded up."""
    high, wide = facts.shape[-2:]
    return -(-high // 2**LAYERS), -(-wide // 2**LAYERS)
