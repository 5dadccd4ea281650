"""A line of the leaderboard: a method on a task, what leaks, and what it is good for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self, get_args

from leakbench.base import addresses, provenance
from leakbench.base.part import Part
from leakbench.reproduce.fitting import Fits, way
from leakbench.reproduce.row import Row
from leakbench.reproduce.strongest import Rivals, number_of_row, share, spelled, surely, threat_of

# From the worst on. Nothing is said to hold: a table holds the attacks of a paper, not the standard
# ensemble, and an acquittal needs that.
Standing = Literal["leaks", "leaks_in_part", "cannot_tell", "too_weak", "dead_run"]
STANDINGS: tuple[Standing, ...] = get_args(Standing)


class Gain(Part):
    """What the same runs were good for."""

    metric: str
    value: float
    low: float
    high: float
    chance: float | None


class Entry(Part):
    """A number of the table that speaks worst of a method on a task, by one metric.

    Shares go from the blind guess (0) to what the attack gets with nothing defended (1).
    """

    address: str
    standing: Standing
    task: str
    dataset: str  # as its table has it
    label: str  # the method, as it is set
    method: str
    params: dict[str, Any]
    metric: str
    share: float | None  # None: it cannot be told
    share_low: float | None
    share_high: float | None
    value: float
    low: float | None
    high: float | None
    n: int
    unit: str
    floor: float | None
    control: float | None
    attack: str  # with what differs from its defaults
    observer: str
    rung: str
    knows: tuple[str, ...]
    tried: tuple[str, ...]
    untried: tuple[str, ...] | None  # None: no table says what fits it
    gained: Gain | None
    rounds: int | None
    seeds: tuple[int, ...]
    flags: tuple[str, ...]
    differs: tuple[str, ...]  # from its paper
    claimed: float | None
    claimed_source: str
    commits: tuple[str, ...]
    dated: str  # the day of the newest of them; "" where no history tells
    recipe: str
    scale: str

    @classmethod
    def of(cls, q: Rivals, untried: Sequence[str] | None, address: str) -> Self:
        """What ``q`` says."""
        told, threat = q.telling, threat_of(q.telling)
        claim = next((r.claim for r in q.rows if r.claim), None)
        days = [provenance.day_of(c) for c in told.commit]
        return cls(
            address=address,
            standing=standing(q),
            share=share(told),
            share_low=surely(told),
            share_high=surely(told, at_most=True),
            **{name: getattr(told.ours, name) for name in _MEASURED},
            **{name: getattr(told, name) for name in _TOLD},
            attack=spelled(told),
            observer=threat.observer,
            rung=threat.rung,
            knows=threat.knows,
            tried=tuple(sorted({spelled(r) for r in q.rows})),
            untried=None if untried is None else tuple(untried),
            gained=_gain(q.utility),
            flags=tuple(sorted(told.flags)),
            claimed=claim.value if claim else None,
            claimed_source=claim.source if claim else "",
            commits=told.commit,
            dated=max(days, default="") if all(days) else "",
        )

    @property
    def judged(self) -> bool:
        """Has it a place among those of its metric? Not what nobody can tell the leakage of."""
        return self.share is not None and self.standing in ("leaks", "leaks_in_part")

    @property
    def place(self) -> tuple[bool, float, str]:
        """Among those of its metric: the smallest share first, what is not judged last."""
        return not self.judged, self.share or 0.0, self.label

    @property
    def command(self) -> str:
        """What makes its table again."""
        return f"leakbench reproduce {self.recipe} --scale {self.scale}"


_MEASURED = ("value", "low", "high", "n", "unit")
_TOLD = (
    *("task", "dataset", "label", "method", "params", "metric", "floor", "control"),
    *("rounds", "seeds", "differs", "recipe", "scale"),
)


def entries(asked: Sequence[Rivals], rows: Sequence[Row], known: Fits) -> list[Entry]:
    """A line of each, by task and metric, those that are judged first and the least leak before.

    ``rows``: of all tables; ``known``: which attacks fit which methods.
    """
    at = addresses([(q.best.task, q.best.label, q.best.metric) for q in asked])
    out = []
    for q, one in zip(asked, at, strict=True):
        untried = q.untried(rows, known)
        told = untried if untried or way(q.rows[0]) in known else None
        out.append(Entry.of(q, told, one))
    return sorted(out, key=lambda e: (e.task, e.metric, *e.place))


def standing(q: Rivals) -> Standing:
    """By the 95 % intervals of each attack alone."""
    if q.dead:
        return "dead_run"
    if q.leaks:
        return "leaks"
    if q.beyond:
        return "leaks_in_part"
    told = q.telling
    ends = told.floor is not None and told.control is not None
    return "too_weak" if ends and share(told) is None else "cannot_tell"


def _gain(r: Row | None) -> Gain | None:
    if r is None or r.ours is None:
        return None
    ends = {"low": r.ours.lowest, "high": r.ours.highest}
    return Gain(metric=r.metric, value=number_of_row(r), chance=r.chance, **ends)
