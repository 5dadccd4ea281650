"""95 % two-sided intervals over independent units, within a run and over seeds.

Pure functions of scores. What each interval promises, and what a simulation says about it, is in
``docs/statistics.md``.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leakbench.base.errors import LeakbenchError

LEVEL = 0.95
# A sum of ties of 1/3 each misses a whole number by rounding; less than this is taken for that.
_ROUNDING = 1e-9

Pair = tuple[float, float]
Seed = tuple[Sequence[float], Sequence[str], Sequence[str]]


class NoInterval(LeakbenchError):
    """Nothing can be said of a mean of one unit or one cluster whose range has no end."""


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float
    n: int  # how many unit scores it is the mean of
    unit: str  # "client", "image", ...
    interval: str  # "clopper-pearson", "student" or "exact": nothing was sampled, no width


def exact(value: float, n: int, unit: str) -> Estimate:
    """A number that was not sampled: it has no width."""
    return Estimate(value, value, value, n, unit, "exact")


def exact_over_seeds(
    seeds: Sequence[Sequence[float]], *, low: float, high: float, unit: str
) -> Estimate:
    """Mean of numbers of several seeds, none of which was sampled within its seed.

    ``seeds``: the units' scores of each; ``low``, ``high``: the metric's range. What three seeds or
    more differ by gives it a width, Student's over their values: of another run it would be another
    number.
    """
    scores = [x for each in seeds for x in each]
    value = math.fsum(scores) / len(scores)
    means = [math.fsum(each) / len(each) for each in seeds]
    if len(means) < 3 or max(means) - min(means) <= _ROUNDING:
        return exact(value, len(scores), unit)
    ends = _over_seeds(means, arcsine=(low, high) == (0.0, 1.0))
    return Estimate(value, *_around(value, ends, low, high), len(scores), unit, "student")


def estimate(
    scores: Sequence[float],
    clusters: Sequence[str],
    *,
    share: bool,
    low: float,
    high: float,
    unit: str,
) -> Estimate:
    """Mean of the units' scores of one run, with its interval.

    Clopper-Pearson for shares of independent units; Student for means; where units share a cluster,
    Student over the clusters' means with G - 1 degrees of freedom (clusters of unequal size: the
    jackknife over clusters, which is the same number where sizes are equal, and stays centred on
    the mean of the units). Scores in [0, 1] of which no cluster differs from another leave Student
    without width: Clopper-Pearson with n = clusters. A single unit or cluster of a mean has the
    whole range of the metric.

    Args:
        scores: (n,) one per unit, each within [``low``, ``high``].
        clusters: (n,) the cluster of each; the unit itself where units are independent.
        share: units score 0 or 1 (ties and failures between), so that the mean counts successes.
        low: smallest possible score, may be minus infinity.
        high: largest possible score, may be infinity.
        unit: what a unit is.

    Raises:
        ValueError: there are no scores, or one is not finite or outside the range (a fault of the
            metric).
        NoInterval: one cluster only, and the range is infinite.
    """
    _check(scores, clusters, low, high)
    n = len(scores)
    value = _within(math.fsum(scores) / n, low, high)
    sums = by_cluster(scores, clusters)
    count = len(sums)
    means = [s / k for s, k in sums]
    unit_range = (low, high) == (0.0, 1.0)
    constant = max(scores) == min(scores)
    alike = max(means) - min(means) <= _ROUNDING
    if (share and count == n) or (unit_range and alike):
        ends = clopper_pearson(value * count, count)
        # Clusters that agree although their units do not: still Student's, which has no width.
        kind = "clopper-pearson" if count == n or constant else "student"
    elif count == 1:
        if math.isinf(low) or math.isinf(high):
            only = unit if n == 1 else "cluster"
            raise NoInterval(
                f"one {only} only: an unbounded mean has no interval; use at least two."
            )
        ends, kind = (low, high), "student"
    else:
        ends, kind = _student(value, jackknife(sums), count - 1), "student"
    return Estimate(value, *_around(value, ends, low, high), n, unit, kind)


def pool(seeds: Mapping[int, Seed], *, share: bool, low: float, high: float, unit: str) -> Estimate:
    """Mean over several seeds of one configuration, with its interval.

    The interval goes from the lowest low to the highest high of: the one over all unit scores (a
    client of two seeds counts as two); with three seeds or more, Student over the seeds' values
    (metrics in [0, 1] on the arcsine scale); where the same clusters (units, where they are
    independent) appear in every seed, Student over their means. With fewer than three seeds it
    speaks of these runs, not of the method. Where n differs by seed the value is the mean of all
    unit scores; where it does not, that is the mean of the seeds' values too.

    Args:
        seeds: seed -> (scores, units, clusters), each (n,), as for ``estimate``.
        share: as for ``estimate``.
        low: as for ``estimate``.
        high: as for ``estimate``.
        unit: as for ``estimate``.

    Raises:
        ValueError: as for ``estimate``, or there is no seed.
        NoInterval: one cluster in all seeds together, and the range is infinite.
    """
    runs = [seeds[s] for s in sorted(seeds)]
    if not runs:
        raise ValueError("an estimate over seeds needs at least one seed, got none")
    scores = [x for run in runs for x in run[0]]
    own = [f"{seed}|{c}" for seed in sorted(seeds) for c in seeds[seed][2]]
    whole = estimate(scores, own, share=share, low=low, high=high, unit=unit)
    if len(runs) == 1:
        return whole
    ends = [(whole.low, whole.high)]
    if len(runs) >= 3:
        means = [math.fsum(r[0]) / len(r[0]) for r in runs]
        ends.append(_over_seeds(means, arcsine=(low, high) == (0.0, 1.0)))
    names = [set(r[2]) for r in runs]
    if all(n == names[0] for n in names) and len(names[0]) > 1:
        sums = by_cluster(scores, [c for r in runs for c in r[2]])
        ends.append(_student(whole.value, jackknife(sums), len(sums) - 1))
    hull = min(e[0] for e in ends), max(e[1] for e in ends)
    ends_of_hull = _around(whole.value, hull, low, high)
    return Estimate(whole.value, *ends_of_hull, len(scores), unit, whole.interval)


def clopper_pearson(successes: float, n: int) -> Pair:
    """Exact binomial interval (Clopper & Pearson 1934); fractional successes are rounded outwards.

    ``n``: trials, 1 or more. ``successes``: from 0 to n.
    """
    from scipy.special import betaincinv

    tail = (1 - LEVEL) / 2
    down, up = math.floor(successes + _ROUNDING), math.ceil(successes - _ROUNDING)
    low = 0.0 if down <= 0 else float(betaincinv(down, n - down + 1, tail))
    high = 1.0 if up >= n else float(betaincinv(up + 1, n - up, 1 - tail))
    return low, high


def t_quantile(probability: float, freedom: float) -> float:
    """Student's quantile; ``freedom`` may be fractional (Satterthwaite)."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, probability))


def _student(centre: float, error: float, freedom: float) -> Pair:
    half = t_quantile((1 + LEVEL) / 2, freedom) * error
    return centre - half, centre + half


def _over_seeds(values: Sequence[float], *, arcsine: bool) -> Pair:
    """Student over the seeds' values; ``arcsine``: of proportions, on asin(sqrt(p))."""
    x = list(values)
    if arcsine:
        x = [math.asin(math.sqrt(_within(v, 0.0, 1.0))) for v in x]
    mean = math.fsum(x) / len(x)
    error = math.sqrt(math.fsum((v - mean) ** 2 for v in x) / (len(x) * (len(x) - 1)))
    low, high = _student(mean, error, len(x) - 1)
    if arcsine:
        return math.sin(max(low, 0.0)) ** 2, math.sin(min(high, math.pi / 2)) ** 2
    return low, high


def by_cluster(scores: Sequence[float], clusters: Sequence[str]) -> list[tuple[float, int]]:
    """(sum of scores, units) of each cluster, in an order that does not depend on the units'."""
    groups: dict[str, list[float]] = defaultdict(list)
    for score, cluster in zip(scores, clusters, strict=True):
        groups[cluster].append(score)
    return [(math.fsum(groups[c]), len(groups[c])) for c in sorted(groups)]


def jackknife(sums: Sequence[tuple[float, int]]) -> float:
    """Standard error of the mean of all units, leaving out one cluster (of two or more) a time."""
    total, n, count = math.fsum(s for s, _ in sums), sum(k for _, k in sums), len(sums)
    # (total - s)/(n - k) - total/n, written without taking the difference of two near numbers.
    moved = [k * (total / n - s / k) / (n - k) for s, k in sums]
    return math.sqrt((count - 1) / count * math.fsum(m * m for m in moved))


def _around(value: float, ends: Pair, low: float, high: float) -> Pair:
    """Clipped to the range; rounding must not push the value out of its own interval."""
    return float(max(min(ends[0], value), low)), float(min(max(ends[1], value), high))


def _within(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


def _check(scores: Sequence[float], clusters: Sequence[str], low: float, high: float) -> None:
    if not scores or len(scores) != len(clusters):
        raise ValueError(
            f"an estimate needs one cluster per score and at least one, got {len(scores)} scores,"
            f" {len(clusters)} clusters"
        )
    for s in scores:
        if not math.isfinite(s) or not low - _ROUNDING <= s <= high + _ROUNDING:
            raise ValueError(
                f"scores must be finite and within [{low}, {high}], got {s}; clip them in the"
                " metric"
            )
