"""The strip of `leakbench check`: one sentence, then the rows that keep it from passing, the most
urgent first.
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
    """A row: what is said of it, which it is, from what to what it moved, and by how much or why
    that cannot be told.
    """

    tone: str
    word: str
    where: str
    moved: str
    why: str


@dataclass(frozen=True)
class Strip:
    """The whole strip; ``more``: how many rows it leaves out."""

    tone: str
    head: str
    against: str
    lines: tuple[StripLine, ...]
    more: int


def strip(check: Check | None) -> Strip | None:
    """What the check said, in the page's words; None if it did not run."""
    if check is None:
        return None
    urgent = first_said([r for r in check.rows if r.verdict in URGENT])
    lines = [_line(r, said) for r, said in urgent]
    if not check.rows:
        lines = [StripLine("none", "", line, "", "") for line in check.lines]
    return Strip(
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
