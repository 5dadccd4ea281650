"""What of an attack on a run is there, and whether it is what would be made today."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakbench.attacking.attack import Attack
from leakbench.attacking.guessing import folder_of
from leakbench.base.errors import BrokenFile
from leakbench.base.files import read_sealed
from leakbench.base.reason import Reason, reason
from leakbench.base.version import __version__
from leakbench.record import attack_code
from leakbench.record.folders import AttackFolder
from leakbench.record.placing import GUESS, NAME, hidden
from leakbench.record.recording import Recording


@dataclass(frozen=True)
class Standing:
    """What is there."""

    complete: bool  # with its scores, if it can be scored: nothing is to be done
    guesses: Path | None  # the folder whose guesses are those that would be made again
    why: Reason | None = None  # why what is there is not enough, where a reader may wonder


def standing(
    recording: Recording, name: str, attack: Attack, *, isolated: bool = False
) -> Standing:
    """How the attack on this run stands; whether its files are unchanged is not asked.

    ``isolated``: only guesses that were made in isolation will do.

    Raises:
        BrokenFile: attack.json is damaged.
    """
    folder = folder_of(recording, name, attack)
    left = _left(recording, name, attack, isolated=isolated)
    if not (folder / NAME).exists() or (isolated and not _in_isolation(folder)):
        return Standing(complete=False, guesses=left)
    meta = read_sealed(folder / NAME)
    if meta.get("submitted") and meta.get("no_control"):
        return Standing(False, None, reason("was_submitted", attack=name))
    why = _outdated(recording, name, attack, meta)
    if why:
        return Standing(False, left, why)
    if meta["status"] == ("guessed" if recording.exported else "done"):
        scored = _scored(attack)
        known = scored.items() <= meta["sources"].items()
        if recording.exported or known:
            return Standing(complete=True, guesses=folder)
        return Standing(False, folder, reason("other_scorer", attack=name))
    if GUESS in meta["files"]:
        return Standing(complete=False, guesses=folder)
    return Standing(complete=False, guesses=left)


def _outdated(
    recording: Recording, name: str, attack: Attack, meta: Mapping[str, Any]
) -> Reason | None:
    """Why its guesses are not those that would be made today; None where they are."""
    of, code = meta.get("of"), meta.get("sources", {})
    if of != recording.run.named:
        return reason("other_messages", run=str(recording.run.path))
    now = attack_code.guessed_by(attack, recording.run.spec)
    if any(code.get(part) != now.get(part) for part in attack_code.GUESSED):
        return reason("other_guesser", attack=name)
    if changed := attack_code.changed_files(code):
        return reason("file_changed", file=changed[0])
    # Best is the method that trained the run, and else there is none but the installed one.
    trained = recording.run.meta.get("sources", {}).get("method")
    if code.get("method") not in (trained, now.get("method")):
        return reason("other_method")
    made = meta.get("versions", {}).get("leakbench")
    return None if made == __version__ else reason("other_version", version=made)


def _left(recording: Recording, name: str, attack: Attack, *, isolated: bool) -> Path | None:
    """Guesses that are whole, though nobody came to score them: the process was killed."""
    part = hidden(folder_of(recording, name, attack), "part")
    if not (part / NAME).exists():
        return None
    try:
        meta = read_sealed(part / NAME)
        AttackFolder(part, meta).check(GUESS)
    except BrokenFile:
        return None
    if meta.get("submitted") or (isolated and not meta.get("isolated")):
        return None  # somebody else's, or not made as is asked now
    return None if _outdated(recording, name, attack, meta) else part


def _in_isolation(folder: Path) -> bool:
    there = (folder / NAME).exists()
    return there and bool(read_sealed(folder / NAME).get("isolated", False))


def _scored(attack: Attack) -> dict[str, str]:
    return attack_code.scored_by(type(attack).metrics)
