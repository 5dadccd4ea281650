"""The table of every number, in words."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from leakbench.base import canonical
from leakbench.reporting import ReportData, ShownSetting
from leakbench.results import Number
from reports._words import STAGES, attack, claim, command, notes, span


def number_rows(data: ReportData) -> list[dict[str, Any]]:
    """Every number in words, by setting.

    Attacks that ran with several parameters show those that differ.
    """
    seen: dict[tuple[str, str], set[str]] = defaultdict(set)
    numbers = [(s, n) for s in data.settings for n in s.numbers]
    for _, n in numbers:
        for name, value in n.attacker.params.items():
            seen[n.attacker.name, name].add(canonical(value))
    rows = []
    for s, n in numbers:
        name = n.attacker.name
        given = {k: v for k, v in n.attacker.params.items() if len(seen[name, k]) > 1}
        told = ", ".join([*(f"{k} = {v}" for k, v in given.items()), *n.attacker.conditions])
        rows.append(_number_row(s, n) | {"given": told})
    return rows


def _number_row(setting: ShownSetting, n: Number) -> dict[str, Any]:
    meaning = n.meaning
    parts = {"value": n.value, "floor": n.floor, "control": n.control}
    return {
        "setting": setting,
        "attack": attack(n.attacker.name),
        "rung": n.attacker.rung,
        "metric": meaning.heading,
        "when": STAGES.get(n.stage, n.stage) + ", probe" * n.probe,
        **{k: meaning.text(e.value) for k, e in parts.items()},
        **{f"{k}_span": span(meaning, e) for k, e in parts.items()},
        # What the column is sorted by.
        "by": {k: repr(e.value) for k, e in parts.items()},
        "n": n.value.n,
        "unit": n.value.unit,
        "notes": notes(n.flags),
        "claim": claim(meaning, n.claim) if n.claim else "its paper gives no number for this",
        "command": command(n),
    }
