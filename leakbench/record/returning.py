"""Puts attacks in their place that were made in a copy of their run, on another machine."""

from __future__ import annotations

import shlex
from pathlib import Path

from leakbench.base.files import read_sealed, write_sealed
from leakbench.record.placing import NAME, put

_RUN = 2  # the word of the command that names the run: leakbench attack RUN ...


def put_back(fresh: Path, folder: Path) -> Path:
    """As ``put``; the command that attack.json names is of the run that lies here."""
    meta = read_sealed(fresh / NAME)
    words = shlex.split(str(meta.get("command", "")))
    if len(words) > _RUN:
        words[_RUN] = str(folder.parents[1])
        write_sealed(fresh / NAME, {**meta, "command": shlex.join(words)})
    return put(fresh, folder)
