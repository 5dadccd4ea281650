"""The units of work that the commands share: train a spec, attack a run, score it."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

from leakbench.attacking import guessing, submission
from leakbench.attacking import isolated as apart
from leakbench.attacking.attack import Attack
from leakbench.attacking.attack_state import standing
from leakbench.attacking.choices import build
from leakbench.attacking.guess import Guess
from leakbench.attacking.view import View
from leakbench.base import locks, provenance, terminal
from leakbench.base.errors import BrokenFile, LeakbenchError, MethodError, UsageError
from leakbench.base.files import read_sealed
from leakbench.base.interrupts import heed
from leakbench.base.jobs import Progress
from leakbench.base.raised import raised_text
from leakbench.base.thread_count import threads
from leakbench.federation.choosing import shared_by
from leakbench.record import folders
from leakbench.record.placing import NAME, fail, put
from leakbench.record.recording import Recording
from leakbench.record.runspec import RunSpec
from leakbench.record.training import Trained
from leakbench.record.training import train_run as _train
from leakbench.scoring import score as scoring


def train(
    spec: RunSpec,
    out: str,
    device: str,
    *,
    restart: bool = False,
    mixed: bool = False,
    progress: Progress,
) -> Trained:
    """Train one spec into the folder ``out``; what is worth knowing goes to stderr."""

    def say(text: str) -> None:
        terminal.say(f"{spec.folder()}: {text}")

    how: dict[str, Any] = {"restart": restart, "mixed": mixed, "progress": progress, "say": say}
    return _train(spec, Path(out), device=device, **how)


def attack(
    run: str,
    name: str,
    params: dict[str, Any],
    device: str,
    force: bool = False,
    isolated: bool = False,
    *,
    progress: Progress,
) -> str:
    """Run and score one attack on one run folder; returns the attack's folder.

    What is there already is not made again, unless ``force``; guesses that were not scored, or by
    other code, are scored. Of a run that was exported the guess is all there is. ``isolated``: each
    guess is made in a process of its own, which has what the threat model grants.

    Raises:
        LeakbenchError: it does not fit or failed; the run folder then says why.
        UsageError: somebody else makes the same attack on this run, or trains the run.
    """
    recording = Recording(folders.load(run), provenance.device(device))
    choice = build(name, params).suited(recording)
    name, chosen = choice.name, choice.attack
    folder = guessing.folder_of(recording, name, chosen)
    if why := choice.refusal(recording):
        raise UsageError(f"{name} does not fit {recording.run.id}: {why}.")
    with locks.attacking(recording.run.path, folder.name), threads(_shared(recording)):
        elsewhere = _isolated(recording) if isolated else None
        return str(_attacked(recording, name, chosen, elsewhere, force=force, progress=progress))


def _shared(recording: Recording) -> int:
    """How many threads share a sum of an attack on it: its size is that of what it reads."""
    sent = [s["bytes"] // max(s["messages"], 1) for s in recording.sent]
    examples = recording.method.batch * math.prod(recording.facts.shape)
    return shared_by(examples, max(sent, default=0) // recording.dtype.itemsize)


def _isolated(recording: Recording) -> guessing.Elsewhere:
    def called(name: str, chosen: Attack, view: View, blind: bool) -> list[Guess]:
        return apart.guesses(name, chosen, view, recording.spec, blind=blind)

    return called


def _attacked(
    recording: Recording,
    name: str,
    chosen: Attack,
    elsewhere: guessing.Elsewhere | None,
    *,
    force: bool,
    progress: Progress,
) -> Path:
    """The attack's folder, made by whoever holds its lock: perhaps somebody just did."""
    folder, made = guessing.folder_of(recording, name, chosen), None
    if not force:
        there = standing(recording, name, chosen, isolated=elsewhere is not None)
        if there.complete:
            folders.AttackFolder(folder, read_sealed(folder / NAME)).check()
            return folder
        made = there.guesses
    try:
        made = made or guessing.guessed(
            recording, name, chosen, elsewhere=elsewhere, progress=progress
        )
        if not recording.exported:
            scoring.score(recording, name, chosen, folder=made)
        return made if made == folder else put(made, folder)
    except BrokenFile:  # the recording's fault, not the attack's: nothing is written
        raise
    except LeakbenchError as error:
        _failed(recording, name, chosen, str(error), made)
        raise
    except (Exception, SystemExit) as error:  # somebody's code may raise anything, or leave
        heed()
        why = raised_text(error)
        _failed(recording, name, chosen, why, made)
        raise MethodError(f"{name} on {recording.run.id} failed: {why}.") from error


def _failed(recording: Recording, name: str, chosen: Attack, why: str, made: Path | None) -> None:
    """Say so in the run folder; guesses that could not be scored are kept."""
    if made is None:
        guessing.failed(recording, name, chosen, why)
        return
    folder = guessing.folder_of(recording, name, chosen)
    fail(made, why)
    if made != folder:
        put(made, folder)


def submit(run: str, guesses: str, *, force: bool = False) -> str:
    """Score guesses that somebody else made on an export of ``run``; returns the attack's folder.

    Raises:
        UsageError: they are not, or not as ``leakbench attack`` writes them; or results of our own
            lie there, and not ``force``.
        BrokenFile: a file of theirs, or of the run, is damaged.
    """
    recording = Recording(folders.load(run))
    name, chosen, _ = submission.submitted_attack(recording, Path(guesses))
    folder = guessing.folder_of(recording, name, chosen)
    with locks.attacking(recording.run.path, folder.name), threads(_shared(recording)):
        there = read_sealed(folder / NAME) if (folder / NAME).exists() else {"submitted": True}
        if not there.get("submitted") and not force:
            raise UsageError(
                f"{folder} holds results of this attack with these parameters that were made here;"
                " with --force the submission takes their place."
            )
        fresh = submission.taken_submission(recording, Path(guesses))
        try:
            return str(put(scoring.score(recording, name, chosen, folder=fresh), folder))
        except LeakbenchError:
            raise
        except Exception as error:
            raise UsageError(f"{guesses} cannot be scored: {raised_text(error)}.") from error
        finally:
            shutil.rmtree(fresh, ignore_errors=True)


def score_guesses(run: str, name: str, params: dict[str, Any], *, progress: Progress) -> str:
    """Score saved guesses again; never reruns an attack."""
    progress(0, 1, f"scoring {name}")
    recording = Recording(folders.load(run))
    choice = build(name, params).suited(recording)
    name, chosen = choice.name, choice.attack
    try:
        place = guessing.folder_of(recording, name, chosen).name
        with locks.attacking(recording.run.path, place), threads(_shared(recording)):
            return str(scoring.score(recording, name, chosen))
    except LeakbenchError:
        raise
    except (Exception, SystemExit) as error:  # a metric is somebody's code, too
        heed()
        raise MethodError(
            f"{name} on {recording.run.id} cannot be scored: {raised_text(error)}."
        ) from error
