"""Total variation: natural images change little from one pixel to the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor

SIDE = 32  # pixels; a coarser image changes more from one pixel to the next


@dataclass(frozen=True)
class Fading:
    """How much of the weight of the total variation is left on the way of a search, in shares."""

    descent: float  # at the last step of the descent, which begins with all of it
    polish: tuple[tuple[float, float], ...]  # while its end is polished: (share, part of the steps)
    choice: float  # where one of several ends is chosen


# One image is settled by its gradient: the prior leads near it, and then is in the way (LeNet on
# CIFAR-100, untrained: polished, 17.5 to 42 dB).
OF_FEW = Fading(0.02, ((0.02, 0.5), (0.001, 0.25), (0.0, 0.25)), 0.0004)
# Many batches match a gradient, so the likeliest is sought, which matches a little worse than the
# nearest: LeNet with 4, 8 and 16 images ends at 25.4, 22.8 and 18.3 dB, where the prior of one
# image makes 22.8, 17.1 and 14.2 and the package's best attack 20.9, 18.7 and 15.4
# (four seeds; results/inversion-engines.md has ten).
OF_BATCHES = Fading(1.0, ((0.1, 1.0),), 0.1)
# Many images have the same signs, too: LeNet on CIFAR-100 after a step of Adam ends at 21.6 dB,
# where the prior of one that is settled makes 17.7 (three images).
OF_SIGNS = Fading(0.1, ((0.1, 1.0),), 0.0004)


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
