"""Which files somebody's own code opened: a number rests on them as it does on the code itself.

Python tells of every file that it opens; whose code it was stands on the stack. What other
libraries open by themselves (safetensors, libsndfile, HDF5) Python does not know of: of these the
digest of a source has the files that are named in it.
"""

from __future__ import annotations

import os
import sys
from types import FrameType
from typing import Any

TASK = "leakbench.federation.task"
by: dict[str, dict[str, None]] = {}  # module of somebody's own -> files opened by it, or below it


def listen(module: str) -> None:
    """From now on what ``module`` opens is noted."""
    if not by:
        sys.addaudithook(_heard)
    by.setdefault(module, {})


def told() -> dict[str, list[str]]:
    """{module: files} of what was noted here, for the process that started this one."""
    return {module: list(paths) for module, paths in by.items()}


def add(there: dict[str, list[str]]) -> None:
    """Note what another process told, of modules that are known here."""
    for module, paths in there.items():
        if module in by:
            by[module].update(dict.fromkeys(map(str, paths)))


def _heard(event: str, args: tuple[Any, ...]) -> None:
    if event != "open" or not isinstance(args[0], str | bytes):
        return
    if isinstance(args[2], int) and args[2] & os.O_ACCMODE == os.O_WRONLY:
        return
    for module in _whose(sys._getframe(1)):
        by[module][os.path.abspath(os.fsdecode(args[0]))] = None  # noqa: PTH100


def _whose(frame: FrameType | None) -> set[str]:
    """The modules that are at work; none where a task loads its data, which have a digest."""
    found = set()
    while frame is not None:
        name = frame.f_globals.get("__name__")
        if name in by:
            if frame.f_code.co_name == "load" and _is_task(frame.f_locals.get("self")):
                return set()
            found.add(name)
        frame = frame.f_back
    return found


def _is_task(value: object) -> bool:
    return any(c.__module__ == TASK for c in type(value).__mro__)
