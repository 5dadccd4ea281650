"""The examples behind the mean and the covariance of their features, all of them at once.

Of n examples these tell the features but for a rotation: centred, F = Q S', where S (d, k) is a
root of n - 1 covariances and Q (n, k) has orthonormal columns that nobody sent. So examples are
held against what was sent by the squared distance at the best Q (Procrustes; Schönemann 1966),
|F|² + |S|² - 2 |F S|_* with the nuclear norm, and n times that of the means.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attacks._input_prior import InputPrior
from attacks._lbfgs import minimise
from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor

CLOSE = 1e-3  # of the usual spread of a feature: a distance below says nothing more
AWAY = 0.3  # of the prior's spread: how far from the class mean a search begins
MEMORY = 30  # pairs of L-BFGS
GLANCE = 60  # steps of all starts, before the best are followed
FOLLOWED = 2


def _flat(sent: Tensor | None) -> Tensor | None:
    return None if sent is None or bool(sent.all()) else sent.detach().double().cpu().flatten()


Extract = Callable[["Tensor"], "Tensor"]


@dataclass(frozen=True)
class Told:
    """What was sent of n examples; float64, on the processor."""

    labels: tuple[int, ...]  # of each, n
    mean: Tensor  # (d,)
    root: Tensor  # (d, k): S, of k = n - 1 directions, d at most
    sent: Tensor | None = None  # (d,): which numbers of the mean were; None: all
    products: Tensor | None = None  # (d, d): S S', where not all of it was sent; nan: these

    @classmethod
    def of(
        cls,
        label: int,
        n: int,
        mean: Tensor,
        covariance: Tensor,
        sent: Tensor | None = None,
        products_sent: Tensor | None = None,
    ) -> Told:
        """Of n examples of a class, of ``covariance`` (d, d), over n - 1; of one it is not read.

        ``sent`` (d,), ``products_sent`` (d, d): which numbers of both were; None: all.
        """
        mean = mean.detach().double().cpu().flatten()
        spread = covariance.detach().double().cpu() * (n - 1)
        values, vectors = torch.linalg.eigh((spread + spread.T) / 2)
        k = min(n - 1, len(mean))
        root = vectors[:, len(mean) - k :] * values[len(mean) - k :].clamp(min=0).sqrt()
        products = None
        if products_sent is not None and not bool(products_sent.all()):
            products = spread.masked_fill(~products_sent.cpu(), torch.nan)
        return cls((label,) * n, mean, root, _flat(sent), products)

    @classmethod
    def of_mean(cls, labels: Sequence[int], mean: Tensor, sent: Tensor | None = None) -> Told:
        """Of examples of several classes, of which the mean alone was sent, or some of it."""
        mean = mean.detach().double().cpu().flatten()
        return cls(tuple(labels), mean, mean.new_zeros(len(mean), 0), _flat(sent))

    @classmethod
    def by(cls, label: int, features: Tensor) -> Told:
        """Of the ``features`` (n, d) themselves."""
        apart = features - features.mean(0)
        n = len(features)
        return cls.of(label, n, features.mean(0), apart.T @ apart / max(n - 1, 1))

    @property
    def n(self) -> int:
        """How many examples."""
        return len(self.labels)

    @property
    def numbers(self) -> float:
        """How many numbers it tells: the mean, and F but for a rotation."""
        d, k = self.root.shape
        means = d if self.sent is None else float(self.sent.sum())
        rotated = d * k - k * (k - 1) / 2
        if self.products is not None:
            rotated = min(rotated, float(self.products.triu().isfinite().sum() - d * (d - 1) / 2))
        return max(means + rotated, 1.0)

    def apart(self, features: Tensor) -> Tensor:
        """(B,): the squared distance of ``features`` (B, n, d) from what was sent, at the best Q.

        The gradient is that at this Q held fast, which by the envelope theorem is the whole one.
        """
        mean = features.mean(1)
        centred = features - mean[:, None]
        missed = (mean - self.mean).square()
        off = self.n * (missed if self.sent is None else missed * self.sent).sum(1)
        if self.products is not None:
            return off + self._multiplied(centred, self.products)
        if self.root.shape[1]:
            seen = centred @ self.root
            with torch.no_grad():
                left, _, right = torch.linalg.svd(seen, full_matrices=False)
                turned = left @ right
            off = off + centred.square().sum((1, 2)) + self.root.square().sum()
            off = off - 2 * (turned * seen).sum((1, 2))
        return off.clamp(min=0)

    def _multiplied(self, centred: Tensor, products: Tensor) -> Tensor:
        """(B,): by ``products`` F' F alone, where some were not sent; as a squared distance of F.

        Near S each is off by twice that distance times what S is long in a direction.
        """
        there, k = products.isfinite(), max(self.root.shape[1], 1)
        off = torch.where(there, centred.mT @ centred - products.nan_to_num(), 0.0)
        long = float(products.diagonal().nan_to_num().sum()) / k
        return off.square().sum((1, 2)) / (4 * max(long, 1e-30))


@dataclass(frozen=True)
class Rebuilt:
    """Where a search ended."""

    x: Tensor  # (n, *shape), on [0, 1] where inputs have bounds
    off: float  # squared distance of their statistics from those sent, a number


def search(
    extract: Extract,
    told: Told,
    prior: InputPrior,
    usual: float,
    *,
    starts: int,
    steps: int,
    dice: torch.Generator,
) -> Rebuilt:
    """The likeliest examples: Gaussian noise of any level on what was sent, and the prior.

    Minus the log-likelihood of N numbers with the level profiled out is N/2 log of the mean squared
    distance. From several starts near the class mean, in which examples differ.

    Args:
        extract: (m, *shape) to features (m, d), differentiable.
        told: what was sent.
        prior: which inputs are likely.
        usual: the variance of a feature, about.
        starts: searches that are begun.
        steps: of those that are followed, at most.
        dice: where they begin.
    """
    labels, size = told.labels, prior.size(told.labels)

    def ends(z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The inputs (B, n, *shape), their distances (B,), and how unlikely they are (B,)."""
        z = z.view(-1, told.n, size)
        x = prior.inputs(labels, z)
        features = extract(x.flatten(0, 1)).flatten(1).view(len(z), told.n, -1)
        off = told.apart(features) / told.numbers
        missed = 0.5 * told.numbers * (off + CLOSE**2 * usual).log()
        return x, off, missed + prior.unlikely(x, z)

    def descended(z: Tensor, steps: int) -> Tensor:
        scale = told.numbers * len(z)
        end = minimise(lambda v: ends(v)[2].sum() / scale, z.flatten(), steps=steps, memory=MEMORY)
        return end.x.detach().view(z.shape)

    z = torch.randn(starts, told.n * size, generator=dice, dtype=torch.float64)
    z = descended(AWAY * z, GLANCE)
    with torch.no_grad():
        best = ends(z)[2].argsort()[:FOLLOWED]
    kept = [descended(z[i : i + 1], steps) for i in best.tolist()]
    with torch.no_grad():
        finished = [ends(one) for one in kept]
    x, off, _ = min(finished, key=lambda end: float(end[2]))
    return Rebuilt(x[0].detach(), float(off))
