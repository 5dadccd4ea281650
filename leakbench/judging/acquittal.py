"""Why finding little says little: what an attack lacks to acquit.

An attack that finds little where nothing is defended either, whose search did not settle, that ran
in one seed, or not in all, or whose number is not of today's code, may accuse and never acquits.
Nor does one that read a dead run: there was nothing to find.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from leakbench.base.part import Part
from leakbench.base.reason import Code, Reason, reason
from leakbench.judging.evidence import Evidence
from leakbench.results.number import Number

# A share of units that failed or did not settle above which nothing is acquitted.
MOST_FAILED = 0.1
# What a row with one of these says of a leak counts; that it found none does not.
NEVER_ACQUIT: dict[str, Code] = {
    "mixed_code": "mixed_code",
    "stale_run": "stale_run",
    "stale_attack": "stale_attack",
    "no_control": "no_control",
    "weaker_observer": "weaker_observer",
}
SEEDS = 2  # with fewer, an interval says nothing of another run

Lack = Literal["control", "success", "units", "seeds", "origin", "gaps"]


class Doubt(Part):
    """One thing that an acquittal lacks."""

    lack: Lack
    row: Number  # where it lacks most
    why: Reason | None = None  # of its origin, or of gaps


def doubts(evidence: Evidence, counting: Sequence[Number]) -> tuple[Doubt, ...]:
    """All that the attacks lack to acquit, none where they may.

    ``counting``: those that work where nothing is defended, one or more, at least one of them above
    the paper's own.
    """
    rows = (*counting, *evidence.joined)
    real = [n for n in counting if not n.attacker.paper] or list(evidence.joined)
    found = []
    if not any(n.able for n in real):
        strongest = max(real, key=lambda n: n.best - n.blind)
        lack: Lack = "control" if strongest.success is not None else "success"
        found.append(Doubt(lack=lack, row=strongest))
    worst = max(rows, key=open_share)
    if open_share(worst) > MOST_FAILED:
        found.append(Doubt(lack="units", row=worst))
    fewest = min(rows, key=lambda n: len(n.seeds))
    if min(len(fewest.seeds), evidence.live) < SEEDS:
        found.append(Doubt(lack="seeds", row=fewest))
    if evidence.dead_seeds:
        found.append(Doubt(lack="gaps", row=fewest, why=reason("dead_seeds")))
    told = any(gap.code == "seed_lacks" for gap in evidence.gaps)
    uneven = [why for row in evidence.joined for why in row.uneven if not told]
    for why in dict.fromkeys((*evidence.gaps, *uneven)):
        found.append(Doubt(lack="gaps", row=fewest, why=why))
    for row in rows:
        for flag in sorted(row.flags & NEVER_ACQUIT.keys()):
            doubt = Doubt(lack="origin", row=row, why=reason(NEVER_ACQUIT[flag]))
            found += [] if any(d.why == doubt.why for d in found) else [doubt]
    return tuple(found)


def open_units(row: Number) -> int:
    """Units that failed, or on which the search is open."""
    return row.failed + (row.power.unsettled if row.power else 0)


def open_share(row: Number) -> float:
    """Their share; 0 where nothing is known of units."""
    return open_units(row) / row.tried if row.tried else 0.0
