"""The attackers that a chart can be switched to, and the row of the table for each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from leakbench.judging.question import Judged, Question
from leakbench.judging.wording import plural
from leakbench.results.front import fit
from leakbench.results.number import Number


@dataclass(frozen=True)
class AttackerKind:
    """One position of the switch."""

    key: str
    name: str
    says: str  # what this attacker knows, for people


PAPER, CASCADE, WORST = "paper", "cascade", "any_attack"
# Who knows more can still do what is possible with less.
LADDER = ("transcript", "method", "public")
ATTACKERS = (
    AttackerKind(
        PAPER,
        "the paper's own",
        "The attack of each method's own paper, on the same runs. Colour stays the verdict: "
        "a full red point on the left only looks harmless.",
    ),
    AttackerKind(
        "transcript",
        "reads the record",
        "Reads every message that was kept, of all rounds, and does not know the method: its"
        " strongest attack.",
    ),
    AttackerKind(
        "method",
        "+ knows the method",
        "Knows the method and its parameters as well: the strongest attack with that, or with"
        " less.",
    ),
    AttackerKind(
        "public",
        "+ public data",
        "Has public data of the same kind as well: the strongest attack with that, or with less.",
    ),
    AttackerKind(
        CASCADE,
        "best real attacker",
        "Runs every attack above the paper's own and picks by what it can check itself, without the"
        " truth; or the best of them alone, where that is stronger. This is what an attacker really"
        " reached.",
    ),
    AttackerKind(
        WORST,
        "worst case",
        "For each unit the best of all attacks that count, picked with the truth in hand: none of"
        " them does better.",
    ),
)
GHOST = (
    "Small circles: the paper's own attack on the same run; arrows lead from them to the chosen"
    " attacker."
)


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
    rows = (*judged.evidence.attacks, *(r for r in (judged.evidence.cascade,) if r))
    return next((r for r in rows if r.key == best.key), best)


def speaks(row: Number | None) -> bool:
    """May it speak for its setting?

    It may if no seed is dead and the attack succeeded where nothing was defended.
    """
    return row is not None and fit(row)


def present(question: Question) -> list[AttackerKind]:
    """The attackers that any setting of the question has a row for."""
    every = {a.key for a in ATTACKERS for j in question.judged if row_of(j, a.key)}
    return [a for a in ATTACKERS if a.key in every]


def absent(judged: Iterable[Judged], key: str) -> str:
    """The sentence on settings attacked, but not by this attacker; "" where there are none."""
    drawn = [j for j in judged if j.verdict.worst and j.setting.final]
    gone = sum(row_of(j, key) is None for j in drawn)
    if not gone:
        return ""
    have, stand = ("has", "stands faint at its") if gone == 1 else ("have", "stand faint at their")
    return (
        f"{plural(gone, 'setting')} of {len(drawn)} {have} no such attack that counts and {stand}"
        " worst case."
    )
