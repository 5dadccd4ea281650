"""What a check said as fields, for programs: `leakbench check --json`, docs/formats.md."""

from __future__ import annotations

from typing import Any

from leakbench.gate.outcome import CheckResult
from leakbench.reporting.check_data import Check, CheckLimit, CheckRow

SCHEMA = 1
OUTCOMES = {0: "passed", 1: "failed"}
SAME = (
    *("setting", "changes", "attack", "rung", "metric", "stage", "probe", "old", "new"),
    *("difference", "low", "high", "margin", "end", "look", "seeds", "more", "command"),
)
OF_A_LIMIT = ("limit", "setting", "value", "low", "high", "rows", "more", "command")


def fields(check: Check, result: CheckResult, code: int) -> dict[str, Any]:
    """JSON values alone.

    Args:
        check: in words.
        result: whose reasons are told whole.
        code: the command's exit code, which a warning does not raise.
    """
    reasons = {c.name: c.reason for c in result.rows}
    held = {(x.limit, x.setting, x.name): x.reason for x in result.limits}
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
        "rows": [_row(r, reasons.get(r.ref, r.why)) for r in check.rows],
        "limits": [_limit(x, held) for x in check.limits],
    }


def _row(row: CheckRow, reason: str) -> dict[str, Any]:
    known = {k: getattr(row, k) for k in SAME}
    listed = {"changes": list(row.changes), "more": list(row.more)}
    return {"name": row.ref, "state": row.verdict, "reason": reason, **known, **listed}


def _limit(limit: CheckLimit, reasons: dict[tuple[str, str, str], str]) -> dict[str, Any]:
    known = {k: getattr(limit, k) for k in OF_A_LIMIT}
    reason = reasons.get((limit.limit, limit.setting, limit.ref), limit.why)
    about = {"name": limit.ref, "state": limit.verdict, "reason": reason}
    return {**about, **known, "more": list(limit.more)}
