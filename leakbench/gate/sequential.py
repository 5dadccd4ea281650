"""What may be said of rows that are looked at several times, all together at one level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

    def ps(self) -> list[tuple[float, float]]:
        """(share of the level, p of being worse) at each look."""
        return [(look.share, look.difference.p()) for look in self.looks]


def judge_looks(compared: Mapping[str, Compared]) -> dict[str, tuple[State, Look, float]]:
    """{name: (what may be said, the look that says it, its level)}.

    One look that finds more leakage is enough; else one that finds none.
    """
    out: dict[str, tuple[State, Look, float]] = {}
    ps = [c.ps() for c in compared.values()]
    for (name, c), levels in zip(compared.items(), levels_of_looks(ps), strict=True):
        for look, level in zip(c.looks, levels, strict=True):
            state: State = judge(look.difference, c.margin, level, LEVEL * look.share)
            before = out[name][0] if name in out else "cannot tell"
            if before == "cannot tell" or (state == "leaks more" and before != state):
                out[name] = state, look, level
    return out


def levels_of_looks(ps: Sequence[Sequence[tuple[float, float]]]) -> list[list[float]]:
    """The level of each hypothesis at each look that it has reached; all of them keep the level.

    At each look Holm's procedure over all that have reached it, at the look's share of the level.

    Args:
        ps: of each hypothesis, at each look: (share of the level, p).
    """
    out = [list[float]() for _ in ps]
    for j in range(max(map(len, ps), default=0)):
        at = [i for i, looks in enumerate(ps) if len(looks) > j]
        share = min(ps[i][j][0] for i in at)
        for i, level in zip(at, holm([ps[i][j][1] for i in at], LEVEL * share), strict=True):
            out[i].append(level)
    return out
