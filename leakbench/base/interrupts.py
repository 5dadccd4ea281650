"""Ctrl-C, SIGTERM and SIGHUP: each ends the command in order, and none is lost on the way.

Python raises ``KeyboardInterrupt`` wherever the program happens to be, and a library may answer it
with an error of its own: torch's ``asarray`` says that it cannot tell a shape. So what was heard is
remembered, and whoever keeps something asks first: nothing that comes of an interruption is ever
taken for a damaged file, a failed attack or a number.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Heard:
    """The first signal that was heard since ``listen``."""

    signal: signal.Signals | None = None


def heard() -> signal.Signals | None:
    """The signal that asks this command to end, if one came."""
    return _Heard.signal


def heed() -> None:
    """Go no further once a signal was heard.

    Raises:
        KeyboardInterrupt: one was.
    """
    if _Heard.signal is not None:
        raise KeyboardInterrupt


def signal_exit_code() -> int:
    """128 and the signal's number, as a shell says it: 130 after Ctrl-C, 143 after SIGTERM."""
    return 128 + int(_Heard.signal or signal.SIGINT)


def listen() -> None:
    """From here on each of ``SIGNALS`` is remembered and raises ``KeyboardInterrupt``.

    One that is ignored stays ignored, as `nohup` wants it.
    """
    _Heard.signal = None
    for s in SIGNALS:
        if signal.getsignal(s) != signal.SIG_IGN:
            signal.signal(s, _hear)
    hook = sys.unraisablehook
    sys.unraisablehook = lambda said: None if _is_ours(said.exc_value) else hook(said)


def rest(handler: signal.Handlers) -> None:
    """The end of listening: from here on the signals do what ``handler`` says.

    SIG_IGN while the last words are said, SIG_DFL when all is said: the process is gone at once.
    """
    for s in SIGNALS:
        if signal.getsignal(s) is _hear:
            signal.signal(s, handler)


@contextmanager
def undisturbed() -> Iterator[None]:
    """A short piece of foreign code in which Ctrl-C waits until it is through.

    Outside of the main thread, where no signal is handled, it does nothing.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda *which: came.append(which))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            before(*came[0])


def _hear(number: int, _: FrameType | None) -> None:
    _Heard.signal = _Heard.signal or signal.Signals(number)
    if _torch_is_being_imported():
        threading.Thread(target=_say_again, args=(number,), daemon=True).start()
    else:
        raise KeyboardInterrupt


def _torch_is_being_imported() -> bool:
    """Then the program may be in C++ that answers any exception with the end of the process."""
    for name, module in list(sys.modules.items()):
        spec = getattr(module, "__spec__", None)
        if name.partition(".")[0] == "torch" and getattr(spec, "_initializing", False):
            return True
    return False


def _say_again(number: int) -> None:
    """Send the signal once more as soon as torch is imported."""
    while _torch_is_being_imported():
        time.sleep(0.01)
    os.kill(os.getpid(), number)


def _is_ours(error: BaseException | None) -> bool:
    """Was it raised by a signal, at a place that can only swallow it?

    The next ``heed`` raises it again.
    """
    return isinstance(error, KeyboardInterrupt) and _Heard.signal is not None
