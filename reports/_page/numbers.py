"""The table of every number, in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from leakbench.base import canonical
from leakbench.judging import MADE, Setting, plain, words
from leakbench.reporting import ReportData
from leakbench.results import Row, params, row_key, setting_key
from reports._words import STAGES, attack, notes


def number_rows(data: ReportData, settings: Sequence[Setting]) -> list[dict[str, Any]]:
    """Every row of tradeoff.csv in words, by setting; attacks that ran with several parameters show
    those that differ.
    """
    by_key = {s.key: s for s in settings}
    seen: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in data.tradeoff:
        for name, value in params(row["attack_params"]).items():
            seen[row["attack"], name].add(canonical(value))
    rows = []
    for row in data.tradeoff:
        given = {
            k: v for k, v in params(row["attack_params"]).items() if len(seen[row["attack"], k]) > 1
        }
        told = ", ".join(f"{k} = {v}" for k, v in given.items())
        rows.append(_number_row(row, by_key[setting_key(row)], data.commands) | {"given": told})
    return sorted(rows, key=lambda r: int(r["setting"].index))


def _number_row(row: Row, setting: Setting, commands: Mapping[str, str]) -> dict[str, Any]:
    metric = row["metric"]
    command = commands.get(row_key(row))
    if command is None:
        command = (
            "made from the attacks' units: leakbench report"
            if row["attack"] in MADE
            else "command not recorded"
        )
    return {
        "setting": setting,
        "attack": attack(row),
        "rung": row["rung"],
        "metric": words(metric).title,
        "when": str(STAGES.get(row["stage"], row["stage"])) + (", probe" if row["probe"] else ""),
        "value": plain(metric, float(row["value"])),
        "span": _span(metric, row["low"], row["high"]),
        "floor": plain(metric, float(row["floor"])),
        "floor_span": _span(metric, row["floor_low"], row["floor_high"]),
        "control": plain(metric, float(row["control"])),
        "control_span": _span(metric, row["control_low"], row["control_high"]),
        "n": row["n"],
        "unit": row["unit"],
        "notes": notes(str(row["flags"])),
        "claim": claim_text(metric, row),
        "command": command,
        # What the column is sorted by.
        "by": {k: repr(float(row[k])) for k in ("value", "floor", "control")},
    }


def _span(metric: str, low: Any, high: Any) -> str:
    """An interval; one without width was not sampled."""
    if float(low) == float(high):
        return "exact"
    return (
        f"{plain(metric, float(low)).removesuffix(words(metric).suffix)} to"
        f" {plain(metric, float(high))}"
    )


def claim_text(metric: str, row: Row) -> str:
    """The paper's number with its source."""
    if row.get("claimed") in ("", None):
        return "its paper gives no number for this"
    return f"{plain(metric, float(row['claimed']))} ({row['claimed_source']})"
