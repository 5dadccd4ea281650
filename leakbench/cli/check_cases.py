"""What a check said as a list of cases, for those who count them: JUnit and SARIF."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from leakbench.gate.outcome import CANNOT_TELL
from leakbench.reporting.check_data import Check
from leakbench.reporting.check_lines import (
    ALLOWED,
    FAILING,
    CheckLine,
    how_to_settle,
    limit_line,
    row_line,
)

Undecided = Literal["fail", "warn"]
Came = Literal["failed", "undecided", "warned", "passed"]


@dataclass(frozen=True)
class CheckCase:
    """One row, one limit on one setting, or one run that has no rows.

    ``name``: what it is called in every check; ``group``: its setting; ``came``: "undecided" where
    nobody knows, which must not look like "passed", and "warned" where that is allowed; ``text``:
    one sentence; ``advice``: what settles it, with the command.
    """

    name: str
    group: str
    verdict: str
    came: Came
    text: str
    advice: str = ""


def cases_of(check: Check, undecided: Undecided = "fail") -> list[CheckCase]:
    """Every case; where the check did not pass, at least one of them did not."""
    doubt: Came = "undecided" if undecided == "fail" else "warned"
    cases = []
    for text in check.unfinished:
        # The path before the colon; what became of the run may change.
        name = text.partition(": ")[0]
        line = CheckLine("unfinished", text)
        cases.append(CheckCase(name, "runs", "unfinished", doubt, line.text))
    for limit in check.limits:
        name = f"{limit.limit} on {limit.setting}"
        cases.append(_case(name, limit.setting, limit_line(limit), doubt))
    for row in check.rows:
        came: Came = "warned" if row.kind == ALLOWED else doubt
        cases.append(_case(row.ref, row.setting, row_line(row), came))
    return cases + _unexplained(check, cases, doubt)


def _case(name: str, group: str, line: CheckLine, doubt: Came) -> CheckCase:
    came = doubt if line.verdict in ("cannot tell", "new") else "passed"
    if line.verdict in FAILING:
        came = "failed"
    return CheckCase(name, group, line.verdict, came, line.text, ": ".join(how_to_settle(line)))


def _unexplained(check: Check, cases: Sequence[CheckCase], doubt: Came) -> list[CheckCase]:
    """The check itself, where no row says why it did not pass: an empty baseline, as one."""
    known: dict[int, Came] = {1: "failed", CANNOT_TELL: doubt}
    came = known.get(check.exit, "undecided")
    if check.exit == 0 or any(c.came in ("failed", came) for c in cases):
        return []
    verdict = "leaks more" if check.exit == 1 else "cannot tell"
    return [CheckCase("leakbench check", "check", verdict, came, check.heading)]
