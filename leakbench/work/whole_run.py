"""A run from training to its last attack in one process, as the papers' tables are made."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakbench.attacking import choices
from leakbench.base.errors import BrokenFile, LeakbenchError
from leakbench.base.files import read_sealed, write_sealed
from leakbench.base.jobs import Progress
from leakbench.record import folders, twin
from leakbench.record.recording import Recording
from leakbench.record.runspec import RunSpec
from leakbench.work import pipeline
from leakbench.work.wanted_run import complete

Attacks = Iterable[tuple[str, dict[str, Any]]]
Told = tuple[str, str]  # an attack ("": none) that gave a run no number, and what is said of it


@dataclass(frozen=True)
class WholeRun:
    """Where a run lies, and what became of it."""

    path: str
    skipped: bool  # it was there already
    unfit: tuple[Told, ...]  # attacks that do not fit what it shared, and why
    failed: tuple[Told, ...]  # attacks that failed, and why
    seconds: float  # all of it took, most of them trained in; 0 where it was there already


def whole_run(
    spec: RunSpec, out: str, device: str, attacks: Attacks, *, progress: Progress
) -> WholeRun:
    """One run from training to its last attack; an attack that fails does not stop the others.

    Raises:
        BrokenFile: an artifact is damaged.
        LeakbenchError: training failed; the run folder says why.
    """
    path, skipped = Path(out) / spec.folder(), complete(spec, Path(out))
    begun = time.monotonic()
    if not skipped:  # to train would find it, too, but read its data, which may be gone
        skipped = pipeline.train(spec, out, device, progress=progress).skipped
        meta = read_sealed(path / "run.json")
        write_sealed(path / "run.json", {**meta, "twin": twin.twin_of(spec, device)})
    unfit, failed = attacked(path, attacks, device, progress=progress)
    seconds = 0.0 if skipped else time.monotonic() - begun
    return WholeRun(str(path), skipped, unfit, failed, seconds)


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
