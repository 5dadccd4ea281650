"""What a run folder must not keep when it is trained: files of a training that is not gone on with.

The rounds that follow overwrite files of the same names only; what other code wrote besides (a
control where today's hides nothing, say) would be listed, and read.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from leakbench.base.errors import UsageError

ROOMS = ("transcript", "control", "known", "truth")
_WHOLE = ("run.json", "checkpoint", "attacks")
_ROUND = "round-*.safetensors"


def clear_rounds(folder: Path, *, whole: bool, after: int) -> None:
    """Delete what was recorded of rounds beyond ``after`` (all, if negative).

    ``whole``: everything that a run folder holds, its attacks too.

    Raises:
        UsageError: something cannot be deleted.
    """
    try:
        for room in ROOMS:
            for path in (folder / room).glob(_ROUND):
                if int(path.stem.removeprefix("round-")) > after:
                    path.unlink()
        for name in _WHOLE if whole else ():
            path = folder / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    except (OSError, ValueError) as error:
        raise _refused(folder, error) from None


def empty(folder: Path) -> None:
    """Delete what lies in ``folder``, or stands in its place, but for a lock.

    Raises:
        UsageError: something cannot be deleted.
    """
    try:
        if folder.is_symlink() or not folder.is_dir():
            folder.unlink()
            return
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.name != ".lock":
                path.unlink()
    except OSError as error:
        raise _refused(folder, error) from None


def _refused(folder: Path, error: Exception) -> UsageError:
    return UsageError(
        f"cannot clear {folder} of what an earlier training left ({error}). Delete the folder,"
        " or train into another one with -o."
    )
