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
from leakbench.gate.comparing import (
    BLOCKING,
    changed,
    difference,
    flagged,
    other_code,
    unchanged,
    weaker,
)
from leakbench.gate.lost import lost
from leakbench.gate.naming import labelled
from leakbench.gate.outcome_words import since_reason
from leakbench.gate.row import GateRow
from leakbench.record.attack_code import STALE
from leakbench.results.names import setting_names
from leakbench.statistics.differences import FEWEST_SEEDS, LEVEL, Difference, holm, judge
from leakbench.statistics.intervals import Estimate

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
CLAIM = LEVEL / 2
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
    compared = [_Compared.of(a, b, lost(b, named, before)) for a, b in pairs]
    more = _levels([c.worse for c in compared], LEVEL)
    less = _levels([c.better for c in compared], CLAIM)
    levels = zip(more, less, strict=True)
    rows = [c.moved(names, both) for c, both in zip(compared, levels, strict=True)]
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
    every = labelled([r.model_copy(update={"called": ""}) for r in [*now, *then]])
    return every[: len(now)], every[len(now) :]


def _names(rows: Sequence[GateRow], known: Mapping[str, str]) -> Mapping[str, str]:
    """Settings that these runs do not have are called after the others."""
    every = {r.configuration.key: r.configuration for r in rows}
    return {**setting_names(list(every.values()), {}), **known}


@dataclass(frozen=True)
class _Compared:
    """A number now and then, and how far it moved."""

    now: GateRow
    then: GateRow
    same: bool
    # Against the method and for it, in units of the gate; None where there are no units.
    worse: Difference | None
    better: Difference | None
    why: tuple[Reason, ...]
    # Why leaking no more is no news: of fewer attacks or units, or by a weaker attack.
    doubt: Reason | None = None

    @classmethod
    def of(cls, now: GateRow, then: GateRow, lacks: Reason | None) -> _Compared:
        """Compared as the gate does, as far as that can be had; ``lacks``: attacks or seeds."""
        why = _unlike(now, then)
        same, other = not why and unchanged(now, then), other_code(now, then)
        if other and not (why or same):
            why = (other,)
        why = why or (reason("one_seed"),) * _few(now, then)
        units = now.has_units and then.has_units
        if same and units and not lacks:
            return cls(now, then, True, None, None, (reason("same"),))
        doubt = lacks or weaker(now, then, tables=not units)
        if not units:
            return cls(now, then, False, None, None, (*why, reason("tables_alone")), doubt)
        return cls(now, then, False, difference(now, then), difference(then, now), why, doubt)

    @property
    def _turn(self) -> float:
        return 1.0 if self.now.worse == "up" else -1.0

    def moved(self, names: Mapping[str, str], levels: tuple[float, float]) -> Moved:
        """In words and numbers; ``levels``: of both directions."""
        now, meaning = self.now, self.now.means
        centre = self._turn * self.worse.d if self.worse else self._centre()
        log = meaning.scale == "log"
        numbers = [math.exp(x) if log else x for x in (centre, *self._limits())]
        key = now.configuration.key
        word = self._word(centre, levels)
        why = self.why
        if self.doubt and word not in MORE:
            word, why = "cannot tell", (self.doubt, *why)
        return Moved(
            setting=key,
            task=now.task,
            name=names[key],
            attack=now.attack,
            rung=now.rung,
            meaning=meaning,
            stage=now.stage,
            probe=now.probe,
            worse=now.worse,
            old=self.then.estimate,
            new=now.estimate,
            difference=numbers[0],
            low=numbers[1],
            high=numbers[2],
            scale="factor" if log else "difference",
            word=word,
            why=since_reason(why),
        )

    def _scaled(self, row: GateRow) -> tuple[float, float, float]:
        """Value, low and high on the scale on which differences are taken."""
        value, low, high = row.value, row.low, row.high
        if self.now.means.scale == "log":
            return math.log(max(value, 1)), math.log(max(low, 1)), math.log(max(high, 1))
        return value, low, high

    def _centre(self) -> float:
        return self._scaled(self.now)[0] - self._scaled(self.then)[0]

    def _limits(self) -> tuple[float, float]:
        """Two-sided 95 % limits of now minus then.

        They are of the units and seeds where those are there, else of the two intervals.
        """
        if self.same:
            return 0.0, 0.0
        if self.worse:
            low, high = self.worse.lower(0.025), self.worse.upper(0.025)
            return (low, high) if self.now.worse == "up" else (-high, -low)
        (a, al, ah), (b, bl, bh) = self._scaled(self.now), self._scaled(self.then)
        return a - b - math.hypot(a - al, bh - b), a - b + math.hypot(ah - a, b - bl)

    def _word(self, centre: float, levels: tuple[float, float]) -> Word:
        """What may be said."""
        worse, better, no_worse = WORDS[self.now.is_utility]
        if self.same:
            return "much the same"
        margin = self.now.allowed
        if _unlike(self.now, self.then) or _few(self.now, self.then) or margin is None:
            return "cannot tell"
        up, down = self._both_ways(centre, margin, levels)
        if up == "leaks more":
            return worse
        if down == "leaks more":
            return better
        if up == "fine":
            return "much the same" if down == "fine" else no_worse
        return "cannot tell"

    def _both_ways(
        self, centre: float, margin: float, levels: tuple[float, float]
    ) -> tuple[str, str]:
        """What the gate says of the move against the method, and of the move for it."""
        if self.worse and self.better:
            return judge(self.worse, margin, levels[0]), judge(self.better, margin, levels[1])
        d = self._turn * centre
        low, high = sorted(self._turn * end for end in self._limits())
        return _by_limits(d, low, high, margin), _by_limits(-d, -high, -low, margin)


def _by_limits(d: float, low: float, high: float, margin: float) -> str:
    if low > 0 and d > margin / 2:
        return "leaks more"
    return "fine" if high < margin else "cannot tell"


def _few(now: GateRow, then: GateRow) -> bool:
    return min(len(now.scores), len(then.scores)) < FEWEST_SEEDS


def _unlike(now: GateRow, then: GateRow) -> tuple[Reason, ...]:
    """Why the two are not like with like."""
    if why := flagged(now, then, (*BLOCKING, STALE)):
        return (why,)
    told = _changed(now, then).items()
    return tuple(reason("unlike", what=what, old=old, new=new) for what, (old, new) in told)


def _changed(now: GateRow, then: GateRow) -> dict[str, tuple[object, object]]:
    """What makes two numbers unlike; tables do not tell a task's parameters."""
    if now.has_units and then.has_units:
        return dict(changed(now, then))
    rounds = [r.setting.get("rounds") for r in (then, now)]
    pairs: dict[str, tuple[object, object]] = {"number of rounds": (rounds[0], rounds[1])}
    pairs["direction"] = then.worse, now.worse
    for what in ("engine", "dtype"):
        pairs[what] = (getattr(then, what), getattr(now, what))
    return {k: (a, b) for k, (a, b) in pairs.items() if a and b and a != b}


def _levels(differences: Sequence[Difference | None], level: float) -> list[float]:
    """Holm's level for each that could be compared."""
    kept = iter(holm([d.p() for d in differences if d], level))
    return [next(kept) if d else 0.0 for d in differences]


def _differs(pairs: Sequence[tuple[GateRow, GateRow]]) -> list[str]:
    """What is not the same on both sides, each with how many numbers it concerns."""
    count: Counter[str] = Counter()
    for now, then in pairs:
        for what, (old, new) in _changed(now, then).items():
            count[f"{what}: {old} then, {new} now"] += 1
        if now.scores.keys() != then.scores.keys():
            count[f"seeds: {_listed(then.scores)} then, {_listed(now.scores)} now"] += 1
        if _made(now) != _made(then):
            count[f"made by: {_made(then)} then, {_made(now)} now"] += 1
    return [f"{text} ({n} of {len(pairs)} numbers)" for text, n in count.most_common()]


def _made(row: GateRow) -> str:
    known = sorted({str(c)[:12] for c in row.provenance.get("commit", []) if c})
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
        who = f"{row.task}: {names[setting]}"
        if setting not in shared:
            out[f"{who} (the whole setting)"] = None
        elif key not in other:
            probes = ", on probes" if row.probe else ""
            attack = row.attack.replace("_", " ")
            out[f"{who}, {attack}, {row.metric}, {row.stage}{probes}"] = None
    return tuple(out)
