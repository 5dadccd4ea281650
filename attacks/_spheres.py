"""A point that lies at a known distance from each of several others: least squares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from attacks._fading import CLIENTS, ages, weights
from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor

# How much the squared distances are trusted against the mean, in squares of the distance: what
# moves between two messages is in them, too. Infinite is the mean alone.
RIDGES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, math.inf)
FOLDS = 5


def common_point(shown: Tensor, far: Tensor, half: float, ridge: float) -> Tensor:
    """(dim,) float64: the point C at distance ``far`` (n,) from each of ``shown`` (n, dim).

    With m the fading mean (``half`` as in ``faded``), C = m + z and X = shown - m, each message
    says 2 X.z - |z|^2 = |X|^2 - far^2: linear but for |z|^2, which is one number for all. Of what
    fits, the z that is short: ``ridge`` weighs its length.
    """
    shown, far = shown.double(), far.double()
    w = weights(ages(len(shown), shown.device), half)
    return _solved(shown, far, w, [ridge])[0]


def trust(shown: Sequence[Tensor], far: Sequence[Tensor], half: float) -> float:
    """One of ``RIDGES``: with which the messages left out lie nearest to the point of the others.

    Every fifth is left out in turn, of all clients.
    """
    errors = torch.zeros(len(RIDGES), dtype=torch.float64)
    known = [(s.double().cpu(), f.double().cpu()) for s, f in zip(shown, far, strict=True)]
    for s, f in [(s, f) for s, f in known if len(s) >= 2 * FOLDS][:CLIENTS]:
        w, fold = weights(ages(len(s), s.device), half), torch.arange(len(s)) % FOLDS
        for k in range(FOLDS):
            rest, out = fold != k, fold == k
            found = _solved(s[rest], f[rest], w[rest], RIDGES)
            missed = (s[out][None] - found[:, None]).square().sum(-1) / f[out].square().mean()
            errors += (missed * w[out]).sum(-1)
    return RIDGES[int(errors.argmin())] if bool(errors.any()) else math.inf


def _solved(shown: Tensor, far: Tensor, w: Tensor, ridges: Sequence[float]) -> Tensor:
    """(ridges, dim): the point at each of ``ridges``."""
    w = w / w.sum()
    middle = w @ shown
    root = w.sqrt()
    x = (shown - middle) * root[:, None]
    y = (shown - middle).square().sum(-1) - far.square()
    y = root * (y - w @ y) / 2
    values, vectors = torch.linalg.eigh(x @ x.T)
    along = vectors.T @ y
    size = float(w @ far.square())
    out = []
    for ridge in ridges:
        # The weights add up to 1, so the ridge is divided by their number.
        held = values + ridge * size / len(shown) + 1e-12 * size
        out.append(middle + (vectors @ (along / held)) @ x)
    return torch.stack(out)
