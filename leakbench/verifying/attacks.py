"""Every attack folder: its scores from guesses and truth, its results from the scores."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from leakbench.attacking.attack import Attack
from leakbench.attacking.choices import build
from leakbench.attacking.guessing import attack_described
from leakbench.base import provenance
from leakbench.base.errors import LeakbenchError, UnknownName
from leakbench.base.spec import canonical, command_words
from leakbench.record import attack_code, columns
from leakbench.record.folders import AttackFolder, Run, typed_rows
from leakbench.record.recording import Recording
from leakbench.results import units
from leakbench.results.recomputed import short_value
from leakbench.scoring.score import numbers
from leakbench.verifying import same
from leakbench.verifying.finding import (
    CHECKOUT,
    MACHINE,
    Finding,
    differs,
    holds,
    unchecked,
    untold,
)

SCORES = "unit scores from guesses and truth"
DERIVED = (
    *("schema", "attack", "params", "threat", "reads", "conditions", "order", "paper", "command"),
    *("pools", "dtype"),
)
# Checked in other places: as one reads the file, as its files are, and with the scores.
ELSEWHERE = ("digest", "status", "files", "of", "metrics", "missing", "versions", "sources")
UNKNOWN = {
    **dict.fromkeys(("device", "machine", "seconds", "isolated"), MACHINE),
    **dict.fromkeys(("commit", "dirty"), CHECKOUT),
    "submitted": "who made the guesses, no file tells",
    "no_control": "who made the guesses, no file tells",
}


def of_attacks(run: Run) -> Iterator[Finding]:
    """Findings of every attack on ``run``."""
    for folder in run.attacks:
        part = f"attacks/{folder.path.name}"
        if not folder.done:
            yield unchecked(part, "its numbers", f"its status is {folder.status}")
            continue
        try:
            folder.check()
            yield holds(part, "SHA-256 of every file")
            found = units.measured_of_folder(run, folder)
            yield holds(part, "results from unit scores", f"{len(found)} numbers")
        except LeakbenchError as error:
            yield differs(part, "files and results", str(error))
            continue
        try:
            attack = build(folder.name, dict(folder.meta["params"])).attack
        except UnknownName:
            why = f"the attack {folder.name} is not installed here, and its metrics come with it"
            yield unchecked(part, f"{SCORES}; {', '.join(DERIVED)}", why)
        else:
            yield from _described(run, folder, attack, part)
            yield _scored(run, folder, attack, part)
        yield from untold(part, UNKNOWN, folder.meta)


def _described(run: Run, folder: AttackFolder, attack: Attack, part: str) -> Iterator[Finding]:
    """What attack.json says of the attack, said again by the one that is installed.

    Where that is of other code, or the guesses were submitted, it need not be the same.
    """
    meta, recording = folder.meta, Recording(run)
    made = json.loads(canonical(attack_described(recording, folder.name, attack, 0.0)))
    strange = sorted(meta.keys() - {*DERIVED, *ELSEWHERE, *UNKNOWN})
    if strange:
        yield differs(part, ", ".join(strange), "leakbench writes no such key")
    other = attack_code.stale(meta["sources"], folder.name, run.meta)
    told = unchecked if other or meta.get("submitted") else differs
    wrong = [k for k in DERIVED if _plain(k, meta.get(k)) != _plain(k, made[k])]
    for key in wrong:
        why = f"it is {short_value(meta.get(key))}, derived is {short_value(made[key])}"
        yield told(part, key, f"{why}; other code made it" if other else why)
    right = [k for k in DERIVED if k not in wrong]
    yield holds(part, f"{len(right)} keys, as the installed attack says them", ", ".join(right))
    here, there = provenance.versions(), meta.get("versions")
    same_ones = holds(part, "versions", "those that are installed")
    yield same_ones if here == there else unchecked(part, "versions", "other ones are installed")
    if other:
        yield unchecked(part, "sources", "other code than is installed: leakbench attack")
    else:
        yield holds(part, "sources", "the code that is installed, and files as it opened them")


def _plain(key: str, value: Any) -> Any:
    """A value as it is compared: of a command without the folder, which may have been moved."""
    if key != "command":
        return value
    words = command_words(value)
    return words[:2] + words[3:]


def _scored(run: Run, folder: AttackFolder, attack: Attack, part: str) -> Finding:
    """Guesses and truth scored again, and compared with what lies there."""
    what = SCORES
    if "export" in run.meta:
        return unchecked(part, what, "an export holds no truth")
    then = {name: m.get("version") for name, m in folder.meta["metrics"].items()}
    now = {m.name: m.meaning.version for m in attack.metrics if m.name in then}
    if then != now:
        return unchecked(part, what, f"metrics were of versions {then}, here they are {now}")
    try:
        recording = Recording(run)
        made = numbers(recording, folder.name, attack, folder.meta)
    except LeakbenchError as error:
        return differs(part, what, str(error))
    for name, rows, names in (
        ("units.csv", made.units, columns.UNITS),
        ("results.csv", made.rows, columns.RESULTS),
    ):
        why = same.differing_tables(folder.table(name, names), typed_rows(rows, names))
        if why:
            return differs(part, what, f"{name}: {why}")
    told = (
        unchecked if attack_code.stale(folder.meta["sources"], folder.name, run.meta) else differs
    )
    for key, value in json.loads(canonical(made.described(attack, recording.facts))).items():
        if folder.meta[key] != value:
            return told(
                part, key, f"it is {short_value(folder.meta[key])}, derived {short_value(value)}"
            )
    return holds(part, what, f"{len(made.units)} scores")
