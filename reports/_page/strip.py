"""The strip of `leakbench check`.

One sentence, then the rows that keep it from passing, the most urgent first.
"""

from __future__ import annotations

from dataclasses import dataclass

from leakbench.reporting import (
    URGENT,
    Check,
    CheckRow,
    first_said,
    how_to_settle,
    moved_text,
    value_text,
)

MOST = 5
TONES = {"leaks more": "leak", "loses utility": "leak", "cannot tell": "part"}


@dataclass(frozen=True)
class StripLine:
    """A row of the strip."""

    tone: str
    word: str  # what is said of it
    where: str  # which it is
    moved: str  # from what to what
    why: str  # by how much, or why that cannot be told


@dataclass(frozen=True)
class CheckStrip:
    """The whole strip."""

    tone: str
    head: str
    against: str
    lines: tuple[StripLine, ...]
    more: int  # how many rows it leaves out


def strip(check: Check | None) -> CheckStrip | None:
    """What the check said, in the page's words; None if it did not run."""
    if check is None:
        return None
    urgent = first_said([r for r in check.rows if r.verdict in URGENT])
    lines = [_line(r, said) for r, said in urgent]
    if not check.rows:
        lines = [StripLine("none", "", line, "", "") for line in check.lines]
    return CheckStrip(
        tone={0: "held", 1: "leak"}.get(check.exit, "part"),
        head=check.heading or f"Check ended with exit {check.exit}.",
        against=check.against,
        lines=tuple(lines[:MOST]),
        more=max(0, len(lines) - MOST),
    )


def _line(row: CheckRow, said: bool) -> StripLine:
    """``said``: a row before it carries the same command."""
    told = (moved_text(row), row.why, ": ".join(how_to_settle(row, said)))
    why = ". ".join(t.removesuffix(".") for t in told if t) + "."
    return StripLine(TONES[row.verdict], row.verdict, row.row, value_text(row), why)
