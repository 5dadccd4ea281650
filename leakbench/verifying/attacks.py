"""Every attack folder: its scores from guesses and truth, its results from the scores."""

from __future__ import annotations

from collections.abc import Iterator

from leakbench.attacking.choices import build
from leakbench.base.errors import LeakbenchError, UnknownName
from leakbench.record import columns
from leakbench.record.folders import AttackFolder, Run, typed_rows
from leakbench.record.recording import Recording
from leakbench.results import units
from leakbench.scoring.score import numbers
from leakbench.verifying import same
from leakbench.verifying.finding import Finding, differs, holds, unchecked


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
            found = units.of_folder(run, folder)
            yield holds(part, "results from unit scores", f"{len(found)} numbers")
        except LeakbenchError as error:
            yield differs(part, "files and results", str(error))
            continue
        yield _scored(run, folder, part)


def _scored(run: Run, folder: AttackFolder, part: str) -> Finding:
    """Guesses and truth scored again, and compared with what lies there."""
    what = "unit scores from guesses and truth"
    if "export" in run.meta:
        return unchecked(part, what, "an export holds no truth")
    try:
        attack = build(folder.name, dict(folder.meta["params"])).attack
    except UnknownName:
        why = f"the attack {folder.name} is not installed here, and its metrics come with it"
        return unchecked(part, what, why)
    then = {name: m.get("version") for name, m in folder.meta["metrics"].items()}
    now = {m.name: m.meaning.version for m in attack.metrics if m.name in then}
    if then != now:
        return unchecked(part, what, f"metrics were of versions {then}, here they are {now}")
    try:
        made = numbers(Recording(run), folder.name, attack, folder.meta)
    except LeakbenchError as error:
        return differs(part, what, str(error))
    for name, rows, names in (
        ("units.csv", made.units, columns.UNITS),
        ("results.csv", made.rows, columns.RESULTS),
    ):
        why = same.tables(folder.table(name, names), typed_rows(rows, names))
        if why:
            return differs(part, what, f"{name}: {why}")
    return holds(part, what, f"{len(made.units)} scores")
