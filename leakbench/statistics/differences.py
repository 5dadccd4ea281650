"""Does it leak more than it did? The difference of two sets of unit scores, and its limits.

d is leakage now minus leakage then, in the direction that counts against the method. Each limit is
computed over units and over seed means, and the wider one counts: units of one seed share a trained
model, and few seeds alone miss what the units show. See ``docs/statistics.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from leakbench.statistics.limits import (
    Bound,
    Newcombe,
    Spread,
    bonett_price,
    one_sample,
    two_sample,
)

LEVEL = 0.05
FEWEST_SEEDS = 2
# Unpaired, many old seeds against few new ones would make Welch's interval hang on the few.
MOST_UNEQUAL = 2.5
# Pairs must be nearly all that either side has, or a row whose units are chosen by the outcome
# would be judged on a part of it.
PAIRED_SHARE = 0.9
MOST_SEEDS = 200

Scores = Mapping[int, Mapping[str, float]]
Block = Callable[[int, str], str]
State = Literal["leaks more", "fine", "cannot tell"]


@dataclass(frozen=True)
class Difference:
    """d with what its limits are made of."""

    d: float
    paired: bool
    seeds: tuple[int, int]  # used on each side, now and then
    over_units: Bound | None
    over_seeds: Bound

    def lower(self, alpha: float = LEVEL) -> float:
        """The one-sided lower limit at level ``alpha``."""
        return min(b.lower(alpha) for b in self._bounds())

    def upper(self, alpha: float = LEVEL) -> float:
        """The one-sided upper limit at level ``alpha``."""
        return max(b.upper(alpha) for b in self._bounds())

    def p(self) -> float:
        """The smallest level at which the lower limit is above 0."""
        return max(b.p() for b in self._bounds())

    def with_seeds(self, k: int) -> Difference:
        """About what ``k`` seeds on the smaller side would give, d and spread being the same."""
        factor = k / min(self.seeds)
        units = self.over_units.scaled(factor) if self.over_units else None
        return Difference(self.d, self.paired, self.seeds, units, self.over_seeds.scaled(factor))

    def _bounds(self) -> list[Bound]:
        return [b for b in (self.over_units, self.over_seeds) if b]


def compare(
    now: Scores,
    then: Scores,
    *,
    worse: Literal["up", "down"],
    share: bool,
    unit_range: bool,
    clusters: Mapping[str, str] | None = None,
    crossed: bool = False,
    log: bool = False,
) -> Difference | None:
    """How far two sets of scores are apart, or None where a side has fewer than two seeds.

    Paired over (seed, unit) where both sides have them, else two-sample.

    Args:
        now: seed -> unit -> score.
        then: the same of the baseline.
        worse: the direction that counts against the method.
        share: units score 0 or 1 (ties and failures between): Bonett-Price, Newcombe.
        unit_range: the metric lies in [0, 1]; where its scores do not differ at all it is treated
            as a share.
        clusters: unit -> cluster, for the units that are not their own; then clusters are compared.
        crossed: the units are the same in every seed and are averaged over the seeds first
            (utility).
        log: compare logarithms; scores below 1 count as 1.
    """
    if min(len(now), len(then)) < FEWEST_SEEDS:
        return None
    # A utility that is no mean of test units (EER) is one unit a seed: the seeds are the units.
    crossed = crossed and len({u for units in now.values() for u in units}) > 1
    a, b = _leakage(now, worse, log), _leakage(then, worse, log)
    shared = clusters or {}

    def block(seed: int, unit: str) -> str:
        own = shared.get(unit, unit)
        return own if crossed else f"{seed}|{own}"

    independent, bounded = share and not crossed and not shared, share or unit_range
    pairs = _pairs(a, b)
    if pairs:
        d = _differences(a, b, pairs)
        over_units = _paired(d, spread_of(d, block), independent, bounded)
        over_seeds = one_sample(Spread.of(_means(d)))
        return Difference(_mean(d), True, (len(d), len(d)), over_units, over_seeds)
    a, b = _trimmed(a, len(b)), _trimmed(b, len(a))
    over_units = _unpaired(a, b, block, independent, bounded)
    over_seeds = two_sample(Spread.of(_means(a)), Spread.of(_means(b)))
    return Difference(_mean(a) - _mean(b), False, (len(a), len(b)), over_units, over_seeds)


def judge(
    difference: Difference, margin: float, alpha: float = LEVEL, fine: float = LEVEL
) -> State:
    """What may be said.

    Args:
        difference: of the row.
        margin: how much worse does not matter.
        alpha: the level that Holm leaves to this row's lower limit.
        fine: the level of its upper limit.
    """
    if difference.lower(alpha) > 0 and difference.d > margin / 2:
        return "leaks more"
    return "fine" if difference.upper(fine) < margin else "cannot tell"


def holm(ps: Sequence[float], level: float = LEVEL) -> list[float]:
    """The level of each hypothesis's test so that all together keep ``level`` (Holm 1979)."""
    left, levels, going = len(ps), [0.0] * len(ps), True
    for i in sorted(range(len(ps)), key=ps.__getitem__):
        levels[i] = level / left
        # After the first that stands, the rest are tested at its level: none has a smaller p.
        going = going and ps[i] <= levels[i]
        left -= going
    return levels


def seeds_to_settle(difference: Difference, margin: float, alpha: float = LEVEL) -> int | None:
    """About how many seeds a side would turn "cannot tell" into an answer; None: more than 200."""
    for k in range(min(difference.seeds) + 1, MOST_SEEDS + 1):
        if judge(difference.with_seeds(k), margin, alpha) != "cannot tell":
            return k
    return None


def _leakage(side: Scores, worse: Literal["up", "down"], log: bool) -> Scores:
    """The scores, or their logarithms, so that more is worse."""
    sign = 1.0 if worse == "up" else -1.0

    def leakage(x: float) -> float:
        return sign * (math.log(max(x, 1.0)) if log else x)

    out = {}
    for seed, units in side.items():
        out[seed] = {u: leakage(x) for u, x in units.items()}
    return out


def _pairs(a: Scores, b: Scores) -> dict[int, list[str]] | None:
    """The units of each seed that both sides have; None where pairing would leave out too much."""
    pairs = {k: sorted(a[k].keys() & b[k].keys()) for k in sorted(a.keys() & b.keys())}
    both = sum(map(len, pairs.values()))
    most = max(sum(len(a[k]) for k in pairs), sum(len(b[k]) for k in pairs))
    pairs = {k: units for k, units in pairs.items() if units}
    return pairs if len(pairs) >= FEWEST_SEEDS and both >= PAIRED_SHARE * most else None


def _differences(a: Scores, b: Scores, pairs: Mapping[int, Sequence[str]]) -> Scores:
    out = {}
    for seed, units in pairs.items():
        out[seed] = {u: a[seed][u] - b[seed][u] for u in units}
    return out


def _trimmed(side: Scores, other: int) -> dict[int, Mapping[str, float]]:
    return {k: side[k] for k in sorted(side)[: math.floor(MOST_UNEQUAL * other)]}


def _paired(d: Scores, spread: Spread, independent: bool, bounded: bool) -> Bound | None:
    """Over units: Bonett-Price for shares and where bounded differences are alike; else Student."""
    if independent:
        flat = [x for units in d.values() for x in units.values()]
        gains, losses = (x for x in flat if x > 0), (x for x in flat if x < 0)
        return bonett_price(math.fsum(gains), -math.fsum(losses), len(flat))
    if bounded and spread.alike():
        gain, loss = max(spread.mean, 0.0), max(-spread.mean, 0.0)
        return bonett_price(gain * spread.count, loss * spread.count, spread.count)
    return one_sample(spread) if spread.count > 1 else None


def _unpaired(a: Scores, b: Scores, block: Block, independent: bool, bounded: bool) -> Bound | None:
    """Over units: Newcombe for shares, and where bounded scores are alike; else Welch."""
    one, two = spread_of(a, block), spread_of(b, block)
    if independent or (bounded and one.alike() and two.alike()):
        # A metric that counts against the method when it falls comes negated: 1 - p for p.
        whole = 1.0 if min(one.mean, two.mean) < 0 else 0.0
        n, m = (_count(a), _count(b)) if independent else (one.count, two.count)
        return Newcombe(whole + one.mean, n, whole + two.mean, m)
    return two_sample(one, two) if min(one.count, two.count) > 1 else None


def spread_of(side: Scores, block: Block) -> Spread:
    """Mean of all scores, and how sure it is; ``block``: the cluster of a seed's unit."""
    cells = [(x, block(seed, u)) for seed, units in side.items() for u, x in units.items()]
    return Spread.of([x for x, _ in cells], [c for _, c in cells])


def _means(side: Scores) -> list[float]:
    return [math.fsum(units.values()) / len(units) for units in side.values()]


def _count(side: Scores) -> int:
    return sum(map(len, side.values()))


def _mean(side: Scores) -> float:
    return math.fsum(x for units in side.values() for x in units.values()) / _count(side)
