"""An exception that came out of a call: what it says in a sentence, and whose code raised it.

Methods, attacks, tasks and metrics of somebody's own may raise anything. Their author needs the
line; who uses leakbench needs to know whether to mend the method or to report a fault of leakbench.
"""

from __future__ import annotations

import errno
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from leakbench.base import hashed_source
from leakbench.base.code_folders import comes_with_leakbench, installed
from leakbench.base.errors import LeakbenchError
from leakbench.base.plugins import packages
from leakbench.base.printable_text import one_line

# What the system had no more of: space on a disk, files that may be open, memory.
SCARCE = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def own_place(error: BaseException) -> str:
    """The innermost line of somebody's own code that ``error`` came through: "my.py, line 12".

    "" where it came through none: then leakbench, or a library that it called, raised it. The
    file's name alone, for the sentence may be kept in a folder that is handed on.
    """
    place = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        if _is_own(frame.f_code.co_filename, frame.f_globals.get("__name__", "")):
            place = f"{Path(frame.f_code.co_filename).name}, line {line}"
    return place


def _place(error: BaseException) -> str:
    """The innermost line of leakbench that it came through: "attacking/view.py, line 12"."""
    place = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = Path(frame.f_code.co_filename)
        if file.is_absolute() and comes_with_leakbench(str(file)):
            place = f"{file.parent.name}/{file.name}, line {line}"
    return place


def _is_own(file: str, module: str) -> bool:
    """Is it code of a user, or of a package of methods that a user installed?"""
    if not Path(file).is_absolute() or comes_with_leakbench(file):  # "<frozen importlib>"
        return False
    return not installed(file) or any(
        module == package or module.startswith(f"{package}.") for package in packages
    )


def own_files(*objects: object) -> list[str]:
    """The names of the files of somebody's own that their classes are defined in."""
    modules = [sys.modules.get(type(one).__module__) for one in objects]
    files = [(getattr(m, "__file__", None) or "", m.__name__) for m in modules if m]
    return list(dict.fromkeys(Path(file).name for file, name in files if _is_own(file, name)))


def own_imported() -> list[str]:
    """The names of the files with methods of somebody's own that were imported here."""
    return [Path(file).name for file in hashed_source.ran if not comes_with_leakbench(file)]


def raised_text(error: BaseException, beside: Iterable[str] = ()) -> str:
    """The sentence of ``error``, without its end: "NameError: no name 'x' (my.py, line 12)".

    Of an error of leakbench's own it is the error's text.

    Args:
        error: what was raised.
        beside: the files of somebody's own that had a part in it, named where no line of them
            was at work: what they returned may be the reason.
    """
    if isinstance(error, LeakbenchError):
        return str(error)
    text = one_line(str(error))
    kind = type(error).__name__
    place = own_place(error) or " and ".join(f"with {file}" for file in beside) or _place(error)
    return f"{kind}{f': {text}' if text else ''}{f' ({place})' if place else ''}"


def is_own_fault(error: BaseException) -> bool:
    """Is it a fault, and did it come through somebody's own code?"""
    return is_fault(error) and bool(own_place(error))


def first_line(error: BaseException) -> str:
    """The first line of its text, its kind where it says nothing."""
    return next(iter(str(error).splitlines()), "") or type(error).__name__


def is_fault(error: BaseException) -> bool:
    """Is the code to blame, a method's or leakbench's, and not the machine or who gave the command?

    A full disk, a lack of memory and an interruption are nobody's fault; a file that a method of
    somebody's own cannot open is the method's.
    """
    if isinstance(error, OSError):
        return error.errno not in SCARCE and bool(own_place(error))
    if isinstance(error, SystemExit):  # it would end the command as if leakbench had said so
        return True
    return isinstance(error, Exception) and not isinstance(error, LeakbenchError | MemoryError)


@contextmanager
def faults_pass() -> Iterator[None]:
    """What is asked inside may fail by a fault of its code, which shows again where it is run."""
    try:
        yield
    except Exception as error:
        if not is_fault(error):
            raise
