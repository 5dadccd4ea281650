"""One-sided limits of a difference of two means or shares, at any level that is asked for."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from leakbench.statistics.intervals import by_cluster, jackknife, t_quantile

_ALIKE = 1e-12
_LEAST = 1e-30  # below it scipy's quantile of Student's distribution may be plus infinity


class Bound(ABC):
    """A difference with one-sided limits."""

    def lower(self, alpha: float) -> float:
        """The limit that the difference is above, but for a chance of ``alpha``."""
        return self._limit(alpha, -1)

    def upper(self, alpha: float) -> float:
        """The limit that the difference is below, but for a chance of ``alpha``."""
        return self._limit(alpha, 1)

    def p(self) -> float:
        """The smallest ``alpha`` at which ``lower`` is above 0.

        1 where that is above 1/2, 0 where it is under 1e-30.
        """
        if self.lower(0.5) <= 0:
            return 1.0
        if self.lower(_LEAST) > 0:
            return 0.0
        small, large = math.log(_LEAST), math.log(0.5)
        for _ in range(50):
            middle = (small + large) / 2
            if self.lower(math.exp(middle)) > 0:
                large = middle
            else:
                small = middle
        return math.exp(large)

    @abstractmethod
    def scaled(self, factor: float) -> Self:
        """The same with ``factor`` times as many observations of the same spread."""

    @abstractmethod
    def _limit(self, alpha: float, side: int) -> float:
        """The lower (``side`` -1) or upper (1) limit."""


@dataclass(frozen=True)
class Spread:
    """Mean of observations and how sure it is."""

    mean: float
    count: int  # clusters
    error: float  # standard error of the mean, infinite for one cluster

    @classmethod
    def of(cls, values: Iterable[float], clusters: Iterable[str] | None = None) -> Spread:
        """Of ``values``, each a cluster of its own unless ``clusters`` says otherwise."""
        kept = list(values)
        sums = by_cluster(kept, list(clusters)) if clusters is not None else [(v, 1) for v in kept]
        error = jackknife(sums) if len(sums) > 1 else math.inf
        return cls(math.fsum(kept) / len(kept), len(sums), error if error > _ALIKE else 0.0)

    def alike(self) -> bool:
        """No cluster differs from another: there is no spread to go by."""
        return self.count == 1 or self.error == 0


@dataclass(frozen=True)
class Pivot(Bound):
    """``centre`` and so many standard errors: Student's, normal where ``freedom`` is infinite."""

    centre: float
    error: float
    freedom: float

    def scaled(self, factor: float) -> Pivot:
        """Error and degrees of freedom of ``factor`` times as many."""
        return Pivot(self.centre, self.error / math.sqrt(factor), (self.freedom + 1) * factor - 1)

    def _limit(self, alpha: float, side: int) -> float:
        normal = math.isinf(self.freedom)
        quantile = _normal(alpha) if normal else t_quantile(alpha, self.freedom)
        return self.centre - side * quantile * self.error


@dataclass(frozen=True)
class Newcombe(Bound):
    """Hybrid score limits of two independent shares (Newcombe 1998, method 10)."""

    now: float
    n: float  # observations now
    then: float
    m: float  # observations then

    def scaled(self, factor: float) -> Newcombe:
        """The same shares of ``factor`` times as many."""
        return Newcombe(self.now, self.n * factor, self.then, self.m * factor)

    def _limit(self, alpha: float, side: int) -> float:
        z = -_normal(alpha)
        here, there = wilson(self.now, self.n, z)[side > 0], wilson(self.then, self.m, z)[side < 0]
        return self.now - self.then + side * math.hypot(self.now - here, self.then - there)


def wilson(share: float, n: float, z: float) -> tuple[float, float]:
    """Score interval of a share of ``n`` (Wilson 1927), at ``z`` standard normal deviations."""
    centre, scale = (share + z * z / (2 * n)), 1 + z * z / n
    half = z * math.sqrt(max(share * (1 - share), 0.0) / n + z * z / (4 * n * n))
    return (centre - half) / scale, (centre + half) / scale


def bonett_price(gains: float, losses: float, n: int) -> Pivot:
    """Adjusted Wald limits of paired shares (Bonett & Price 2012).

    Of ``n`` pairs ``gains`` went up and ``losses`` down; ties count as fractions.
    """
    up, down = (gains + 1) / (n + 2), (losses + 1) / (n + 2)
    return Pivot(up - down, math.sqrt((up + down - (up - down) ** 2) / (n + 2)), math.inf)


def one_sample(spread: Spread) -> Pivot:
    """Student's limits of the mean of paired differences."""
    return Pivot(spread.mean, spread.error, spread.count - 1)


def two_sample(now: Spread, then: Spread) -> Pivot:
    """Welch's limits, with Satterthwaite's degrees of freedom."""
    a, b = now.error**2, then.error**2
    below = a * a / (now.count - 1) + b * b / (then.count - 1)
    freedom = (a + b) ** 2 / below if below > 0 else now.count + then.count - 2
    return Pivot(now.mean - then.mean, math.sqrt(a + b), freedom)


def _normal(probability: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(probability))
