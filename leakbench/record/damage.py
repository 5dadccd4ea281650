"""Files of a cache that cannot be trusted: found, and taken away, so that they are made again."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path

from leakbench.base import locks
from leakbench.base.errors import BrokenFile, NewerFile
from leakbench.base.files import read_sealed
from leakbench.base.printable_text import one_line
from leakbench.record import checkpoint, clearing, folders
from leakbench.record.folders import AttackFolder, Run
from leakbench.record.placing import NAME

_MEND = " Make it again."


def cleared(folder: Path) -> str:
    """Why what lay in a run's folder could not be trusted, and is deleted; or nothing.

    Raises:
        UsageError: it cannot be deleted, or somebody else writes there.
        NewerFile: a later leakbench wrote it.
    """
    try:
        _check_run(folder)
    except NewerFile:
        raise
    except BrokenFile as error:
        with locks.training_lock(folder) if folder.is_dir() else nullcontext():
            clearing.empty(folder)
        return one_line(str(error)).removesuffix(_MEND)
    return ""


def cleared_attack(run: Run, name: str) -> str:
    """The same of the attack in the folder ``name`` of a run.

    Raises:
        UsageError: as for ``cleared``.
    """
    folder = run.path / "attacks" / name
    try:
        if os.path.lexists(folder):
            _check_attack(folder)
    except NewerFile:
        raise
    except BrokenFile as error:
        with locks.attacking(run.path, name):
            clearing.empty(folder)
            if folder.is_dir():
                folder.rmdir()
        return one_line(str(error)).removesuffix(_MEND)
    return ""


def _check_run(folder: Path) -> None:
    """A whole run lies there, or a part of one that can be gone on with, or nothing.

    Raises:
        BrokenFile: something else does.
    """
    if not os.path.lexists(folder / "run.json"):
        if os.path.lexists(folder) and not folder.is_dir():
            raise BrokenFile(f"{folder} is no folder.")
        if folder.is_dir() and any(not path.name.startswith(".") for path in folder.iterdir()):
            raise BrokenFile(f"{folder / 'run.json'} is missing.")
        return
    run = folders.load(folder)
    if not run.done:
        checkpoint.last_checkpoint(folder)
        return
    run.check()
    for room in clearing.ROOMS:
        run.within(room)


def _check_attack(folder: Path) -> None:
    found = AttackFolder(folder, read_sealed(folder / NAME))
    if found.done and isinstance(found.meta.get("files"), dict):
        found.alone()
        found.check()
