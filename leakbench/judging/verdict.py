"""The verdict on one setting and one question: the first rule that matches.

It is decided by pure functions of numbers.

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
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

from pydantic import Field, computed_field

from leakbench.base.meaning import Meaning
from leakbench.base.part import Part
from leakbench.results.number import Number

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


class Evidence(Part):
    """Everything that decides one verdict: a setting's numbers in one metric.

    They are of real messages or of probes, never both.
    """

    meaning: Meaning
    attacks: tuple[Number, ...] = ()
    cascade: Number | None = None
    any_attack: Number | None = None
    seeds: int = 1
    dead_seeds: int = 0
    dead_because: str = ""  # why a dead run is dead, a clause for the sentence
    kind: str = "message of this kind"
    sends: tuple[str, ...] = ()
    sends_kind: bool = True
    reason: str = ""  # why there is no number
    public: Number | None = None  # without what the attack was given from the truth
    unmeasured: tuple[str, ...] = ()  # titles of metrics whose weights are not on this machine


class Verdict(Part):
    """Which rule matched, and the numbers that its sentence names."""

    rule: int
    word: Word
    reached: Number | None = Field(None, exclude=True)
    worst: Number | None = Field(None, exclude=True)
    paper: Number | None = Field(None, exclude=True)
    binding: Number | None = Field(None, exclude=True)
    counting: tuple[Number, ...] = Field((), exclude=True)
    beyond_floor: bool = False

    @computed_field  # type: ignore[prop-decorator]
    @property
    def tone(self) -> Tone:
        """The colour that repeats the word."""
        return TONES.get(self.word, "none")

    @property
    def judged(self) -> bool:
        """Whether it counts in "k of n"."""
        return self.rule in (5, 7, 8)


def judge(evidence: Evidence) -> Verdict:
    """The first rule that matches."""
    rows = (*evidence.attacks, *(r for r in (evidence.cascade, evidence.any_attack) if r))
    if not rows:
        if evidence.sends_kind:
            return Verdict(rule=2, word="not attacked")
        return Verdict(rule=1, word="nothing to attack")
    counting = tuple(a for a in evidence.attacks if not a.weak)
    paper = _most(a for a in evidence.attacks if a.attacker.paper)
    worst = evidence.any_attack or max(rows, key=_leak)
    # No attack above the rung paper counts: the paper's own stands in.
    reached = _best(evidence, counting) or _most(a for a in counting if a.attacker.paper)
    above = reached is not None and reached.low > reached.blind_high

    def found(rule: int, word: Word, binding: Number | None = None) -> Verdict:
        return Verdict(
            rule=rule,
            word=word,
            reached=reached,
            worst=worst,
            paper=paper,
            binding=binding,
            counting=counting,
            beyond_floor=above,
        )

    if evidence.seeds and evidence.dead_seeds >= evidence.seeds:
        return found(3, "dead run")
    if reached is None:
        weak = evidence.cascade or evidence.any_attack or evidence.attacks[0]
        return found(4, "attack too weak", weak)
    if reached.low >= reached.half:
        return found(5, "leaks")
    if reached.attacker.paper:
        return found(6, "cannot tell")
    counted = (*counting, *(r for r in (evidence.cascade, evidence.any_attack) if r))
    binding = max(counted, key=lambda n: n.excess)
    most = max(n.failed / n.tried if n.tried else 0.0 for n in counted)
    if evidence.any_attack and binding.excess <= 0 and not above and most <= MOST_FAILED:
        return found(7, "held")
    if above:
        return found(8, "leaks in part")
    return found(9, "cannot tell", binding)


def _leak(n: Number) -> float:
    return n.leak


def _most(numbers: Iterable[Number]) -> Number | None:
    return max(numbers, key=_leak, default=None)


def _best(evidence: Evidence, counting: Sequence[Number]) -> Number | None:
    """The cascade or the best single attack above ``paper``, or None if neither counts.

    Its interval is corrected for the choice.
    """
    single = [a for a in counting if not a.attacker.paper]
    numbers = [strict(a, len(single)) for a in single]
    if evidence.cascade and not evidence.cascade.weak:
        numbers.insert(0, evidence.cascade)  # first: it wins a tie
    return max(numbers, key=lambda n: (n.low, n.leak), default=None)


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


def strict(number: Number, count: int) -> Number:
    """The number with its interval at 5 % / ``count``: the best of several was picked by looking.

    A share of units: Clopper-Pearson again, and never narrower than the given interval scaled by
    Student's quantiles, which also carries what seeds added to it. Degrees of freedom: n - 1.
    """
    e = number.value
    if count < 2 or e.interval == "exact":
        return number
    from scipy.stats import beta, t

    tail = 0.025 / count
    free = max(e.n - 1, 1)
    wider = float(t.ppf(1 - tail, free) / t.ppf(0.975, free))
    low, high = e.value - wider * (e.value - e.low), e.value + wider * (e.high - e.value)
    if e.interval == "clopper-pearson":
        hits, up = math.floor(e.value * e.n + 1e-9), math.ceil(e.value * e.n - 1e-9)
        least = float(beta.ppf(tail, hits, e.n - hits + 1)) if hits > 0 else 0.0
        most = float(beta.ppf(1 - tail, up + 1, e.n - up)) if up < e.n else 1.0
        low, high = max(min(low, least), 0.0), min(max(high, most), 1.0)
    return number.model_copy(update={"value": replace(e, low=low, high=high)})
