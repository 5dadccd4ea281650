"""The verdict on one setting and one question: the first rule that matches.

It is decided by pure functions of numbers.

The principle: accuse with what an attacker really reached (``cascade``), acquit with the upper
bound (``any_attack``), and only where the attack had the power to find something.

    rule  word               when
    1     nothing to attack  it sends no message of the kind asked about
    2     not attacked       there is no number, for another reason; of runs that are not complete
                             the word is "not finished" or "failed"
    3     dead run           every seed is dead
    4     attack too weak    no attack succeeded on the control, and none is beyond the blind guess;
                             or none found anything in what hides nothing
    5     leaks              low(reached) is at least half way from the blind guess to the control,
                             or at least half of the units are as good as the original; of what
                             hides nothing, which is its own control, beyond the blind guess
    6     cannot tell        only the paper's own attack ran
    7     held               no attack's high is beyond its blind guess + margin, no unit is as good
                             as the original by any metric of the question, and nothing is left
                             that ``acquittal`` asks for
    8     leaks in part      low(reached) is beyond the blind guess, by the two intervals or unit by
                             unit; or some units are as good as the original
    9     cannot tell        none of these; before rule 4: too few clusters of units to show that
                             even a perfect attack works

``reached`` is the cascade or the best single attack above the rung ``paper``, whichever is higher:
where several listened, of whichever of them accuses most.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import Field, computed_field

from leakbench.base.part import Part
from leakbench.judging.acquittal import Doubt, doubts
from leakbench.judging.evidence import Evidence
from leakbench.results import paired
from leakbench.results.listener import LISTENERS
from leakbench.results.number import Number
from leakbench.statistics.multiplicity import TAIL, bonferroni

Word = Literal[
    "nothing to attack",
    "not attacked",
    "not finished",
    "failed",
    "dead run",
    "attack too weak",
    "leaks",
    "held",
    "leaks in part",
    "cannot tell",
]
Tone = Literal["leak", "part", "held", "none"]

TONES: dict[Word, Tone] = {"leaks": "leak", "leaks in part": "part", "held": "held"}


class Verdict(Part):
    """Which rule matched, and the numbers that its sentence names."""

    rule: int
    word: Word
    reached: Number | None = Field(None, exclude=True)
    worst: Number | None = Field(None, exclude=True)
    paper: Number | None = Field(None, exclude=True)
    binding: Number | None = Field(None, exclude=True)
    counting: tuple[Number, ...] = Field((), exclude=True)
    doubts: tuple[Doubt, ...] = Field((), exclude=True)  # why finding little says little
    copied: Number | None = Field(
        None, exclude=True
    )  # of whose units some are as good as originals
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

    @property
    def few(self) -> Number | None:
        """The number with too few clusters of units, where that is why it cannot be told."""
        return self.binding if self.rule == 9 and self.binding and self.binding.few else None


def judge_evidence(evidence: Evidence) -> Verdict:
    """The first rule that matches."""
    rows = (*evidence.attacks, *evidence.joined)
    if not rows:
        if evidence.state:
            return Verdict(rule=2, word=evidence.state)
        if evidence.sends_kind:
            return Verdict(rule=2, word="not attacked")
        return Verdict(rule=1, word="nothing to attack")
    counting = tuple(a for a in evidence.attacks if not a.weak)
    paper = _most(a for a in evidence.attacks if a.attacker.paper)
    # The first wins a tie, so that one attack alone does not take the place of the worst case.
    worst = max((*_one(evidence.any_attack), *(counting or rows)), key=_leak)
    among = [a for a in evidence.among or counting if not (a.attacker.paper or a.weak)]
    reached = _best(evidence, counting, among)
    copied = _copied(counting) or _copied(evidence.beside)
    above = copied is not None or (reached is not None and _beyond(reached, among))

    def found(
        rule: int, word: Word, binding: Number | None = None, lacks: tuple[Doubt, ...] = ()
    ) -> Verdict:
        return Verdict(
            rule=rule,
            word=word,
            reached=reached,
            worst=worst,
            paper=paper,
            binding=binding,
            counting=counting,
            doubts=lacks,
            copied=copied,
            beyond_floor=above,
        )

    if evidence.seeds and evidence.dead_seeds >= evidence.seeds:
        return found(3, "dead run")
    if copied and _half_good(copied):
        return found(5, "leaks")
    if reached is None and copied:
        return found(8, "leaks in part")
    if reached is None:
        few = _most(a for a in evidence.attacks if a.few)
        if few:
            return found(9, "cannot tell", few)
        weak = evidence.cascade or evidence.any_attack or evidence.attacks[0]
        return found(4, "attack too weak", weak)
    if reached.low >= reached.half:
        return found(5, "leaks")
    if not (evidence.hides or copied or reached.attacker.paper) and above:
        return found(5, "leaks")  # as much as there is, whatever that is
    if reached.attacker.paper and not copied:
        return found(6, "cannot tell")
    counted = (*counting, *evidence.joined)
    binding = max(counted, key=lambda n: n.excess)
    if above:
        return found(8, "leaks in part")
    # What the worst case or the paper's own copied was picked by the truth: it does not accuse.
    good = any(map(_as_good, (*counted, *evidence.beside)))
    if evidence.any_attack and binding.excess <= 0 and not good:
        if not evidence.hides:
            return found(4, "attack too weak", worst)
        lacks = doubts(evidence, counting)
        return found(9, "cannot tell", binding, lacks) if lacks else found(7, "held")
    return found(9, "cannot tell", binding)


def _one(number: Number | None) -> tuple[Number, ...]:
    return (number,) if number else ()


def _copied(numbers: Iterable[Number]) -> Number | None:
    """Where most units are as good as the original, and not by the paper's own attack."""
    real = [n for n in numbers if not n.attacker.paper and _as_good(n)]
    return max(real, key=lambda n: (_half_good(n), _as_good(n)), default=None)


def _half_good(n: Number) -> bool:
    """Are half of its units as good as the original?"""
    return 2 * _as_good(n) >= max(n.tried, n.value.n)


def _leak(n: Number) -> float:
    return n.leak


def _as_good(n: Number) -> int:
    return n.power.as_good if n.power else 0


def _most(numbers: Iterable[Number]) -> Number | None:
    return max(numbers, key=_leak, default=None)


def _beyond(reached: Number, among: Sequence[Number]) -> bool:
    """Is its low beyond the blind guess: by the intervals, or over the same units?

    The best of several pays for having been picked, as in ``bonferroni``.
    """
    if reached.low > reached.blind_high:
        return True
    return paired.lower(reached.parts, "attack", TAIL / _choices(reached, among)) > 0


def _choices(n: Number, among: Sequence[Number]) -> int:
    """Of how many it was picked: single attacks, or the cascades of who listened.

    What weaker listeners tried costs the strongest nothing, or else its finding would look smaller
    for a client's that found little. ``among``: single attacks above the paper's own that count.
    """
    kinds = [a.attacker.listener for a in among]
    first = min(kinds, key=LISTENERS.index, default=None)
    alone = n.attacker.listener == first
    own = [a for a in among if a.attacker.listener == first] if alone else among
    who = {a.attacker.party for a in own}
    return max(len(who) if n.attacker.made else len(own), 1)


def _best(evidence: Evidence, counting: Sequence[Number], among: Sequence[Number]) -> Number | None:
    """The cascade or the best single attack above ``paper``, or None if nothing counts.

    Its interval is corrected for the choice, alike where one listener is asked and where all are:
    what accuses in the one accuses in the other. A paper's own attack stands in for whoever has no
    other that counts, or else who found little elsewhere would speak for it.
    """
    real = [a for a in counting if not a.attacker.paper]
    cascades = evidence.cascades or tuple(n for n in (evidence.cascade,) if n)
    # The cascade first: it wins a tie.
    numbers = [_corrected(n, among) for n in (*cascades, *real) if not n.weak]
    heard = {a.attacker.listener for a in real}
    numbers += [a for a in counting if a.attacker.paper and a.attacker.listener not in heard]

    def accuses(n: Number) -> tuple[bool, bool, bool, float, float]:
        return n.low >= n.half, not n.attacker.paper, _beyond(n, among), n.low, n.leak

    return max(numbers, key=accuses, default=None)


def _corrected(n: Number, among: Sequence[Number]) -> Number:
    return n.model_copy(update={"value": bonferroni(n.value, _choices(n, among))})
