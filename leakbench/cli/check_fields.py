"""What a check said as fields, for programs: `leakbench check --json`, docs/formats.md."""

from __future__ import annotations

from typing import Any

from leakbench.reporting.check_data import Check, CheckLimit, CheckRow
from leakbench.words.outcomes import whole_reason

SCHEMA = 1
OUTCOMES = {0: "passed", 1: "failed"}
OF_A_ROW = {
    *("setting", "changes", "attack", "rung", "metric", "stage", "probe", "old", "new"),
    *("difference", "low", "high", "margin", "end", "look", "seeds", "more", "command"),
}
OF_A_LIMIT = {"limit", "setting", "value", "low", "high", "rows", "more", "command"}


def check_fields(check: Check, code: int) -> dict[str, Any]:
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
        "rows": [_fields(r, OF_A_ROW) for r in check.rows],
        "limits": [_fields(x, OF_A_LIMIT) for x in check.limits],
    }


def _fields(one: CheckRow | CheckLimit, same: set[str]) -> dict[str, Any]:
    about = {"name": one.ref, "state": one.verdict, "reason": whole_reason(one.reasons)}
    return {**about, **one.model_dump(mode="json", include=same)}
