"""What a first layer that is linear tells of the one image it read: all of it.

The slope by a unit's weights is the image times the slope by its bias (Geiping et al. 2020,
Proposition 3.1), whatever follows the layer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from attacks._inversion.victims import Victim
from leakbench import models
from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor

CLEAR = 0.1  # of the largest slope by a bias: units below it say little beside rounding

# The slopes by the weights of some units (n, inputs) and by their biases (n,) -> (inputs,).
Division = Callable[["Tensor", "Tensor"], "Tensor"]


def divided(rows: Tensor, biases: Tensor) -> Tensor:
    """The image (inputs,) that explains the slopes best, in least squares."""
    return (biases @ rows) / biases.square().sum()


def _divided_alone(rows: Tensor, biases: Tensor, told: Tensor) -> Tensor:
    """The same, pixel by pixel, where ``told`` (n, inputs) is 1; 0 where it nowhere is."""
    return (biases @ (rows * told)) / (biases.square() @ told).clamp(min=1e-300)


def images(victim: Victim, parts: int, division: Division = divided) -> list[Tensor]:
    """Up to ``parts`` times the image (1, *shape) that a victim's first layer read, on [0, 1].

    Each from units of its own, of those that say most: they agree where there was one image. [] of
    several images, of a step of Adam, and where no linear layer with a bias reads them. Where a
    part of the update was not sent, each pixel is told by the units whose slopes by it were
    (``division`` needs whole rows); one of which none was is 0.
    """
    replay = victim.replay(torch.float64)
    if len(victim.labels) != 1 or replay.adam is not None:
        return []
    name, seen = models.first_linear(replay.module, replay.facts.shape), replay.observed()
    rows, biases = (seen.get(models.tensor_of(name, key)) for key in ("weight", "bias"))
    if not name or rows is None or biases is None or not bool(biases.any()):
        return []
    clear = (biases.abs() > CLEAR * biases.abs().max()).nonzero().flatten()
    several = min(parts, len(clear))
    each = [clear[k::several] for k in range(several)]
    if replay.message.sparse:
        told = replay.sent()[models.tensor_of(name, "weight")].to(rows)
        found = [_divided_alone(rows[own], biases[own], told[own]) for own in each]
    else:
        found = [division(rows[own], biases[own]) for own in each]
    return [replay.facts.input_range.unit(x.reshape(victim.shape)) for x in found]
