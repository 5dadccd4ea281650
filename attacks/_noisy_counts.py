"""Counts of classes that a wrapper's noise made partly negative: what they most likely were."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor


SHARES = 12  # of the classes that are there, from half of one class to all
HEIGHTS = 14  # of their mean count, from a twentieth to twice the largest, or the noise if larger
LEVELS = 9  # of the noise, from 0.4 to 2.5 times what the negative counts say


def most_likely(counts: Tensor) -> Tensor:
    """(K,) float64, 0 or more: counts (K,) freed of Gaussian noise, as far as they tell it.

    Counts of which none is negative stay as they are. Of others each is 0, or of an exponential
    distribution, and has noise of one level on it; which share of the classes is there, how often
    and how much noise there is are weighed by how likely they make all the counts together
    (empirical Bayes: Johnstone and Silverman 2004). A class that is rather not there gets 0; of the
    others it is the posterior mean. Where no class is likely they are cut off at 0. It wins where
    few classes are held or noise is low, and loses to cutting off where many are held alike.
    """
    counts = counts.double()
    below, cut = counts[counts < 0], counts.clamp(min=0)
    if not len(below) or not bool((counts > 0).any()):
        return cut
    scale = counts.abs().max()
    v = (counts / scale)[:, None, None, None]
    there, height, noise = _grid(counts / scale, below / scale)
    # An exponential's tail under a Gaussian, by its logarithm.
    z = v / noise - noise / height
    tail = torch.special.log_ndtr(z)
    slab = (noise**2 / (2 * height**2) - v / height + tail - height.log()).exp()
    spike = (-((v / noise) ** 2) / 2).exp() / (noise * math.sqrt(2 * math.pi))
    both = (there * slab + (1 - there) * spike).clamp(min=1e-300)
    weight = both.log().sum(0).flatten().softmax(0).view(both.shape[1:])
    present = there * slab / both
    mean = noise * (z + (-(z**2) / 2 - tail).exp() / math.sqrt(2 * math.pi))
    likely = (present * weight).sum((1, 2, 3))
    expected = (present * mean * weight).sum((1, 2, 3)).clamp(min=0)
    kept = expected * (likely > 0.5)
    return kept * scale if bool(kept.isfinite().all()) and bool(kept.any()) else cut


def of_named(counts: Tensor) -> Tensor:
    """(n,) float64, above 0: counts (n,) of classes that are there, freed of Gaussian noise.

    Its level is that of the counts below 0, where there are any; by it the others are drawn to
    their mean (James and Stein 1961). A class that is there has a thousandth of the mean at least.
    """
    counts = counts.double()
    below, mean = counts[counts < 0], counts.mean().clamp(min=0)
    if len(below):
        spread, noise = float(counts.var(correction=0)), float(below.square().mean())
        counts = mean + max(1 - noise / max(spread, 1e-300), 0.0) * (counts - mean)
    least = 1e-3 * mean if float(mean) else counts.new_ones(())
    return counts.clamp(min=float(least))


def _grid(counts: Tensor, below: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Shares, heights and levels to be weighed, one along each of three dimensions."""

    def spread(low: float, high: float, n: int) -> Tensor:
        exponents = torch.linspace(math.log10(low), math.log10(high), n, dtype=torch.float64)
        return 10 ** exponents.to(counts.device)

    there = spread(0.5 / len(counts), 0.999, SHARES)
    level = below.square().mean().sqrt()
    height = torch.maximum(counts.max(), level) * spread(0.05, 2, HEIGHTS)
    noise = level * spread(0.4, 2.5, LEVELS)
    return there[:, None, None], height[:, None], noise
