"""The table of every number, in words.

What many rows say alike (notes, what a paper claims) is said once, under a number; the whole
command stands in the setting's record. A page of three hundred settings has ten thousand rows.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from leakbench.base import canonical
from leakbench.reporting import ReportData, ShownSetting
from leakbench.results import Number
from reports._words import STAGES, attack, claim, flag_notes, span

NO_CLAIM = "its paper gives no number for this"


@dataclass(frozen=True)
class Numbers:
    """Every row; what the numbers in them stand for, in order; are there several tasks?"""

    rows: list[dict[str, Any]]
    notes: tuple[str, ...]
    several: bool


def numbers(data: ReportData) -> Numbers:
    """Every number in words, by setting.

    Attacks that ran with several parameters show those that differ.
    """
    seen: dict[tuple[str, str], set[str]] = defaultdict(set)
    every = [(s, n) for s in data.settings for n in s.numbers]
    for _, n in every:
        for name, value in n.attacker.params.items():
            seen[n.attacker.name, name].add(canonical(value))
    rows, said = [], dict[str, int]()
    for s, n in every:
        name = n.attacker.name
        given = {k: v for k, v in n.attacker.params.items() if len(seen[name, k]) > 1}
        told = ", ".join([*(f"{k} = {v}" for k, v in given.items()), *n.attacker.conditions])
        texts = [*flag_notes(n.flags), claim(n.meaning, n.claim) if n.claim else NO_CLAIM]
        notes = [said.setdefault(text, len(said) + 1) for text in texts]
        rows.append(_number_row(s, n) | {"given": told, "notes": ", ".join(map(str, notes))})
    return Numbers(rows, tuple(said), len({s.task for s in data.settings}) > 1)


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
        "by_attack": "" if n.attacker.made else n.attacker.name,
    }
