"""Tables for a paper: per question the utility, what each attacker reaches with intervals, the
paper's own number beside ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from leakbench.base import one_line, write_bytes
from leakbench.judging import METHODS, Judged, Question, all_judged, plain, words
from leakbench.reporting import Report, ReportData
from leakbench.results import Row, setting_key
from reports._row_text import Summary, summary

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
    claimed = _claims(data)
    parts = [HEAD.format(version=escape(data.version), made=escape(data.made))]
    for question in all_judged(data)[1]:
        parts += _tables(question, claimed)
    if len(parts) == 1:
        parts.append("% No attack has been run: there is no table.\n")
    return "\n".join(parts)


def _claims(data: ReportData) -> dict[tuple[str, str], Row]:
    """(setting, metric) -> the row with the paper's number, the utility's or that of the paper's
    own attack.
    """
    rows = [r for r in data.utility if r["statistic"] == "final"]
    rows += [r for r in data.tradeoff if r["rung"] == "paper" or r["attack"] == "any_attack"]
    out: dict[tuple[str, str], Row] = {}
    for row in rows:
        if row.get("claimed") not in ("", None):
            out.setdefault((setting_key(row), row["metric"]), row)
    return out


def _tables(question: Question, claimed: dict[tuple[str, str], Row]) -> Iterator[str]:
    judged = question.judged
    for start in range(0, len(judged), ROWS):
        yield _table(question, judged[start : start + ROWS], claimed, again=start > 0)


def _table(
    question: Question,
    judged: Sequence[Judged],
    claimed: dict[tuple[str, str], Row],
    *,
    again: bool,
) -> str:
    lines = [
        "\\begin{table}",
        f"\\caption{{{_caption(question)}{' (continued)' if again else ''}}}",
        "\\centering\\footnotesize",
        "\\begin{tabular}{lccccccl}",
        "\\toprule",
        " & ".join(escape(c) for c in COLUMNS) + " \\\\",
        "\\midrule",
    ]
    sources: dict[str, None] = {}
    family = ""
    for j in judged:
        if family not in ("", j.setting.family):
            lines.append("\\addlinespace")
        family = j.setting.family
        claims = [
            _claim(claimed.get((j.setting.key, m)), m)
            for m in (j.setting.utility.metric if j.setting.utility else "", question.metric)
        ]
        sources |= dict.fromkeys(s for _, s in claims if s)
        lines.append(" & ".join(_cells(summary(j), claims[0][0], claims[1][0])) + " \\\\")
    lines += ["\\bottomrule", "\\end{tabular}", "\\end{table}"]
    return "\n".join([*lines, *(f"% {escape(s)}" for s in sources)]) + "\n"


def _cells(row: Summary, utility: str, leakage: str) -> list[str]:
    cells = (row.name, row.utility, utility, row.paper, leakage, row.real, row.worst, row.verdict)
    return [escape(c) for c in cells]


def _claim(row: Row | None, metric: str) -> tuple[str, str]:
    """The paper's number and where it stands."""
    if row is None:
        return NONE, ""
    who = METHODS.get(row["defense"], row["defense"])
    return plain(metric, float(row["claimed"])), f"{who}, {metric}: {row['claimed_source']}"


def _caption(question: Question) -> str:
    unit = words(question.metric)
    told = f"{question.task}, {question.label}: {unit.meaning} In brackets: 95 % intervals."
    return escape(told)


def escape(text: str) -> str:
    """Text that LaTeX sets as it is; no command, no comment, no ligature of its own."""
    told = "".join(
        SPELT.get(c) or (c if _known(c) else f"(U+{ord(c):04X})") for c in one_line(text)
    )
    return re.sub("-(?=-)", "-{}", told)


def _known(c: str) -> bool:
    """ASCII, and the letters of Latin-1 and Latin Extended-A that T1 fonts have."""
    return bool(re.match(r"[\x20-\x7e\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u017e]", c))
