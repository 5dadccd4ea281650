"""The verdict on one setting and one question: the first rule that matches, decided by pure
functions of numbers.

The principle: accuse with what an attacker really reached (``cascade``), acquit with the upper
bound (``any_attack``).

    rule  word               when
    1     nothing to attack  it sends no message of the kind asked about
    2     not attacked       there is no number, for another reason
    3     dead run           every seed is dead
    4     attack too weak    no attack succeeded on the control
    5     leaks              low(reached) is at least half way from the blind guess to the control
    6     cannot tell        only the paper's own attack ran
    7     held               no attack's high is beyond its blind guess + margin
    8     leaks in part      low(reached) is beyond the blind guess
    9     cannot tell        none of these

``reached`` is the cascade or the best single attack above the rung ``paper``, whichever is higher.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from leakbench.judging.questions import words
from leakbench.statistics.differences import default_margin

Word = Literal[
    "nothing to attack",
    "not attacked",
    "dead run",
    "attack too weak",
    "leaks",
    "held",
    "leaks in part",
    "cannot tell",
]
Tone = Literal["leak", "part", "held", "none"]

TONES: dict[Word, Tone] = {"leaks": "leak", "leaks in part": "part", "held": "held"}
# A share of failed units above which nothing is acquitted.
MOST_FAILED = 0.1


@dataclass(frozen=True)
class Number:
    """One row of tradeoff.csv, as a verdict reads it. ``failed`` of ``tried`` unit scores are the
    blind guess's for want of a guess.
    """

    attack: str
    rung: str
    value: float
    low: float
    high: float
    n: int
    floor: float
    floor_low: float
    floor_high: float
    control: float
    control_low: float
    control_high: float
    interval: str = "clopper-pearson"
    flags: frozenset[str] = frozenset()
    failed: int = 0
    tried: int = 0
    attack_params: str = "{}"


@dataclass(frozen=True)
class Case:
    """Everything that decides one verdict: a setting's numbers in one metric, real messages or
    probes, never both.

    ``dead_because``: why a dead run is dead, a clause for the sentence. ``reason``: why there is no
    number.
    """

    metric: str
    leaks: Literal["up", "down"]
    attacks: tuple[Number, ...] = ()
    cascade: Number | None = None
    any_attack: Number | None = None
    seeds: int = 1
    dead_seeds: int = 0
    dead_because: str = ""
    kind: str = "message of this kind"
    sends: tuple[str, ...] = ()
    sends_kind: bool = True
    reason: str = ""
    public: Number | None = None
    no_lpips: bool = False


@dataclass(frozen=True)
class Verdict:
    """Which rule matched, and the numbers that its sentence names."""

    rule: int
    word: Word
    reached: Number | None = None
    worst: Number | None = None
    paper: Number | None = None
    binding: Number | None = None
    counting: tuple[Number, ...] = ()
    beyond_floor: bool = False

    @property
    def tone(self) -> Tone:
        """The colour that repeats the word."""
        return TONES.get(self.word, "none")

    @property
    def judged(self) -> bool:
        """Whether it counts in "k of n"."""
        return self.rule in (5, 7, 8)


def judge(case: Case) -> Verdict:
    """The first rule that matches."""
    rows = (*case.attacks, *(r for r in (case.cascade, case.any_attack) if r))
    if not rows:
        return Verdict(2, "not attacked") if case.sends_kind else Verdict(1, "nothing to attack")
    side = Side(case)
    counting = tuple(a for a in case.attacks if not side.weak(a))
    paper = max((a for a in case.attacks if a.rung == "paper"), key=side.value, default=None)
    worst = case.any_attack or max(rows, key=side.value)
    reached = side.best(case, counting)
    if reached is None:  # no attack above the rung paper counts: the paper's own stands in
        reached = max((a for a in counting if a.rung == "paper"), key=side.value, default=None)
    above = reached is not None and side.low(reached) > side.floor_high(reached)

    def found(rule: int, word: Word, binding: Number | None = None) -> Verdict:
        return Verdict(rule, word, reached, worst, paper, binding, counting, above)

    if case.seeds and case.dead_seeds >= case.seeds:
        return found(3, "dead run")
    if reached is None:
        return found(4, "attack too weak", case.cascade or case.any_attack or case.attacks[0])
    if side.low(reached) >= side.half(reached):
        return found(5, "leaks")
    if reached.rung == "paper" and reached.attack not in ("cascade", "any_attack"):
        return found(6, "cannot tell")
    below = side.low(reached) <= side.floor_high(reached)
    counted = (*counting, *(r for r in (case.cascade, case.any_attack) if r))
    binding = max(counted, key=side.excess)
    most = max(r.failed / r.tried if r.tried else 0.0 for r in counted)
    if case.any_attack and side.excess(binding) <= 0 and below and most <= MOST_FAILED:
        return found(7, "held")
    if not below:
        return found(8, "leaks in part")
    return found(9, "cannot tell", binding)


def margin(metric: str) -> float:
    """The margin of `check`, on the turned scale; a plugin's metric without a range gets that of a
    proportion.
    """
    low, high = words(metric).end or (-math.inf, math.inf)
    return default_margin(metric, low, high) or 0.05


@dataclass(frozen=True)
class Side:
    """A metric turned so that more is more leakage: logarithms for counts of samples, the sign
    changed where less leaks.
    """

    case: Case

    @property
    def turn(self) -> Callable[[float], float]:
        """From the metric's scale to the turned one."""
        sign = -1.0 if self.case.leaks == "down" else 1.0
        if self.case.metric == "samples_to_90":
            return lambda x: sign * math.log(max(x, 1e-300))
        return lambda x: sign * x

    @property
    def margin(self) -> float:
        """What is too small to matter."""
        return margin(self.case.metric)

    def value(self, row: Number) -> float:
        """The row's value."""
        return self.turn(row.value)

    def low(self, row: Number) -> float:
        """The end of the interval on the side of the blind guess."""
        return min(self.turn(row.low), self.turn(row.high))

    def high(self, row: Number) -> float:
        """The end of the interval on the side of the control."""
        return max(self.turn(row.low), self.turn(row.high))

    def floor(self, row: Number) -> float:
        """The blind guess."""
        return self.turn(row.floor)

    def floor_high(self, row: Number) -> float:
        """The most that the blind guess may reach."""
        return max(self.turn(row.floor_low), self.turn(row.floor_high))

    def control(self, row: Number) -> float:
        """The control, no better than "as good as the original"."""
        cap = words(self.case.metric).as_good
        return (
            self.turn(row.control) if cap is None else min(self.turn(row.control), self.turn(cap))
        )

    def half(self, row: Number) -> float:
        """Half way from the blind guess to the control."""
        return self.floor(row) + (self.control(row) - self.floor(row)) / 2

    def weak(self, row: Number) -> bool:
        """Whether the attack says nothing: it fails where nothing is defended, or hardly beats the
        blind guess there.
        """
        return (
            "control_failed" in row.flags or self.control(row) - self.floor(row) < 2 * self.margin
        )

    def excess(self, row: Number) -> float:
        """How far the row's high is beyond its own blind guess + margin; at most 0
        where it held.
        """
        over = self.high(row) - (self.floor(row) + self.margin)
        return 0.0 if abs(over) < 1e-12 else over

    def best(self, case: Case, counting: Sequence[Number]) -> Number | None:
        """The cascade or the best single attack above ``paper``, its interval corrected for the
        choice; None if neither counts.
        """
        single = [a for a in counting if a.rung != "paper"]
        rows = [strict(a, len(single)) for a in single]
        if case.cascade and not self.weak(case.cascade):
            rows.insert(0, case.cascade)  # first: it wins a tie
        return max(rows, key=lambda r: (self.low(r), self.value(r)), default=None)

    def seeds_needed(self, row: Number) -> int | None:
        """About how many more seeds would settle it, if intervals shrink with their square root;
        None if none would.
        """
        value, edge = self.value(row), self.floor(row) + self.margin
        ratios = [(self.high(row) - value) / (edge - value)] if value < edge else []
        if value > self.floor_high(row):
            ratios.append((value - self.low(row)) / (value - self.floor_high(row)))
        if not ratios:
            return None
        seeds = max(self.case.seeds, 1)
        return max(1, math.ceil(seeds * min(ratios) ** 2) - seeds)


def strict(row: Number, count: int) -> Number:
    """The row with its interval at 5 % / ``count``: the best of several attacks was picked by
    looking.

    A share of units: Clopper-Pearson again, and never narrower than the given interval scaled by
    Student's quantiles, which also carries what seeds added to it. Degrees of freedom: n - 1.
    """
    if count < 2 or row.interval == "exact":
        return row
    from scipy.stats import beta, t

    tail = 0.025 / count
    free = max(row.n - 1, 1)
    wider = float(t.ppf(1 - tail, free) / t.ppf(0.975, free))
    low, high = (
        row.value - wider * (row.value - row.low),
        row.value + wider * (row.high - row.value),
    )
    if row.interval == "clopper-pearson":
        hits, up = math.floor(row.value * row.n + 1e-9), math.ceil(row.value * row.n - 1e-9)
        low = min(low, float(beta.ppf(tail, hits, row.n - hits + 1)) if hits > 0 else 0.0)
        high = max(high, float(beta.ppf(1 - tail, up + 1, row.n - up)) if up < row.n else 1.0)
        low, high = max(low, 0.0), min(high, 1.0)
    return replace(row, low=low, high=high)
