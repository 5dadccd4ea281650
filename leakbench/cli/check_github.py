"""What a check tells GitHub Actions: annotations, and the summary of the job.

A workflow reads commands in what a step prints (`::error ...::`, `##[error]...`), and names come
from run folders of strangers: what is not our own command is printed so that it is none.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from leakbench.base.printable_text import one_line
from leakbench.cli.check_cases import LEVELS, Undecided, came_of
from leakbench.reporting.check_data import Check
from leakbench.reporting.check_lines import ALLOWED, how_to_settle, not_fine

MOST = 10  # annotations of a level that GitHub shows of one step
_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = {**_DATA, ":": "%3A", ",": "%2C"}


def here() -> bool:
    """Does the command run in a workflow?"""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def summary_file() -> Path | None:
    """Where the job's summary is collected."""
    path = os.environ.get("GITHUB_STEP_SUMMARY", "")
    return Path(path) if path else None


def harmless(text: str) -> str:
    """A line in which no workflow command begins."""
    return text.replace("##[", "# #[").replace("::", ": :", text.lstrip().startswith("::"))


def harmless_json(text: str) -> str:
    """The same of JSON, which reads as before."""
    return text.replace("##[", "#\\u0023[")


def github_commands(check: Check, undecided: Undecided = "fail") -> list[str]:
    """A workflow command for each thing that is not fine, the most urgent first."""
    levels = []
    for line in not_fine(check):
        known = LEVELS[came_of(line, undecided)]
        levels.append(("notice" if line.kind == ALLOWED else known, line))
    left = Counter(level for level, _ in levels)
    shown, out = Counter[str](), list[str]()
    if check.softer:
        out.append(_command("warning", "held to less", check.softer, check.baseline))
    for level, line in levels:
        if shown[level] == MOST:
            continue
        shown[level] += 1
        left[level] -= 1
        cut = shown[level] == MOST and left[level] > 0
        told = line.text, ": ".join(how_to_settle(line))
        if cut:
            told = f"and {left[level] + 1} more: see the summary", ""
        out.append(_command(level, line.verdict, told, check.baseline))
    return out


def _command(level: str, verdict: str, told: Sequence[str], baseline: str) -> str:
    path = Path(baseline)
    known = f",file={_escaped(path.as_posix(), _PROPERTY)}" * bool(baseline)
    title = _escaped(f"leakbench: {verdict}", _PROPERTY)
    text = _escaped("\n".join(one_line(t) for t in told if t), _DATA)
    return f"::{level} title={title}{known * (not path.is_absolute())}::{text}"


def _escaped(text: str, table: Mapping[str, str]) -> str:
    return "".join(table.get(c, c) for c in text)
