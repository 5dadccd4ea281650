"""What moved, in words: one line per number that is in both reports."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from leakbench.gate import UTILITY
from leakbench.reporting import Against, Moved
from leakbench.results import END, MADE
from leakbench.words import plural
from reports._words import STAGES, attack, interval

TONES = {"leaks more": "leak", "loses utility": "leak", "cannot tell": "part"}
FIRST = (*MADE, UTILITY)
MOST = 12  # lines that are not folded


@dataclass(frozen=True)
class MovedLine:
    """Cells of a row."""

    setting: str
    what: str
    old: str
    new: str
    change: str
    word: str
    tone: str  # colours ``word``
    why: str
    first: bool  # worst case, best real attacker or utility, at the end of training


@dataclass(frozen=True)
class Section:
    """What the page shows: the lines that matter, then all others."""

    said: str  # of all of them
    first: tuple[MovedLine, ...]
    rest: tuple[MovedLine, ...]


def section(found: Against) -> Section:
    """Of the page."""
    every = lines(found)
    first = [n for n in every if n.first]
    rest = [*first[MOST:], *(n for n in every if not n.first)]
    return Section(verdict(found), tuple(first[:MOST]), tuple(rest))


def lines(found: Against) -> list[MovedLine]:
    """Every row in words, in their order."""
    return [_line(row) for row in found.rows]


def _line(row: Moved) -> MovedLine:
    return MovedLine(
        setting=f"{row.task}: {row.name}",
        what=_what(row),
        old=interval(row.meaning, row.old),
        new=interval(row.meaning, row.new),
        change=change(row),
        word=row.word,
        tone=TONES.get(row.word, "none"),
        why=row.why or "compared over units and seeds",
        first=row.attack in FIRST and row.stage in END,
    )


def change(row: Moved) -> str:
    """As in "+0.28 (+0.20 to +0.35)", or "× 0.50 (0.31 to 0.80)" for counts of samples."""
    if row.low is None or row.high is None:
        return f"{_signed(row, row.difference)} (no interval: one unit)"
    value, low, high = (_signed(row, v) for v in (row.difference, row.low, row.high))
    return f"{value} ({low} to {high})"


def _signed(row: Moved, value: float) -> str:
    """With its sign; nothing has none."""
    if row.scale == "factor":
        return f"× {value:.2f}"
    told = f"{value:+.{max(row.meaning.decimals, 2)}f}"
    return told if float(told) else told[1:]


def verdict(found: Against) -> str:
    """One sentence on all rows."""
    if not found.rows:
        return "No number is in both reports."
    words = Counter(row.word for row in found.rows)
    told = ", ".join(f"{word} {n}" for word, n in words.items())
    return f"{plural(len(found.rows), 'number')} in both: {told}."


def _what(row: Moved) -> str:
    name = row.meaning.label
    if row.attack == UTILITY:
        return name
    early = "" if row.stage in END else f", {STAGES.get(row.stage, row.stage)}"
    return f"{name}, {attack(row.attack)}{early}{', on probes' * row.probe}"
