"""Tables for a paper: utility, what each attacker reaches, the paper's own number beside ours.

One per question, with intervals.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from leakbench.base import one_line, write_bytes
from leakbench.judging import Judged, Question
from leakbench.reporting import Report, ReportData
from leakbench.results import Number, Utility
from reports._words import about, claimed, summary

ROWS = 40  # of a table; more go into further tables
COLUMNS = (
    "setting",
    "utility",
    "its paper",
    "paper's own attack",
    "its paper",
    "best real attacker",
    "worst case",
    "verdict",
)
HEAD = (
    "% Tables of leakbench {version}, {made}. In the document: \\usepackage{{booktabs}} and"
    " \\usepackage[T1]{{fontenc}}, then \\input.\n"
)
NONE = "no number"
# What pdflatex sets with T1 fonts and UTF-8 input is kept; these are spelt out; all else is named
# by its code point.
SPELT = {
    "\\": "\\textbackslash{}",
    "{": "\\{",
    "}": "\\}",
    "$": "\\$",
    "&": "\\&",
    "#": "\\#",
    "_": "\\_",
    "%": "\\%",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "<": "\\textless{}",
    ">": "\\textgreater{}",
    "|": "\\textbar{}",
    '"': "\\textquotedbl{}",
    "'": "{\\textquotesingle}",
    "`": "{\\textasciigrave}",
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
    "α": "$\\alpha$",
    "β": "$\\beta$",
    "σ": "$\\sigma$",
    "λ": "$\\lambda$",
    "μ": "$\\mu$",
    "ε": "$\\varepsilon$",
    "±": "$\\pm$",
    "∓": "$\\mp$",
    "×": "$\\times$",
    "→": "$\\rightarrow$",
    "≤": "$\\leq$",
    "≥": "$\\geq$",
    "…": "\\ldots{}",
    "–": "\\textendash{}",
    "—": "\\textemdash{}",
}


class Latex(Report):
    """`report.tex`: booktabs tables, to be read into a document."""

    def write(self, data: ReportData, out: Path) -> list[Path]:
        """One file.

        Raises:
            UsageError: the folder cannot be written.
        """
        write_bytes(out / "report.tex", render(data).encode())
        return [out / "report.tex"]


def render(data: ReportData) -> str:
    """One table per question, and a comment that says what the columns are."""
    parts = [HEAD.format(version=escape(data.made.version), made=escape(data.made.at))]
    for question in data.questions:
        parts += _tables(question)
    if len(parts) == 1:
        parts.append("% No attack has been run: there is no table.\n")
    return "\n".join(parts)


def _tables(question: Question) -> Iterator[str]:
    judged = question.judged
    for start in range(0, len(judged), ROWS):
        yield _table(question, judged[start : start + ROWS], again=start > 0)


def _table(question: Question, judged: Sequence[Judged], *, again: bool) -> str:
    unit = about(question.meaning)
    told = f"{question.task}, {question.label}: {unit} In brackets: 95 % intervals."
    lines = [
        "\\begin{table}",
        f"\\caption{{{escape(told)}{' (continued)' * again}}}",
        "\\centering\\footnotesize",
        "\\begin{tabular}{lccccccl}",
        "\\toprule",
        _row(COLUMNS),
        "\\midrule",
    ]
    sources: dict[str, None] = {}
    for i, j in enumerate(judged):
        if i and judged[i - 1].setting.family != j.setting.family:
            lines.append("\\addlinespace")
        row = summary(j)
        gain, gain_source = _claim(j, j.setting.final)
        leak, leak_source = _claim(j, claimed(j.setting, question.metric, question.stage))
        sources |= dict.fromkeys(s for s in (gain_source, leak_source) if s)
        cells = (row.name, row.utility, gain, row.paper, leak, row.real, row.worst, row.verdict)
        lines.append(_row(cells))
    lines += ["\\bottomrule", "\\end{tabular}", "\\end{table}"]
    return "\n".join([*lines, *(f"% {escape(s)}" for s in sources)]) + "\n"


def _row(cells: Sequence[str]) -> str:
    return " & ".join(escape(c) for c in cells) + " \\\\"


def _claim(judged: Judged, found: Number | Utility | None) -> tuple[str, str]:
    """The paper's number and where it stands."""
    if found is None or found.claim is None:
        return NONE, ""
    meaning, claim = found.meaning, found.claim
    return meaning.text(claim.value), f"{judged.setting.title}, {meaning.name}: {claim.source}"


def escape(text: str) -> str:
    """Text that LaTeX sets as it is; no command, no comment, no ligature of its own."""
    letters = map(_letter, one_line(text))
    return re.sub("-(?=-)", "-{}", "".join(letters))


def _letter(c: str) -> str:
    """ASCII stays, and the letters of Latin-1 and Latin Extended-A that T1 fonts have."""
    if c in SPELT:
        return SPELT[c]
    known = re.match(r"[\x20-\x7e\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u017e]", c)
    return c if known else f"(U+{ord(c):04X})"
