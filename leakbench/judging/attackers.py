"""The attackers that a verdict's numbers are shown by, and the row of the table for each."""

from __future__ import annotations

from leakbench.judging.question import Judged, Question
from leakbench.results.number import Number

PAPER, CASCADE, WORST = "paper", "cascade", "any_attack"
# Who knows more can still do what is possible with less.
LADDER = ("transcript", "method", "public")
KINDS = (PAPER, *LADDER, CASCADE, WORST)


def row_of(judged: Judged, key: str) -> Number | None:
    """What this attacker reaches on a setting, or None where no such attack that counts ran.

    An attack whose control failed counts for nobody, unless it is beyond the blind guess all the
    same. A rung of the ladder has a number only if an
    attack of that very rung counts; the number is the strongest up to there.
    """
    if key == WORST:
        return judged.verdict.worst
    if key == CASCADE:
        return real(judged)
    counting = judged.verdict.counting
    found = [a for a in counting if a.attacker.rung == key]
    if key in LADDER and found:
        found = [a for a in counting if a.attacker.rung in LADDER[: LADDER.index(key) + 1]]
    return max(found, key=lambda n: n.leak, default=None)


def real(judged: Judged) -> Number | None:
    """The best real attacker, as the table has it.

    The verdict reads a wider interval where several attacks were compared.
    """
    best = judged.verdict.reached
    if best is None or best.attacker.paper:
        return None
    evidence = judged.evidence
    rows = (*evidence.attacks, *evidence.cascades, *(r for r in (evidence.cascade,) if r))
    same = (r for r in rows if r.key == best.key and r.attacker.observer == best.attacker.observer)
    return next(same, best)


def kinds_present(question: Question) -> list[str]:
    """The attackers that any setting of the question has a row for, of ``KINDS``."""
    every = {key for key in KINDS for j in question.judged if row_of(j, key)}
    return [key for key in KINDS if key in every]
