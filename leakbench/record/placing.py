"""Puts an attack's files in the place of those that are there, so that no reader mixes the two."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path

from leakbench.base.files import file_digest, read_sealed, write_sealed

NAME = "attack.json"
GUESS = "guess.safetensors"
REPLACING = "being replaced"  # the status meanwhile: a reader waits, a killed writer begins anew


def hidden(folder: Path, what: str) -> Path:
    """A folder beside ``folder`` that no reader looks into."""
    return folder.with_name(f".{folder.name.removeprefix('.')}.{what}")


def put(fresh: Path, folder: Path, *, keep: Collection[str] = ()) -> Path:
    """Make the files of ``fresh`` those of ``folder``, attack.json last; ``fresh`` is gone then.

    What else lies there goes, but for the names in ``keep``. While the files are changed the status
    is ``REPLACING``; it takes as long as renaming them.
    """
    if not folder.exists():
        fresh.rename(folder)
        return folder
    write_sealed(folder / NAME, {**read_sealed(fresh / NAME), "status": REPLACING, "files": {}})
    moved = {p.name for p in fresh.iterdir()}
    for path in folder.iterdir():
        if path.is_file() and path.name not in {*moved, *keep}:
            path.unlink()
    for name in sorted(moved - {NAME}):
        (fresh / name).replace(folder / name)
    (fresh / NAME).replace(folder / NAME)
    shutil.rmtree(fresh)
    return folder


def fail(folder: Path, why: str) -> None:
    """Keep the guesses of ``folder``, and say why there are no scores of them."""
    fresh = hidden(folder, "failed")
    shutil.rmtree(fresh, ignore_errors=True)
    meta = {**read_sealed(folder / NAME), "status": f"failed: {why}", "metrics": {}, "missing": []}
    meta["files"] = {GUESS: file_digest(folder / GUESS)}
    write_sealed(fresh / NAME, meta)
    put(fresh, folder, keep=(GUESS,))
