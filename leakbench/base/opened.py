"""Which files somebody's own code opened: a number rests on them as it does on the code itself.

Python tells of every file that it opens; whose code it was stands on the stack. What other
libraries open by themselves (safetensors, libsndfile, HDF5) Python does not know of: of these the
digest of a source has the files that are named in it.
"""

from __future__ import annotations

import os
import sys
import threading
from importlib.util import source_from_cache
from types import CodeType, FrameType
from typing import Any

from leakbench.base.code_folders import OURS, installed

TASK = "leakbench.federation.task"
SHOW = ("traceback", "warnings")  # modules that do
Stamp = list[int]  # size and time of a file
# Module of somebody's own -> files opened by it, or below it, as they were the first time.
by: dict[str, dict[str, Stamp]] = {}


def listen_to(module: str) -> None:
    """From now on what ``module`` opens is noted."""
    if not by:
        sys.addaudithook(_heard)
    by.setdefault(module, {})


def add(there: dict[str, dict[str, Stamp]]) -> None:
    """Note what ``by`` was in another process, of modules that are known here."""
    for module, paths in there.items():
        if module in by:
            by[module] = {**paths, **by[module]}


def stamp(path: str) -> Stamp:
    """What tells that a file was changed; of none that is not there."""
    try:
        about = os.stat(path)  # noqa: PTH116
    except OSError:
        return []
    return [about.st_size, about.st_mtime_ns]


def _heard(event: str, args: tuple[Any, ...]) -> None:
    if event != "open" or not isinstance(args[0], str | bytes | os.PathLike):
        return
    if isinstance(args[2], int) and args[2] & os.O_ACCMODE == os.O_WRONLY:
        return
    frame = sys._getframe(1)
    for module in () if _shows_a_line(frame) else _whose(frame):
        path = os.path.abspath(os.fsdecode(args[0]))  # noqa: PTH100
        if path.endswith(".pyc"):
            path = _source(path)
        by[module].setdefault(path, stamp(path))


def _shows_a_line(frame: FrameType | None) -> bool:
    """Is a source read to show a line of it? Torch formats its stack whoever imports it."""
    read = False
    while frame is not None and frame.f_globals.get("__name__") in ("tokenize", "linecache"):
        frame, read = frame.f_back, True
    return read and frame is not None and frame.f_globals.get("__name__") in SHOW


def _source(path: str) -> str:
    """Of compiled code the source that stands for it, or itself where there is none."""
    try:
        source = source_from_cache(path)
    except ValueError:
        return path
    return source if os.path.exists(source) else path  # noqa: PTH110


def _whose(frame: FrameType | None) -> set[str]:
    """The modules that are at work; none where a task loads its data, which have a digest.

    Nor where an installed library is imported: its version says what it reads then (time zones, a
    list of fonts). All of them in a thread in which nobody's code is: who began it stands on no
    stack.
    """
    found, alone = set(), threading.current_thread() is not threading.main_thread()
    while frame is not None:
        name = frame.f_globals.get("__name__")
        alone = alone and str(name).partition(".")[0] not in OURS
        if name in by:
            if frame.f_code.co_name == "load" and _is_task(frame.f_locals.get("self")):
                return set()
            found.add(name)
        elif not found and _library(frame.f_code):
            return set()
        frame = frame.f_back
    return found or (set(by) if alone else found)


def _library(code: CodeType) -> bool:
    """Is an installed module imported here?"""
    return code.co_name == "<module>" and installed(code.co_filename)


def _is_task(value: object) -> bool:
    return any(c.__module__ == TASK for c in type(value).__mro__)
