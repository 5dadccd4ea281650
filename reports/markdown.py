"""A summary for a pull request: what `check` said, the verdict in words, a line per setting.

`report.md`, under 60 000 characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from leakbench.base import write_bytes
from leakbench.judging import Question, Span
from leakbench.reporting import Against, Report, ReportData, Sheet, add_check
from leakbench.reporting import markdown_code as code
from leakbench.reporting import markdown_plain as plain
from leakbench.words import plural
from reports._page import moved
from reports._words import PROBE, summary

MOST = 60_000  # bytes, so characters too
TAIL = 1_500  # kept free for what has to be said in any case
LINES = 5
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


def render(data: ReportData, page: Path) -> str:
    """The summary; every string that comes from a run folder is escaped."""
    sheet = Sheet(MOST - TAIL)
    if data.check:
        add_check(sheet, data.check)
    else:
        sheet.add(f"## {plain(data.title)}", "")
    if not data.questions or len(data.tasks) > 1:
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
    if sheet.add("<details>", f"<summary>{plural(len(rows), 'setting')}</summary>", ""):
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
