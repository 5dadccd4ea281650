"""The attackers that a chart can be switched to, for people."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from leakbench.judging.attackers import CASCADE, PAPER, WORST, kinds_present, row_of
from leakbench.judging.question import Judged, Question
from leakbench.words.amounts import plural


@dataclass(frozen=True)
class AttackerKind:
    """One position of the switch."""

    key: str
    name: str
    says: str  # what this attacker knows, for people
    adds: bool = False  # to what the one before it knows

    @property
    def label(self) -> str:
        """Its name at the switch, where it follows the one before it."""
        return f"+ {self.name}" if self.adds else self.name


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
        "knows the method",
        "Knows the method and its parameters as well: the strongest attack with that, or with"
        " less.",
        adds=True,
    ),
    AttackerKind(
        "public",
        "public data",
        "Has public data of the same kind as well: the strongest attack with that, or with less.",
        adds=True,
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
        "For each client, image or record the best of all attacks that count, picked with the truth"
        " in hand: none of them does better.",
    ),
)
GHOST = (
    "Grey bars: the paper's own attack on the same run; arrows lead from them to the chosen"
    " attacker."
)


def present(question: Question) -> list[AttackerKind]:
    """The attackers that any setting of the question has a row for."""
    there = kinds_present(question)
    return [a for a in ATTACKERS if a.key in there]


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
