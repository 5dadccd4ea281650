"""How much more data would settle a verdict."""

from __future__ import annotations

import math

from leakbench.judging.evidence import Evidence
from leakbench.results.number import Number
from leakbench.statistics.multiplicity import TAIL


def seeds_needed(n: Number, seeds: int) -> int | None:
    """About how many more than ``seeds`` would settle it, or None if none would.

    Intervals are taken to shrink with the square root of the seeds.
    """
    edge = n.blind + n.meaning.matters
    ratios = [(n.high - n.leak) / (edge - n.leak)] if n.leak < edge else []
    if n.leak > n.blind_high:
        ratios.append((n.leak - n.low) / (n.leak - n.blind_high))
    if not ratios:
        return None
    seeds = max(seeds, 1)
    return max(1, math.ceil(seeds * min(ratios) ** 2) - seeds)


def clusters_needed(n: Number) -> int | None:
    """About how many clusters of units would settle it, over all seeds; None if none would.

    Where the attack found nothing (or all) in every one of them, as many as bring the interval of a
    share within the margin; else intervals are taken to shrink with their square root.
    """
    if n.power is None:
        return None
    if n.few:
        return n.power.needed
    span = n.blind + n.meaning.matters
    least = n.meaning.low if n.meaning.direction == "up" else n.meaning.high
    if n.meaning.ends == (0, 1) and n.value.value == least and 0 < (room := _room(n, span)) < 1:
        return math.ceil(math.log(TAIL) / math.log(1 - room))
    ratios = [(n.high - n.leak) / (span - n.leak)] if n.leak < span else []
    if n.leak > n.blind_high:
        ratios.append((n.leak - n.low) / (n.leak - n.blind_high))
    return math.ceil(n.power.clusters * min(ratios) ** 2) if ratios else None


def more_units(evidence: Evidence, n: Number) -> str:
    """What would bring the units that a verdict needs, where the record or the attack lacks them.

    As in "5 clients a round were audited, 20 are needed: train with -s record.audited=20."; ""
    where neither limits them, or more would not settle it.
    """
    total, power = clusters_needed(n), n.power
    if total is None or power is None or total <= power.clusters:
        return ""
    seeds = max(len(n.seeds), 1)
    have, each = power.clusters / seeds, math.ceil(total / seeds)
    audited, names = evidence.audited, []
    recorded = audited is not None and have >= audited
    for a in evidence.attacks:
        most = a.attacker.params.get("targets")
        if isinstance(most, int) and most < each and (recorded or have >= most):
            names.append(a.attacker.name)
    if not (recorded or names):
        return ""
    some = each if evidence.present is None else min(each, evidence.present)
    told = f"{math.ceil(have)} clients a round were {'audited' if recorded else 'attacked'}"
    told += f", {each} are needed"
    how = [f"train with -s record.audited={some}"] if audited is not None and some > audited else []
    how += [f"attack with -s {name}.targets={some}" for name in dict.fromkeys(names) if some > have]
    if some < each:
        count = math.ceil(total / some)
        told += f", and no more than {some} take part"
        how.append(f"take {count} seeds" if how else f"train {count} seeds")
    return f"{told}: {' and '.join(how)}."


def _room(n: Number, edge: float) -> float:
    """Between nothing found and the edge of what may be called held, on a scale from 0 to 1."""
    return edge if n.meaning.direction == "up" else 1 + edge
