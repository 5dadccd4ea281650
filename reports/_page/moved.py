"""What moved, in words: one line per number that is in both reports."""

from __future__ import annotations

from dataclasses import dataclass

from leakbench.gate import UTILITY
from leakbench.judging import END, MADE, SHORT, plain, plural, words
from leakbench.reporting import Against, Amount, Moved
from reports._words import ATTACKS, STAGES

TONES = {"leaks more": "leak", "loses utility": "leak", "cannot tell": "part"}
FIRST = (*MADE, UTILITY)


@dataclass(frozen=True)
class Line:
    """Cells of a row; ``tone`` colours ``word``; ``first``: worst case, best real attacker and
    utility at the end of training.
    """

    setting: str
    what: str
    old: str
    new: str
    change: str
    word: str
    tone: str
    why: str
    first: bool


def line(row: Moved) -> Line:
    """A row in words."""
    return Line(
        setting=f"{row.task}: {row.name}",
        what=_what(row),
        old=_amount(row.metric, row.old),
        new=_amount(row.metric, row.new),
        change=change(row),
        word=row.word,
        tone=TONES.get(row.word, "none"),
        why=row.why or "compared over units and seeds",
        first=row.attack in FIRST and row.stage in END,
    )


def change(row: Moved) -> str:
    """As in "+0.28 (+0.20 to +0.35)", or "× 0.50 (0.31 to 0.80)" for counts of samples."""
    numbers = [v for v in (row.difference, row.low, row.high) if v is not None]
    digits = max(words(row.metric).decimals, 2)
    told = [f"× {v:.2f}" if row.scale == "factor" else f"{v:+.{digits}f}" for v in numbers]
    told = [
        t.replace("-0." + "0" * digits, "0." + "0" * digits).replace(
            "+0." + "0" * digits, "0." + "0" * digits
        )
        for t in told
    ]
    return (
        f"{told[0]} ({told[1]} to {told[2]})"
        if len(told) == 3
        else f"{told[0]} (no interval: one unit)"
    )


def verdict(found: Against) -> str:
    """One sentence on all rows."""
    counts: dict[str, int] = {}
    for row in found.rows:
        counts[row.word] = counts.get(row.word, 0) + 1
    told = ", ".join(f"{word} {n}" for word, n in counts.items())
    return (
        f"{plural(len(found.rows), 'number')} in both: {told}."
        if found.rows
        else "No number is in both reports."
    )


def _what(row: Moved) -> str:
    name = SHORT.get(row.metric, words(row.metric).title)
    if row.attack == UTILITY:
        return name
    attack = ATTACKS.get(row.attack, row.attack.replace("_", " "))
    when = f", {STAGES.get(row.stage, row.stage)}" if row.stage not in ("final", "all") else ""
    return f"{name}, {attack}{when}{', on probes' if row.probe else ''}"


def _amount(metric: str, amount: Amount) -> str:
    unit = words(metric).suffix
    value, low, high = (
        plain(metric, v).removesuffix(unit) for v in (amount.value, amount.low, amount.high)
    )
    return f"{value} ({low} to {high}){unit}"
