"""The strip of `leakbench check`.

One sentence, then what keeps it from passing, the most urgent first.
"""

from __future__ import annotations

from dataclasses import dataclass

from leakbench.reporting import Check, CheckLine, first_said, how_to_settle, urgent

MOST = 5
TONES = {"breached": "leak", "leaks more": "leak", "loses utility": "leak"}


@dataclass(frozen=True)
class StripLine:
    """A line of the strip."""

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
    more: int  # how many lines it leaves out


def strip(check: Check | None) -> CheckStrip | None:
    """What the check said, in the page's words; None if it did not run."""
    if check is None:
        return None
    lines = [_line(x, said) for x, said in first_said(urgent(check))]
    if not lines and not check.rows:
        lines = [StripLine("none", "", line, "", "") for line in check.lines]
    return CheckStrip(
        tone={0: "held", 1: "leak"}.get(check.exit, "part"),
        head=check.heading or f"Check ended with exit {check.exit}.",
        against=check.against,
        lines=tuple(lines[:MOST]),
        more=max(0, len(lines) - MOST),
    )


def _line(line: CheckLine, said: bool) -> StripLine:
    """``said``: a line before it carries the same command."""
    told = (line.moved, line.why, line.others, ": ".join(how_to_settle(line, said)))
    why = ". ".join(t.removesuffix(".") for t in told if t)
    tone = TONES.get(line.verdict, "part")
    return StripLine(tone, line.verdict, line.where, line.value, f"{why}." if why else "")
