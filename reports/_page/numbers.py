"""The table of every number, in words.

What many rows say alike (notes, what a paper claims) is said once, under a number, the stages of
an attack stand in one row, and commands under "Run it again": three hundred settings have ten
thousand numbers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leakbench.base import canonical
from leakbench.reporting import ReportData, ShownSetting
from leakbench.results import END, Number
from reports._words import STAGES, attack, claim, flag_notes, span

NO_CLAIM = "its paper gives no number for this"


@dataclass(frozen=True)
class Numbers:
    """Every row; what the numbers in them stand for, in order; are there several tasks?"""

    rows: list[dict[str, Any]]
    notes: tuple[str, ...]
    several: bool


def numbers(data: ReportData) -> Numbers:
    """Every number in words, by setting; the stages of an attack and metric in one row.

    Attacks that ran with several parameters show those that differ.
    """
    seen: dict[tuple[str, str], set[str]] = defaultdict(set)
    every = [(s, n) for s in data.settings for n in s.numbers]
    for _, n in every:
        for name, value in n.attacker.params.items():
            seen[n.attacker.name, name].add(canonical(value))
    rows, said = [], dict[str, int]()
    for _, n in every:
        for text in _texts(n):
            said.setdefault(text, len(said) + 1)
    for s in data.settings:
        alike: dict[Any, list[Number]] = defaultdict(list)
        for n in s.numbers:
            alike[n.attacker.key, n.attacker.rung, n.meaning.name, n.probe, n.value.n].append(n)
        for found in alike.values():
            last = found[0].attacker
            given = {k: v for k, v in last.params.items() if len(seen[last.name, k]) > 1}
            told = ", ".join([*(f"{k} = {v}" for k, v in given.items()), *last.conditions])
            rows.append(_row(s, found, said) | {"given": told})
    return Numbers(rows, tuple(said), len({s.task for s in data.settings}) > 1)


def _row(
    setting: ShownSetting, stages: Sequence[Number], said: Mapping[str, int]
) -> dict[str, Any]:
    """One attack and metric: the number of the end, and small those of earlier stages."""
    last = next((n for n in stages if n.stage in END), stages[-1])
    earlier = [n for n in stages if n is not last]
    cells: dict[str, dict[str, str]] = {}
    for part in ("value", "floor", "control"):
        texts = [_text(n, part) for n in (last, *earlier)]
        estimate = getattr(last, part)
        cells[part] = {"text": last.meaning.text(estimate.value), "by": repr(estimate.value)}
        cells[part]["span"] = span(last.meaning, estimate)
        alike = not set(texts[1:]) - {texts[0]}
        cells[part]["small"] = "" if alike else _over(earlier, texts[1:])
    notes = [_noted(n, said) for n in (last, *earlier)]
    same = not set(notes[1:]) - {notes[0]}
    return {
        "setting": setting,
        "attack": attack(last.attacker.name),
        "rung": last.attacker.rung,
        "metric": last.meaning.heading,
        "when": _when(last) + ", probe" * last.probe,
        "cells": cells,
        "n": last.value.n,
        "unit": last.value.unit,
        "notes": notes[0] if same else f"{notes[0]}; {_over(earlier, notes[1:])}",
    }


def _texts(n: Number) -> list[str]:
    """What is to be said of a number."""
    return [*flag_notes(n.flags), claim(n.meaning, n.claim) if n.claim else NO_CLAIM]


def _noted(n: Number, said: Mapping[str, int]) -> str:
    return ", ".join(str(said[text]) for text in _texts(n))


def _text(n: Number, part: str) -> str:
    estimate = getattr(n, part)
    return f"{n.meaning.text(estimate.value)} ({span(n.meaning, estimate)})"


def _over(stages: Sequence[Number], texts: Sequence[str]) -> str:
    """As in "early 0.70 (0.35 to 0.93), half way 0.20 (0.03 to 0.56)"."""
    return ", ".join(f"{_when(n)} {text}" for n, text in zip(stages, texts, strict=True))


def _when(n: Number) -> str:
    return STAGES.get(n.stage, n.stage)
