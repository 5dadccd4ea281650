"""Train and attack what a recipe needs, one run in one process.

The work is that of `leakbench train` and `leakbench attack`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakbench.attacking import choices
from leakbench.base.errors import BrokenFile, LeakbenchError
from leakbench.base.files import read_sealed, write_sealed
from leakbench.base.jobs import Job, Progress
from leakbench.record import folders, twin
from leakbench.record.recording import Recording
from leakbench.record.runspec import RunSpec
from leakbench.record.training import Trained
from leakbench.reproduce.plan import Planned, Told, complete
from leakbench.work import pipeline

Attacks = tuple[tuple[str, dict[str, Any]], ...]


@dataclass(frozen=True)
class MadeRun:
    """Where a run lies, and what became of it."""

    path: str
    skipped: bool  # it was there already
    unfit: tuple[Told, ...]  # attacks that do not fit what it shared, and why
    failed: tuple[Told, ...]  # attacks that failed, and why


def jobs(planned: Sequence[Planned], out: str, device: str) -> list[Job]:
    """A job per run that is wanted and can be made; a run that two cases share is made once."""
    todo: dict[str, tuple[RunSpec, Attacks]] = {}
    for p in planned:
        for spec in p.specs if p.wanted and not p.lacking else ():
            before = todo.get(spec.folder(), (spec, ()))[1]
            more = [a for a in p.attacks if a not in before]
            todo[spec.folder()] = spec, (*before, *more)
    made = []
    for name, (spec, attacks) in todo.items():
        folder = str(Path(out) / name)
        made.append(Job(name, made_run, (spec, out, attacks, device), folder=folder))
    return made


def made_run(
    spec: RunSpec, out: str, attacks: Attacks, device: str, *, progress: Progress
) -> MadeRun:
    """One run from training to its last attack; an attack that fails does not stop the others.

    Raises:
        BrokenFile: an artifact is damaged.
        LeakbenchError: training failed; the run folder says why.
    """
    # Said here already: to train it would read its data, which may be gone.
    if complete(spec, Path(out)):
        trained = Trained(Path(out) / spec.folder(), skipped=True)
    else:
        trained = pipeline.train(spec, out, device, progress=progress)
        meta = read_sealed(trained.path / "run.json")
        write_sealed(trained.path / "run.json", {**meta, "twin": twin.twin_of(spec, device)})
    unfit, failed = attacked(trained.path, attacks, device, progress=progress)
    return MadeRun(str(trained.path), trained.skipped, unfit, failed)


def attacked(
    path: Path, attacks: Attacks, device: str, *, progress: Progress
) -> tuple[tuple[Told, ...], tuple[Told, ...]]:
    """Run ``attacks`` on the run at ``path``; which do not fit, which failed, each with why.

    Raises:
        BrokenFile: an artifact is damaged.
    """
    recording = Recording(folders.load(path))
    unfit, failed = [], []
    for name, params in attacks:
        choice = choices.build(name, params)
        why = choice.obstacle(recording)
        if why:
            unfit.append((name, f"{choice.title}: {why}"))
            continue
        try:
            pipeline.attack(str(path), name, choice.attack.parameters(), device, progress=progress)
        except BrokenFile:
            raise
        except LeakbenchError as error:
            failed.append((name, f"{choice.title}: {error}"))
    return tuple(unfit), tuple(failed)
