"""What moved since another report: every number that both have.

There is one way to compare them, and one to say it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field, computed_field

from leakbench.base.meaning import Meaning
from leakbench.base.part import Part
from leakbench.base.reason import Reason, reason
from leakbench.gate.attackers import less_than_then
from leakbench.gate.comparison import (
    BLOCKING,
    changed,
    difference,
    flagged,
    other_code,
    unchanged,
    weaker,
)
from leakbench.gate.looks import levels_of_looks
from leakbench.gate.row import GateRow
from leakbench.gate.row_names import labelled
from leakbench.record.attack_code import STALE
from leakbench.results.names import setting_names
from leakbench.statistics.differences import FEWEST_SEEDS, Difference, judge
from leakbench.statistics.intervals import Estimate
from leakbench.statistics.limits import Bound
from leakbench.words.outcomes import since_reason

Word = Literal[
    "leaks more",
    "loses utility",
    "cannot tell",
    "leaks no more",
    "keeps utility",
    "much the same",
    "leaks less",
    "more useful",
]
ORDER = (
    "leaks more",
    "loses utility",
    "cannot tell",
    "leaks less",
    "more useful",
    "leaks no more",
    "keeps utility",
    "much the same",
)
# Of a leakage, and of a utility: worse, better, no worse.
WORDS: dict[bool, tuple[Word, Word, Word]] = {
    False: ("leaks more", "leaks less", "leaks no more"),
    True: ("loses utility", "more useful", "keeps utility"),
}
MORE = ("leaks more", "loses utility")
# Less leakage is claimed at half the level at which more of it is.
CLAIM = 0.5
Key = tuple[str, ...]


class Moved(Part):
    """One number then and now.

    ``setting`` is its id in the report, ``name`` the setting's; ``attack`` is "utility" for a
    utility. ``difference``: now minus then with 95 % limits (two-sided, None where they cannot be
    had), on the metric's own scale, or as a factor (now over then) where logarithms are compared.
    """

    setting: str
    task: str
    name: str
    attack: str
    rung: str
    meaning: Meaning = Field(exclude=True)
    stage: str
    probe: bool
    worse: Literal["up", "down"]
    old: Estimate
    new: Estimate
    difference: float
    low: float | None
    high: float | None
    scale: Literal["difference", "factor"]
    word: Word
    why: str

    @computed_field  # type: ignore[prop-decorator]
    @property
    def metric(self) -> str:
        """The metric's name."""
        return self.meaning.name


class Against(Part):
    """What moved since another report, and what only one of the two has.

    ``name``: the other report. ``differs``: what makes the two not like with like, in sentences.
    """

    name: str
    rows: tuple[Moved, ...] = ()
    differs: tuple[str, ...] = ()
    only_now: tuple[str, ...] = ()
    only_then: tuple[str, ...] = ()


def against(
    name: str, now: Sequence[GateRow], then: Sequence[GateRow], names: Mapping[str, str]
) -> Against:
    """Join both by the name of the number, the most urgent rows first.

    Args:
        name: what the other report is called.
        now: every number of these runs.
        then: every number of the other report.
        names: ``Configuration.key`` -> name, of the settings of these runs.
    """
    now, then = _labelled(now, then)
    here, there = {r.key: r for r in now}, {r.key: r for r in then}
    names = _names([*then, *now], names)
    pairs = [(row, there[key]) for key, row in here.items() if key in there]
    named, before = {r.name: r for r in now}, {r.name: r for r in then}
    compared = [_Compared.of(a, b, less_than_then(b, named, before)) for a, b in pairs]
    more = levels_of_looks([[(1.0, c.worse.p())] if c.counted else [] for c in compared])
    less = levels_of_looks([[(CLAIM, c.better.p())] if c.counted else [] for c in compared])
    rows = [c.moved(names, *both) for c, *both in zip(compared, more, less, strict=True)]
    rows.sort(key=lambda r: (ORDER.index(r.word), r.task, r.name, r.metric, r.attack, r.stage))
    return Against(
        name=name,
        rows=tuple(rows),
        differs=tuple(_differs(pairs)),
        only_now=_only(here, there, names),
        only_then=_only(there, here, names),
    )


def _labelled(
    now: Sequence[GateRow], then: Sequence[GateRow]
) -> tuple[list[GateRow], list[GateRow]]:
    """Both sides with the same names for the same settings, whatever their users call them."""
    every = labelled(map(_uncalled, [*now, *then]))
    return every[: len(now)], every[len(now) :]


def _uncalled(row: GateRow) -> GateRow:
    training = row.training.model_copy(update={"called": ""})
    return row.model_copy(update={"training": training})


def _names(rows: Sequence[GateRow], known: Mapping[str, str]) -> Mapping[str, str]:
    """Settings that these runs do not have are called after the others."""
    every = {r.configuration.key: r.configuration for r in rows}
    named = setting_names(list(every.values()), {})
    return {**{key: str(name) for key, name in named.items()}, **known}


@dataclass(frozen=True)
class _Ends(Bound):
    """The limits of two intervals, at whatever level: their units are not there to be asked."""

    low: float
    high: float

    def scaled(self, factor: float) -> _Ends:
        return self

    def _limit(self, alpha: float, side: int) -> float:
        return self.low if side < 0 else self.high


@dataclass(frozen=True)
class _Compared:
    """A number now and then, and how far it moved."""

    now: GateRow
    then: GateRow
    worse: Difference  # against the method
    better: Difference  # for it
    counted: bool  # they are of units, so that Holm counts them
    why: tuple[Reason, ...]
    # Why leaking no more is no news: of fewer attacks or units, or by a weaker attack.
    doubt: Reason | None = None
    same: bool = False

    @classmethod
    def of(cls, now: GateRow, then: GateRow, lacks: Reason | None) -> _Compared:
        """Compared as the gate does, as far as that can be had; ``lacks``: attacks or seeds."""
        why = _unlike(now, then)
        same, other = not why and unchanged(now, then), other_code(now, then)
        if other and not (why or same):
            why = (other,)
        why = why or (reason("one_seed"),) * _few(now, then)
        units, ends = now.units.known and then.units.known, _of_intervals(now, then)
        if same and units and not lacks:
            return cls(now, then, *ends, False, (reason("same"),), same=True)
        doubt = lacks or weaker(now, then, tables=not units)
        if not units:
            return cls(now, then, *ends, False, (*why, reason("tables_alone")), doubt)
        worse, better = difference(now, then), difference(then, now)
        if worse is None or better is None:
            return cls(now, then, *ends, False, why, doubt)
        return cls(now, then, worse, better, True, why, doubt)

    def moved(self, names: Mapping[str, str], more: list[float], less: list[float]) -> Moved:
        """In words and numbers; ``more``, ``less``: the levels of both directions, if any."""
        now, meaning = self.now, self.now.meaning
        turn = 1.0 if now.worse == "up" else -1.0
        log = meaning.scale == "log"
        numbers = (turn * self.worse.d, *self._limits())
        told = [math.exp(x) if log else x for x in numbers]
        word, why = self._word(more, less), self.why
        if word == "cannot tell" and not why and self.counted and now.allowed is not None:
            for moved, levels in ((self.worse, more), (self.better, less)):
                if levels and judge(moved, now.allowed, 0.025) == "leaks more":
                    level = levels[0]
                    facts = {"p": moved.p(), "level": level, "low": moved.lower(level)}
                    why = (reason("corrected", **facts),)
        if self.doubt and word not in MORE:
            word, why = "cannot tell", (self.doubt, *why)
        return Moved(
            setting=now.configuration.key,
            task=now.configuration.task,
            name=names[now.configuration.key],
            attack=now.attacker.name,
            rung=now.attacker.rung,
            meaning=meaning,
            stage=now.stage,
            probe=now.probe,
            worse=now.worse,
            old=self.then.estimate,
            new=now.estimate,
            difference=told[0],
            low=told[1],
            high=told[2],
            scale="factor" if log else "difference",
            word=word,
            why=since_reason(why),
        )

    def _limits(self) -> tuple[float, float]:
        """Two-sided 95 % limits of now minus then."""
        if self.same:
            return 0.0, 0.0
        low, high = self.worse.lower(0.025), self.worse.upper(0.025)
        return (low, high) if self.now.worse == "up" else (-high, -low)

    def _word(self, more: list[float], less: list[float]) -> Word:
        """What the gate says of the move against the method, and of the move for it."""
        worse, better, no_worse = WORDS[self.now.is_utility]
        if self.same:
            return "much the same"
        margin = self.now.allowed
        if _unlike(self.now, self.then) or _few(self.now, self.then) or margin is None:
            return "cannot tell"
        up, down = judge(self.worse, margin, *more), judge(self.better, margin, *less)
        if up == "leaks more":
            return worse
        if down == "leaks more":
            return better
        if up == "fine":
            return "much the same" if down == "fine" else no_worse
        return "cannot tell"


def _of_intervals(now: GateRow, then: GateRow) -> tuple[Difference, Difference]:
    """Against the method and for it, by value, low and high alone."""
    (a, al, ah), (b, bl, bh) = _scaled(now, now), _scaled(then, now)
    low, high = a - b - math.hypot(a - al, bh - b), a - b + math.hypot(ah - a, b - bl)
    # Minus twice gives every number back, zero with its sign.
    up = Difference(a - b, False, (0, 0), None, _Ends(low, high))
    down = Difference(-(a - b), False, (0, 0), None, _Ends(-high, -low))
    return (up, down) if now.worse == "up" else (down, up)


def _scaled(row: GateRow, now: GateRow) -> list[float]:
    """Value, low and high on the scale on which differences are taken."""
    ends = row.value.value, row.value.low, row.value.high
    return [math.log(max(x, 1)) for x in ends] if now.meaning.scale == "log" else list(ends)


def _few(now: GateRow, then: GateRow) -> bool:
    return min(len(now.units.scores), len(then.units.scores)) < FEWEST_SEEDS


def _unlike(now: GateRow, then: GateRow) -> tuple[Reason, ...]:
    """Why the two are not like with like."""
    if why := flagged(now, then, (*BLOCKING, STALE)):
        return (why,)
    told = _changed(now, then).items()
    return tuple(reason("unlike", what=what, old=old, new=new) for what, (old, new) in told)


def _changed(now: GateRow, then: GateRow) -> dict[str, tuple[object, object]]:
    """What makes two numbers unlike; tables do not tell a task's parameters."""
    if now.units.known and then.units.known:
        return dict(changed(now, then))
    rounds = [r.training.setting.get("rounds") for r in (then, now)]
    pairs: dict[str, tuple[object, object]] = {"number of rounds": (rounds[0], rounds[1])}
    pairs["direction"] = then.worse, now.worse
    for what in ("engine", "dtype"):
        pairs[what] = (getattr(then.training, what), getattr(now.training, what))
    return {k: (a, b) for k, (a, b) in pairs.items() if a and b and a != b}


def _differs(pairs: Sequence[tuple[GateRow, GateRow]]) -> list[str]:
    """What is not the same on both sides, each with how many numbers it concerns."""
    count: Counter[str] = Counter()
    for now, then in pairs:
        for what, (old, new) in _changed(now, then).items():
            count[f"{what}: {old} then, {new} now"] += 1
        if now.units.scores.keys() != then.units.scores.keys():
            count[f"seeds: {_listed(then.units.scores)} then, {_listed(now.units.scores)} now"] += 1
        if _made(now) != _made(then):
            count[f"made by: {_made(then)} then, {_made(now)} now"] += 1
    return [f"{text} ({n} of {len(pairs)} numbers)" for text, n in count.most_common()]


def _made(row: GateRow) -> str:
    known = sorted({str(c)[:12] for c in row.training.provenance.get("commit", []) if c})
    return ", ".join(known) if known else "an unrecorded commit"


def _listed(seeds: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(seeds))) or "none recorded"


def _only(
    one: Mapping[Key, GateRow], other: Mapping[Key, GateRow], names: Mapping[str, str]
) -> tuple[str, ...]:
    """What only the first has: whole settings by name, else the numbers."""
    shared = {r.configuration.key for r in other.values()}
    out: dict[str, None] = {}
    for key, row in one.items():
        setting = row.configuration.key
        who = f"{row.configuration.task}: {names[setting]}"
        if setting not in shared:
            out[f"{who} (the whole setting)"] = None
        elif key not in other:
            probes = ", on probes" if row.probe else ""
            attack = row.attacker.name.replace("_", " ")
            out[f"{who}, {attack}, {row.metric}, {row.stage}{probes}"] = None
    return tuple(out)
