"""Inputs that were shared as they are, but for what a wrapper did to them on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attacks._decoders import class_means
from leakbench.base import torch
from leakbench.federation import Examples

if TYPE_CHECKING:
    from torch import Tensor

ROUNDING = 1e-4  # beyond [0, 1]: of half precision
ALIKE = 2.0  # times the mean squares of the attacker's own examples, up or down
MOST = 1000  # of these, for their covariance
CLIPPED = 0.8  # of the scale that is expected: what is smaller was cut to a norm
SURE = 3.0  # standard errors that a scale is above none
OTHER = 1e-3  # of the mean variance: what inputs vary by where the attacker's own do not


def plain(x: Tensor, aux: Examples, *, signal: bool) -> bool:
    """Do inputs (n, *shape) look like inputs?

    Images lie in [0, 1]; and their mean square is within what the attacker's own examples have one
    by one, from half of the least to twice the most: a single dark image is no clipped message.
    """
    if not signal and (float(x.min()) < -ROUNDING or float(x.max()) > 1 + ROUNDING):
        return False
    sizes = aux.x.double().square().flatten(1).mean(1)
    size = float(x.double().square().mean())
    return float(sizes.min()) / ALIKE <= size <= float(sizes.max()) * ALIKE


def restored(
    x: Tensor, y: Tensor, aux: Examples, classes: int, *, signal: bool
) -> tuple[Tensor, Tensor]:
    """What inputs (n, *shape) of classes ``y`` were, before scaling and white noise, twice.

    First of the least error: the conditional mean where examples of a class are normal, with the
    covariance within classes of the attacker's own, ``aux`` (Wiener's filter). The scale is the one
    that fits the class means, the noise's variance what the examples' own does not explain. Then to
    be compared with others by their distance, which is least to the likeliest: scaled back alone.
    """
    means = class_means(aux.x.double(), aux.y, classes)
    own = (aux.x[:MOST].double() - means[aux.y[:MOST]]).flatten(1)
    own = own / len(own) ** 0.5
    _, roots, ways = torch.linalg.svd(own, full_matrices=False)
    spread = roots.square()
    mean, seen = means[y].flatten(1), x.double().flatten(1)
    scale = max(fitted(seen, mean), 1e-6)
    rest = seen - scale * mean
    usual = float(spread.sum() / rest.shape[1])
    noise = max(float(rest.square().mean()) - scale**2 * usual, 0.0)
    along = rest @ ways.T

    def kept(variance: Tensor) -> Tensor:
        return scale * variance / (scale**2 * variance + noise).clamp(min=1e-30)

    off = (rest - along @ ways) * kept(torch.as_tensor(OTHER * usual).to(rest))
    found = mean + (along * kept(spread)) @ ways + off
    least = found if signal else found.clamp(0, 1)
    return least.view(x.shape).to(x.dtype), (x.double() / scale).to(x.dtype)


def fitted(seen: Tensor, expected: Tensor) -> float:
    """Of what is ``expected`` the multiple that fits what is ``seen``, of the same shape, best."""
    return float((seen * expected).sum() / expected.square().sum().clamp(min=1e-30))


def clipped(seen: Tensor, expected: Tensor) -> float:
    """By what a message was multiplied, that its sender cut to a norm; 1 where it was not.

    Nor where that is lost in noise: what is ``seen`` then holds nothing of what is ``expected``.
    """
    scale = fitted(seen, expected)
    left = float((seen - scale * expected).square().mean().sqrt())
    error = left / max(float(expected.square().sum().sqrt()), 1e-30)
    return scale if SURE * error < scale < CLIPPED else 1.0
