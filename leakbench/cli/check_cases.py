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
LEVELS: dict[Came, str] = {"failed": "error", "undecided": "error", "warned": "warning"}


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
    cases = []
    # By their folders: what became of a run may change.
    for name, text in zip(check.undone, check.unfinished, strict=True):
        cases.append(_case(name, "runs", CheckLine("unfinished", text), undecided))
    for limit in check.limits:
        name = f"{limit.limit} on {limit.setting}"
        cases.append(_case(name, limit.setting, limit_line(limit), undecided))
    cases += [_case(r.ref, r.setting, row_line(r), undecided) for r in check.rows]
    return cases + _unexplained(check, cases, undecided)


def came_of(line: CheckLine, undecided: Undecided) -> Came:
    """What a line comes to; a new row that is let pass is a warning."""
    if line.verdict in FAILING:
        return "failed"
    if line.verdict in ("fine", "kept"):
        return "passed"
    return "warned" if undecided == "warn" or line.kind == ALLOWED else "undecided"


def _case(name: str, group: str, line: CheckLine, undecided: Undecided) -> CheckCase:
    came, advice = came_of(line, undecided), ": ".join(how_to_settle(line))
    return CheckCase(name, group, line.verdict, came, line.text, advice)


def _unexplained(check: Check, cases: Sequence[CheckCase], undecided: Undecided) -> list[CheckCase]:
    """The check itself, where no row says why it did not pass: an empty baseline, as one."""
    doubt: Came = "undecided" if undecided == "fail" else "warned"
    known: dict[int, Came] = {1: "failed", CANNOT_TELL: doubt}
    came = known.get(check.exit, "undecided")
    if check.exit == 0 or any(c.came in ("failed", came) for c in cases):
        return []
    verdict = "leaks more" if check.exit == 1 else "cannot tell"
    return [CheckCase("leakbench check", "check", verdict, came, check.heading)]
