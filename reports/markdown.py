"""A summary for a pull request: what `check` said, the verdict in words, a line per setting.

`report.md`, under 60 000 characters.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from leakbench.base import one_line, write_bytes
from leakbench.judging import Question, Span
from leakbench.reporting import (
    URGENT,
    Against,
    Check,
    CheckRow,
    Report,
    ReportData,
    first_said,
    how_to_settle,
    moved_text,
    value_text,
)
from reports._page import moved
from reports._words import PROBE, summary

MOST = 60_000  # bytes, so characters too
TAIL = 1_500  # kept free for what has to be said in any case
LINES = 5
SIGNS = {0: "✅", 1: "❌"}
CHECK = ("verdict", "row", "old → new", "difference", "why")
SETTINGS = (
    "setting",
    "utility",
    "paper's own attack",
    "best real attacker",
    "worst case",
    "verdict",
)
MOVED = ("setting", "so it", "number", "then", "now", "difference", "why")


class Markdown(Report):
    """`report.md`."""

    def write(self, data: ReportData, out: Path) -> list[Path]:
        """One file.

        Raises:
            UsageError: the folder cannot be written.
        """
        write_bytes(out / "report.md", render(data, out / "index.html").encode())
        return [out / "report.md"]


class Sheet:
    """Lines that stay under a size: what does not fit any more is counted."""

    def __init__(self, most: int) -> None:
        self.lines: list[str] = []
        self.left = most

    def add(self, *lines: str) -> bool:
        """Add all of these lines or none. Did they fit?"""
        size = sum(len(line.encode()) + 1 for line in lines)
        if size > self.left:
            return False
        self.lines += lines
        self.left -= size
        return True

    def table(
        self, columns: Sequence[str], rows: Sequence[Sequence[str]], more: str = "rows"
    ) -> None:
        """A table of as many rows as fit."""
        told = f"… and {{}} more {more}, left out to keep this short.".format
        longest = told(len(rows))
        note = len(longest.encode()) + 4
        self.left -= note
        done = 0
        if self.add("| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)):
            while done < len(rows) and self.add("| " + " | ".join(rows[done]) + " |"):
                done += 1
        self.left += note
        left = len(rows) - done
        rest = ["", told(left), ""] if left else [""]
        self.add(*rest)


def render(data: ReportData, page: Path) -> str:
    """The summary; every string that comes from a run folder is escaped."""
    sheet = Sheet(MOST - TAIL)
    if data.check:
        _check(sheet, data.check)
    else:
        sheet.add(f"## {plain(data.title)}", "")
    if not data.questions:
        sheet.add(spans(data.headline), "")
    for i, question in enumerate(data.questions):
        if not _question(sheet, question, main=i == 0):
            sheet.lines += ["… and more questions, left out to keep this short.", ""]
            break
    if data.against:
        _moved(sheet, data.against)
    note = " Private images were left out of it (`--redact`)." if data.redacted else ""
    made = f"Made by leakbench {plain(data.made.version)} at {plain(data.made.at)}"
    sheet.lines += [f"The whole report: {code(str(page)[-400:])}.{note}", "", f"<sub>{made}.</sub>"]
    return "\n".join(sheet.lines) + "\n"


def _check(sheet: Sheet, check: Check) -> None:
    """The strip's first line with a sign and the word, its lines, all rows folded."""
    head = check.heading or f"Check ended with exit {check.exit}"
    sheet.add(f"## {SIGNS.get(check.exit, '⚠️')} {plain(head)}", "")
    if check.against:
        sheet.add(f"against {plain(check.against)}", "")
    urgent = [r for r in check.rows if r.verdict in URGENT]
    if urgent:
        sheet.table(CHECK, [_cells(r, said) for r, said in first_said(urgent[:LINES])])
    elif not check.rows:
        for text in check.lines[:LINES]:
            sheet.add(f"* {plain(text)}")
        sheet.add("")
    more = len(urgent or check.lines) - LINES
    if more > 0:
        sheet.add(f"and {more} more", "")
    if check.rows:
        sheet.add("<details>", f"<summary>All {len(check.rows)} rows</summary>", "")
        sheet.left -= len("</details>") + 2
        half = Sheet(sheet.left // 2)
        half.table(CHECK, [_cells(r, None) for r in check.rows])
        sheet.left -= sheet.left // 2 - half.left
        sheet.lines += [*half.lines, "</details>", ""]


def _cells(row: CheckRow, said: bool | None) -> list[str]:
    """The cells of a row of the check's table.

    ``said``: an earlier row carries the same command; None: this table is about numbers, not
    commands.
    """
    settle = () if said is None else how_to_settle(row, said)
    told = ": ".join([*settle[:1], *(code(c, cell=True) for c in settle[1:])])
    parts = [t for t in (plain(row.why).removesuffix("."), told) if t]
    why = ". ".join(parts) or "compared over units and seeds"
    return [
        f"**{plain(row.verdict)}**",
        plain(row.row),
        plain(value_text(row)),
        plain(moved_text(row) or "not compared"),
        why,
    ]


def _question(sheet: Sheet, question: Question, *, main: bool) -> bool:
    """Headline, lede and a line per setting. Did the sentences fit?"""
    title = f"{plain(question.task)}, {plain(question.label)}"
    first = f"**{spans(question.headline)}** {spans(question.lede)}".strip()
    told = [f"### {title}", "", first, ""]
    told += [PROBE, ""] if question.probe else []
    if not sheet.add(*told):
        return False
    rows = []
    for j in question.judged:
        rows.append([plain(c) for c in vars(summary(j)).values()])
    if main:
        sheet.table(SETTINGS, rows, "settings")
        return True
    if sheet.add("<details>", f"<summary>{len(rows)} settings</summary>", ""):
        sheet.left -= len("</details>") + 2
        sheet.table(SETTINGS, rows, "settings")
        sheet.lines += ["</details>", ""]
    return True


def _moved(sheet: Sheet, found: Against) -> None:
    """What moved since another report."""
    sheet.add(f"### What moved against {plain(found.name)}", "", plain(moved.verdict(found)), "")
    if found.differs:
        sheet.add("Not like with like:", "", *(f"* {plain(d)}" for d in found.differs[:LINES]), "")
    cells = []
    for n in sorted(moved.lines(found), key=lambda n: not n.first):
        told = (n.setting, n.word, n.what, n.old, n.new, n.change, n.why)
        cells.append([plain(c) for c in told])
    if cells:
        sheet.table(MOVED, cells)
    for text, only in (("Only here", found.only_now), ("Only there", found.only_then)):
        if only:
            more = f"; and {len(only) - LINES} more" if len(only) > LINES else ""
            sheet.add(f"{text}: {plain('; '.join(only[:LINES]))}{more}.", "")


def spans(parts: Sequence[Span]) -> str:
    """A sentence."""
    return plain("".join(s.text for s in parts))


def plain(text: str) -> str:
    """Text that Markdown, and whatever reads it, shows as it is.

    No tags, links, mentions, tables, formulas.
    """
    out = re.sub(r"([\\`*_{}\[\]<>#|~$!^])", r"\\\1", one_line(text))
    out = out.replace("&", "&amp;").replace("\\<", "&lt;").replace("\\>", "&gt;")
    out = re.sub(
        r"^([-+=]|\d+[.)](?=\s|$))", lambda m: m.group(1)[:-1] + "\\" + m.group(1)[-1], out
    )
    out = re.sub(r"(?i)\b(www)\.", r"\1&#46;", out).replace("://", "&#58;//")
    return re.sub(r"(@|\\#|(?i:\bGH-))(?=\w)", r"\1<!-- -->", out)


def code(text: str, *, cell: bool = False) -> str:
    """A command or a path, between enough back ticks.

    In a ``cell`` its bars are escaped, which the table undoes again.
    """
    shown = one_line(text)
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    pad = " " if longest else ""
    told = f"{'`' * (longest + 1)}{pad}{shown}{pad}{'`' * (longest + 1)}"
    return told.replace("|", "\\|") if cell else told
