"""What may be said of rows that are looked at several times, all together at one level."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from leakbench.gate.outcome import State
from leakbench.gate.row import GateRow
from leakbench.statistics.differences import LEVEL, Difference, holm, judge


@dataclass(frozen=True)
class Look:
    """A row at one look."""

    difference: Difference
    share: float  # of the level
    seeds: int


@dataclass(frozen=True)
class Compared:
    """A row on both sides, at every look that it has reached."""

    now: GateRow
    then: GateRow
    margin: float
    looks: tuple[Look, ...]


def judge_looks(compared: Mapping[str, Compared]) -> dict[str, tuple[State, Look, float]]:
    """{name: (what may be said, the look that says it, its level)}.

    At each look Holm's procedure over all that have reached it, at the look's share of the level.
    One look that finds more leakage is enough; else one that finds none.
    """
    out: dict[str, tuple[State, Look, float]] = {}
    most = max((len(c.looks) for c in compared.values()), default=0)
    for j in range(most):
        names = [n for n, c in compared.items() if len(c.looks) > j]
        at = {n: compared[n].looks[j] for n in names}
        share = min(look.share for look in at.values())
        levels = holm([at[n].difference.p() for n in names], LEVEL * share)
        for name, level in zip(names, levels, strict=True):
            look = at[name]
            state: State = judge(look.difference, compared[name].margin, level, LEVEL * look.share)
            before = out[name][0] if name in out else "cannot tell"
            if before == "cannot tell" or (state == "leaks more" and before != state):
                out[name] = state, look, level
    return out
