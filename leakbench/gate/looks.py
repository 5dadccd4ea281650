"""How often a row may be looked at, after how many seeds, and what all looks may say at one level.

Group-sequential, by a union bound: each look has its share of the level, so that all of them
together keep it, whatever they have in common. Looks go by the seeds that the baseline has, too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from leakbench.gate.outcome import State
from leakbench.gate.row import GateRow
from leakbench.statistics.differences import FEWEST_SEEDS, LEVEL, Difference, holm, judge
from leakbench.statistics.looks import LOOKS, reached

FIRST = 5  # seeds of the first look, where the baseline has enough for a second


def default_looks(seeds: int) -> tuple[int, ...]:
    """The looks that a baseline of so many seeds is good for."""
    if seeds < FEWEST_SEEDS:
        return ()
    found = tuple(k for k in LOOKS if FIRST <= k <= seeds)
    return found if len(found) > 1 else (seeds,)


def looks_of(looks: Sequence[int], seeds: int) -> tuple[tuple[int, float], ...]:
    """(seeds used, share of the level) of every look that so many seeds have reached."""
    return reached(looks, seeds) if looks else ((seeds, 1.0),)


def only(row: GateRow, seeds: Collection[int]) -> GateRow:
    """The row of some of its seeds."""
    return row.model_copy(update={"units": row.units.only(seeds)})


def sides(now: GateRow, then: GateRow, looks: Sequence[int]) -> list[tuple[float, GateRow, int]]:
    """(share of the level, the row now, of how many seeds) for every look that is reached.

    With two seeds or more of the baseline's the looks go by these. Before that there is one look,
    at all there is. Runs of other seeds were or could have been looked at first: they and the first
    look proper share its share.
    """
    common = sorted(now.units.scores.keys() & then.units.scores.keys())
    foreign = len(now.units.scores) - len(common) >= FEWEST_SEEDS
    if len(common) < FEWEST_SEEDS:
        share = looks_of(looks, len(now.units.scores))[0][1]
        return [(share / 2 if foreign else share, now, len(now.units.scores))]
    out = []
    for i, (count, share) in enumerate(looks_of(looks, len(common))):
        halved = share / 2 if foreign and i == 0 else share
        out.append((halved, only(now, common[:count]), count))
    return out


def next_seeds(now: GateRow, then: GateRow | None, looks: Sequence[int]) -> tuple[int, ...]:
    """The seeds to train for the next look; none where no look is left.

    They are the baseline's own where it has some that are not here: the same seeds are compared
    pair by pair, and what has not changed is then seen to be unchanged.
    """
    if then is None:
        return _fresh(now, looks)
    common = now.units.scores.keys() & then.units.scores.keys()
    lacking = sorted(then.units.scores.keys() - now.units.scores.keys())
    later = [k for k in (looks or (len(then.units.scores),)) if k > len(common)]
    wanted = later[0] if later else len(then.units.scores)
    return tuple(lacking[: wanted - len(common)])


def _fresh(now: GateRow, looks: Sequence[int]) -> tuple[int, ...]:
    """Without a baseline: the smallest seeds that are not there, up to the next look."""
    later = [k for k in (looks or LOOKS) if k > len(now.units.scores)]
    if not later:
        return ()
    free = [s for s in range(later[0] + len(now.units.scores)) if s not in now.units.scores]
    return tuple(free[: later[0] - len(now.units.scores)])


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
