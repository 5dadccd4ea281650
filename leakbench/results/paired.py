"""Attack and control against the blind guess on the same units: what is shown, and what is open.

Two intervals that overlap say little of two numbers made of the same units. Here each unit is
compared with itself. However clear the differences are, k clusters of units that all agree do so by
chance once in 2 ** k times: fewer than five show nothing at 5 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from leakbench.base.meaning import Meaning
from leakbench.results.number import Measured, Unit
from leakbench.scoring import flags
from leakbench.statistics.intervals import Estimate
from leakbench.statistics.limits import Spread, one_sample

ALPHA = 0.05  # one-sided: does the attack work where nothing is defended?
FEWEST = 5  # clusters: 1 / 2 ** 5 is the first below ``ALPHA``
TAIL = 0.025  # of an interval


def lower(parts: Sequence[Measured], role: Literal["attack", "control"], alpha: float) -> float:
    """One-sided lower limit of how much more ``role`` leaks than the blind guess, unit by unit.

    On the scale on which differences are taken, turned so that more is more leakage: the lowest of
    the limits over clusters of all seeds and, with three seeds or more, over the seeds' means.

    Args:
        parts: the same number of each seed.
        role: whose units are compared with the blind guess's.
        alpha: the chance with which the difference may be below the limit.

    Returns:
        The limit; minus infinity where so few clusters cannot show anything at ``alpha``.
    """
    values: list[float] = []
    owners: list[str] = []
    means: list[float] = []
    for m in parts:
        own = differences(m, role)
        values += own.values()
        names = m.by_name[role]
        owners += [f"{m.run.seed}|{names[unit].cluster}" for unit in own]
        means += [math.fsum(own.values()) / len(own)] if own else []
    if not values or 0.5 ** len(set(owners)) > alpha:
        return -math.inf
    ends = [_limit(Spread.of(values, owners), alpha)]
    if len(means) >= 3:
        ends.append(_limit(Spread.of(means), alpha))
    return min(ends)


def differences(m: Measured, role: Literal["attack", "control"]) -> dict[str, float]:
    """Unit -> by how much ``role`` leaks more than the blind guess there."""
    blind = m.by_name["floor"]
    out = {}
    for name, unit in m.by_name[role].items():
        if name in blind:
            more = m.meaning.scaled(unit.score) - m.meaning.scaled(blind[name].score)
            out[name] = more if m.meaning.direction == "up" else -more
    return out


def cluster_count(parts: Sequence[Measured]) -> int:
    """How many clusters of units there are; a client of two seeds counts as two."""
    return len({(m.run.seed, u.cluster) for m in parts for u in m.units["attack"]})


def control_shown(parts: Sequence[Measured], floor: Estimate, control: Estimate) -> bool:
    """Does the attack work where nothing is defended?

    Its control is beyond the blind guess by their intervals, or unit by unit.
    """
    if not flags.control_failed(parts[0].meaning.direction, floor, control):
        return True
    return lower(parts, "control", ALPHA) > 0


def beyond_floor(parts: Sequence[Measured], value: Estimate, floor: Estimate) -> bool:
    """Does the attack itself find more than the blind guess, by their intervals or unit by unit?"""
    if not flags.control_failed(parts[0].meaning.direction, floor, value):
        return True
    return lower(parts, "attack", TAIL) > 0


def needed(parts: Sequence[Measured], floor: Estimate, interval: str) -> int:
    """How many clusters it takes to show that even a perfect attack works.

    Of a metric in [0, 1] that is where nothing but hits in every cluster is no luck of the blind
    guess, and ``FEWEST`` at most, for then clusters that agree are none. Elsewhere two do.
    """
    meaning = parts[0].meaning
    if meaning.ends != (0, 1) or interval == "exact":
        return 2
    blind = floor.high if meaning.direction == "up" else 1 - floor.low
    if not 0 < blind < 1:
        return 1 if blind <= 0 else FEWEST
    return min(math.floor(math.log(TAIL) / math.log(blind)) + 1, FEWEST)


def unsettled(m: Measured) -> int:
    """Units on which the search itself is open, beside those that failed.

    It says that it did not converge, or it does not accept its guess and accepts the control's.
    """
    control = m.by_name["control"]
    return sum(not u.failed and _open(u, control.get(u.name)) for u in m.units["attack"])


def as_good(m: Measured) -> int:
    """Units whose guess is as good as the original, where the blind guess is not.

    None are where the metric does not say what is.
    """
    limit, blind = m.meaning.as_good, m.by_name["floor"]
    if limit is None:
        return 0
    found = 0
    for u in m.units["attack"]:
        guessed = blind.get(u.name)
        known = guessed is not None and _reaches(m.meaning, guessed.score, limit)
        found += not u.failed and not known and _reaches(m.meaning, u.score, limit)
    return found


def _reaches(meaning: Meaning, score: float, limit: float) -> bool:
    return score == limit or meaning.worse(score, limit)


def _open(unit: Unit, control: Unit | None) -> bool:
    return not unit.settled or (control is not None and control.accepted and not unit.accepted)


def _limit(spread: Spread, alpha: float) -> float:
    """Student's; clusters that do not differ at all have no spread to go by."""
    return spread.mean if spread.error == 0 else one_sample(spread).lower(alpha)
