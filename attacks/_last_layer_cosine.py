"""How near the prototype is to the mean embedding: the one number that a plane leaves open.

The images' cosines c have three moments that a step tells, E[phi(c) c^k] for k = -1, 1 and 3 with
phi(c) how strongly the loss pulls at cosine c. They and a Beta distribution of c, whose mean and
width are unknown, are three equations for three numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from attacks._last_layer_plane import Plane
from attacks._least_squares import least_squares
from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor

    Pull = Callable[[Tensor], Tensor]  # phi: (k,) cosines to (k,), on the processor

DEGREE = 4  # of the polynomial that stands for phi
FITS = 0.02  # relative error of the moments that is let pass
LEAST = -0.5  # cosines below are not looked for: of two that fit the larger is taken
SHORTEST = 0.5  # length of the mean of the batch's directions, at least


def of_one(plane: Plane, rate: float, pull: Pull) -> float | None:
    """Where in the plane, t, as if all images were one; None where no t explains the step's size.

    The largest of those with rate phi(t) sqrt(1 - t^2) equal to it.
    """

    def over(t: Tensor) -> Tensor:
        return rate * pull(t) * (1 - t * t).clamp(min=0).sqrt() - plane.size

    grid = torch.linspace(LEAST, 1, 601, dtype=torch.float64)
    above = (over(grid[:-1]) >= 0).nonzero().flatten()
    if not rate or not len(above):
        return None
    low, high = grid[above[-1]], grid[above[-1] + 1]
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if float(over(middle[None])[0]) >= 0 else (low, middle)
    return float(low)


def of_many(plane: Plane, rate: float, pull: Pull) -> float | None:
    """Where in the plane, t, by the moments of the cosines; None where no distribution has them."""
    if not rate:
        return None
    powers = _polynomial(pull)
    mean = torch.linspace(LEAST, 0.995, 300, dtype=torch.float64)
    width = torch.linspace(1e-4, 0.3, 60, dtype=torch.float64)
    off, t, m, s = math.inf, 0.0, 0.0, 0.0
    for _ in range(4):
        means, widths = (g.flatten() for g in torch.meshgrid(mean, width, indexing="ij"))
        places, offs = _misfit(plane, rate * _moments(powers, means, widths))
        i = int(offs.argmin())
        if float(offs[i]) <= off:
            off, t, m, s = (float(v[i]) for v in (offs, places, means, widths))
        mean, width = _around(m, mean, LEAST), _around(s, width, 1e-4)
    pulled = rate * float(pull(torch.tensor([m], dtype=torch.float64))[0])
    short = plane.size / max(1 - t * t, 1e-12) ** 0.5 / max(pulled, 1e-300)
    # The mean of unit vectors is no longer than 1.
    return t if off < FITS and SHORTEST < short < 1.001 else None


def _around(at: float, grid: Tensor, least: float) -> Tensor:
    """41 points within two steps of ``grid`` from ``at``."""
    step = 2 * float(grid[1] - grid[0])
    return torch.linspace(max(at - step, least), at + step, 41, dtype=torch.float64)


def _polynomial(pull: Pull) -> Tensor:
    """(DEGREE + 1,): phi's coefficients, constant first."""
    nodes = torch.cos(torch.pi * (torch.arange(32, dtype=torch.float64) + 0.5) / 32)
    terms = nodes[:, None] ** torch.arange(DEGREE + 1)
    return least_squares(terms, pull(nodes)[:, None])[:, 0]


def _moments(powers: Tensor, mean: Tensor, width: Tensor) -> Tensor:
    """(3, k): E[phi(c) c^j] for j = -1, 1, 3; NaN where there is no such distribution.

    |c| is Beta distributed and c has one sign: of ``mean`` (k,) and standard deviation ``width``.
    """
    size = mean.abs()
    both = size * (1 - size) / width**2 - 1
    a, b = size * both, (1 - size) * both
    a = torch.where((a > 1.05) & (b > 0), a, torch.nan)
    raw = [(a + b - 1) / (a - 1), torch.ones_like(a)]
    for j in range(DEGREE + 3):
        raw.append(raw[-1] * (a + j) / (a + b + j))
    sign = torch.where(mean < 0, -1.0, 1.0)
    signed = torch.stack([r * sign ** abs(j - 1) for j, r in enumerate(raw)])  # row j: E[c^(j-1)]
    return torch.stack([powers @ signed[j : j + len(powers)] for j in (0, 2, 4)])


def _told(plane: Plane, t: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The moments for k = -1, 1 and 3, (k,) each, times the rate, if w is at ``t`` (k,)."""
    upright = (1 - t * t).clamp(min=1e-12).sqrt()
    u = plane.size / plane.length / upright  # |u|
    more = t * u / plane.length  # M's part along q q'
    a, b, c = plane.spread
    cubed = upright**2 * a + 2 * upright * t * b + t * t * (c + more * plane.length**2)
    inverse = u**2 * plane.inverse / (1 + more * plane.inverse)
    return inverse, t * plane.size / upright, cubed


def _misfit(plane: Plane, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """(k,) t from the middle moment, and the relative error of the two others; inf where NaN."""
    slope = wanted[1] / plane.size
    t = slope / (1 + slope**2).sqrt()
    inverse, _, cubed = _told(plane, t)
    off = ((cubed / wanted[2] - 1) ** 2 + (inverse / wanted[0] - 1) ** 2).sqrt()
    return t, torch.where(off.isfinite(), off, torch.inf)
