"""What a check said as fields, for programs: `leakbench check --json`, docs/formats.md."""

from __future__ import annotations

from typing import Any

from leakbench.gate.outcome_words import whole_reason
from leakbench.reporting.check_data import Check, CheckLimit, CheckRow

SCHEMA = 1
OUTCOMES = {0: "passed", 1: "failed"}
SAME = (
    *("setting", "changes", "attack", "rung", "metric", "stage", "probe", "old", "new"),
    *("difference", "low", "high", "margin", "end", "look", "seeds", "more", "command"),
)
OF_A_LIMIT = ("limit", "setting", "value", "low", "high", "rows", "more", "command")


def fields(check: Check, code: int) -> dict[str, Any]:
    """JSON values alone.

    Args:
        check: whose reasons are told whole.
        code: the command's exit code, which a warning does not raise.
    """
    return {
        "schema": SCHEMA,
        "exit": code,
        "outcome": OUTCOMES.get(check.exit, "undecided"),
        "heading": check.heading,
        "lines": list(check.lines),
        "against": check.against,
        "notes": list(check.notes),
        "softer": list(check.softer),
        "unfinished": list(check.unfinished),
        "rows": [_row(r) for r in check.rows],
        "limits": [_limit(x) for x in check.limits],
    }


def _row(row: CheckRow) -> dict[str, Any]:
    known = {k: getattr(row, k) for k in SAME}
    listed = {"changes": list(row.changes), "more": list(row.more)}
    about = {"name": row.ref, "state": row.verdict, "reason": whole_reason(row.reasons)}
    return {**about, **known, **listed}


def _limit(limit: CheckLimit) -> dict[str, Any]:
    known = {k: getattr(limit, k) for k in OF_A_LIMIT}
    about = {"name": limit.ref, "state": limit.verdict, "reason": whole_reason(limit.reasons)}
    return {**about, **known, "more": list(limit.more)}
