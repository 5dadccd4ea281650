"""The one way to the terminal: every text on stdout and stderr passes here.

Names come from run folders and command lines of strangers: what would steer a terminal is made
visible, and a sentence is one line.
"""

from __future__ import annotations

import errno
import os
import sys
import warnings
from contextlib import suppress
from typing import Any, TextIO, cast

from leakbench.base.errors import UsageError
from leakbench.base.printable_text import on_one_line, printable


class Screen:
    """Stderr as it is now, for what draws there; once it is gone, drawing is nothing."""

    def __init__(self) -> None:
        self._stream = sys.stderr
        self.encoding = self._stream.encoding

    def write(self, text: str) -> int:
        """Draw."""
        with suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Now."""
        with suppress(OSError, ValueError):
            self._stream.flush()

    def isatty(self) -> bool:
        """Does somebody look?"""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Of the stream."""
        return self._stream.fileno()


def screen() -> TextIO:
    """A ``Screen``."""
    return cast(TextIO, Screen())


def say(text: str) -> None:
    """A line on stderr. Where nobody listens any more the work goes on."""
    say_lines(on_one_line(text))


def say_lines(text: str) -> None:
    """The same of a text of several lines that is ours, as a help is."""
    if sys.stderr is not None:
        with suppress(OSError, ValueError):
            sys.stderr.write(printable(text) + "\n")


def emit(text: str) -> None:
    """A line of the result, on stdout.

    A reader who has gone (`| head`) changes nothing.

    Raises:
        UsageError: it cannot be written.
    """
    emit_lines(on_one_line(text))


def emit_lines(text: str) -> None:
    """The same of a text of several lines that is ours, as JSON is.

    Raises:
        UsageError: it cannot be written.
    """
    try:
        sys.stdout.write(printable(text) + "\n")
    except OSError as error:
        _give_up(sys.stdout)
        if error.errno != errno.EPIPE:
            raise UsageError(_lost(error)) from None


def prepare() -> None:
    """Make stdin, stdout and stderr fit for any text, before the command begins.

    Those that are closed lead nowhere: else the next file that is opened would take their place.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    sys.stdin = sys.stdin or _nowhere("r")
    sys.stdout = sys.stdout or _nowhere("w")
    sys.stderr = sys.stderr or _nowhere("w")
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure:
            reconfigure(errors="backslashreplace")
    warnings.showwarning = _show


def finish(code: int) -> int:
    """Send off what is still on its way to stdout; the command's exit code.

    A reader who has gone (`| head`) changes nothing; a stdout that cannot be written is an error.
    """
    try:
        sys.stdout.flush()
    except OSError as error:
        _give_up(sys.stdout)
        if error.errno != errno.EPIPE:
            say(f"leakbench: {_lost(error)}")
            code = code or UsageError.exit_code
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    return code


def _give_up(stream: TextIO) -> None:
    """What is left in its buffer goes nowhere: Python's own end would stumble over it."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _lost(error: OSError) -> str:
    return (
        f"the result cannot be written to stdout ({error.strerror or error}). Write it elsewhere."
    )


def _nowhere(mode: str) -> Any:
    return open(os.devnull, mode, encoding="utf-8")  # noqa: PTH123


def _show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    """A warning of a library, as a sentence: the path in Python's own form is nobody's concern."""
    say(f"{category.__name__}: {message}")
