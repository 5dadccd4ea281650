"""One-sided limits of a difference of two means or shares, at any level that is asked for."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from leakbench.statistics.intervals import by_cluster, jackknife, t_quantile

_ALIKE = 1e-12
_TIE = 1e-9  # a sum of ties misses a whole number by rounding
_LEAST = 1e-30  # below it scipy's quantile of Student's distribution may be plus infinity


def smallest_level(holds: Callable[[float], bool]) -> float:
    """The smallest level at which a limit does what is asked: 1 where that is above 1/2.

    0 where it is under 1e-30. ``holds`` is false up to some level, and true from there on.
    """
    if not holds(0.5):
        return 1.0
    if holds(_LEAST):
        return 0.0
    small, large = math.log(_LEAST), math.log(0.5)
    for _ in range(50):
        middle = (small + large) / 2
        if holds(math.exp(middle)):
            large = middle
        else:
            small = middle
    return math.exp(large)


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
        return smallest_level(lambda alpha: self.lower(alpha) > 0)

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


@dataclass(frozen=True)
class Exact(Bound):
    """Clopper-Pearson limits of one share; ties count as fractions, rounded outwards."""

    hits: float
    n: int

    def scaled(self, factor: float) -> Exact:
        """The same share of ``factor`` times as many."""
        return Exact(self.hits * factor, round(self.n * factor))

    def _limit(self, alpha: float, side: int) -> float:
        from scipy.special import betaincinv

        if side < 0:
            k = math.floor(self.hits + _TIE)
            return 0.0 if k <= 0 else float(betaincinv(k, self.n - k + 1, alpha))
        k = math.ceil(self.hits - _TIE)
        return 1.0 if k >= self.n else float(betaincinv(k + 1, self.n - k, 1 - alpha))


@dataclass(frozen=True)
class Arcsine(Bound):
    """Student's limits of shares' mean on the arcsine scale, where their spread is alike."""

    pivot: Pivot

    @classmethod
    def of(cls, shares: Sequence[float]) -> Arcsine:
        """Of numbers in [0, 1]."""
        turned = [math.asin(math.sqrt(min(max(p, 0.0), 1.0))) for p in shares]
        return cls(one_sample(Spread.of(turned)))

    def scaled(self, factor: float) -> Arcsine:
        """Of ``factor`` times as many."""
        return Arcsine(self.pivot.scaled(factor))

    def _limit(self, alpha: float, side: int) -> float:
        turned = self.pivot.lower(alpha) if side < 0 else self.pivot.upper(alpha)
        return math.sin(min(max(turned, 0.0), math.pi / 2)) ** 2


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
