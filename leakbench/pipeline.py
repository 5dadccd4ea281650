"""The units of work that the commands share: train a spec, attack a run, score it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from leakbench.attacking import guessing
from leakbench.attacking.choices import build
from leakbench.base import provenance
from leakbench.base.errors import BrokenFile, LeakbenchError, MethodError, UsageError
from leakbench.base.files import read_sealed
from leakbench.base.jobs import Progress
from leakbench.record import folders
from leakbench.record.recording import Recording
from leakbench.record.runspec import RunSpec
from leakbench.record.training import Trained
from leakbench.record.training import train as _train
from leakbench.scoring import score as scoring

LONGEST = 600.0  # seconds; an attack predicted to take longer runs only when it is named
# What an attack (or a metric) of somebody else's may raise by its own fault: said of this one, the
# others go on.
FAULTS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    MemoryError,
    NameError,
    OSError,
    RuntimeError,
    StopIteration,
    TypeError,
    ValueError,
)


def train(spec: RunSpec, out: str, device: str, *, progress: Progress) -> Trained:
    """Train one spec into the folder ``out``."""

    def say(text: str) -> None:
        sys.stderr.write(f"{spec.folder()}: {text}\n")

    return _train(spec, Path(out), device=device, progress=progress, say=say)


def attack(run: str, name: str, params: dict[str, Any], device: str, *, progress: Progress) -> str:
    """Run and score one attack on one run folder; returns the attack's folder.

    Of a run that was exported the guess is all there is.

    Raises:
        LeakbenchError: it does not fit or failed; the run folder then says why.
    """
    chosen = build(name, params)
    recording = Recording(folders.load(run), provenance.device(device))
    if guessing.complete(recording, name, chosen.attack):
        folder = guessing.folder_of(recording, name, chosen.attack)
        folders.AttackFolder(folder, read_sealed(folder / "attack.json")).check()
        return str(folder)
    why = chosen.attack.obstacle(recording)
    if why:
        raise UsageError(f"{name} does not fit {recording.run.id}: {why}.")
    made: Path | None = None
    try:
        made = guessing.guess(recording, name, chosen.attack, progress=progress)
        if recording.exported:
            return str(made)
        return str(scoring.score(recording, name, chosen.attack))
    except BrokenFile:  # the recording's fault, not the attack's: nothing is written
        raise
    except LeakbenchError as error:
        guessing.failed(recording, name, chosen.attack, str(error), scoring=made is not None)
        raise
    except FAULTS as error:
        why = f"{type(error).__name__}: {error}"
        guessing.failed(recording, name, chosen.attack, why, scoring=made is not None)
        raise MethodError(
            f"{name} on {recording.run.id} failed: {type(error).__name__}: {error}."
        ) from error


def score(run: str, name: str, params: dict[str, Any], *, progress: Progress) -> str:
    """Score saved guesses again; never reruns an attack."""
    progress(0, 1, f"scoring {name}")
    recording = Recording(folders.load(run))
    try:
        return str(scoring.score(recording, name, build(name, params).attack))
    except FAULTS as error:
        raise MethodError(
            f"{name} on {recording.run.id} cannot be scored: {type(error).__name__}: {error}."
        ) from error
