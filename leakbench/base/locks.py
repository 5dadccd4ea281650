"""One writer at a time: locks of a run folder, which end with their process, however that ends.

A training holds the run's own lock and those of all its attacks; an attack (and its scoring) holds
its own, so that two attacks go side by side. Lock files are hidden, and gone when nobody writes;
one that a killed process left is nobody's.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

from leakbench.base.errors import UsageError

WAIT = 2.0  # seconds; who writes may just be about to end
_READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)


@contextmanager
def training_lock(run: Path) -> Iterator[None]:
    """While the run in the folder ``run`` is written; no attack on it goes on.

    Raises:
        UsageError: somebody else writes there, and goes on for longer than ``WAIT``.
    """
    with ExitStack() as held:
        held.enter_context(_held(run / ".lock", f"{run} is being trained"))
        for lock in sorted((run / "attacks").glob(".*.lock")):
            attacked = lock.name.removeprefix(".").removesuffix(".lock")
            held.enter_context(_held(lock, f"{run} is being attacked ({attacked})"))
        yield


@contextmanager
def attacking(run: Path, folder: str) -> Iterator[None]:
    """While attacks/``folder`` of the run is written; the run is not trained meanwhile.

    Raises:
        UsageError: somebody else writes there, and goes on for longer than ``WAIT``.
    """
    lock = run / "attacks" / f".{folder}.lock"
    with _held(lock, f"{run / 'attacks' / folder} is being made"):
        # A training that begins later finds the lock above; one that goes on holds this one.
        with _held(run / ".lock", f"{run} is being trained"):
            pass
        yield


@contextmanager
def _held(path: Path, busy: str) -> Iterator[None]:
    lock = _taken(path, busy)
    try:
        yield
    finally:
        if lock is not None:
            # Who waits has the old file open; filelock looks whether it is still there.
            path.unlink(missing_ok=True)
            lock.release()


def _taken(path: Path, busy: str) -> BaseFileLock | None:
    """The lock; None where nothing can be written, and what is there can still be read."""
    lock = FileLock(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=WAIT)
    except Timeout:
        raise UsageError(
            f"{busy} by {_holder(path)}: wait until it has ended, or end it, and give the same"
            " command again; it goes on from what is there."
        ) from None
    except (OSError, NotImplementedError) as error:  # the second: filelock, of disks without locks
        if isinstance(error, OSError) and error.errno in _READ_ONLY:
            return None
        raise UsageError(
            f"cannot write {path}: {error}. Without a lock two commands could spoil each other"
            " there. Make it writable, or work on a copy of it in another folder."
        ) from None
    _sign(path)
    return lock


def _sign(path: Path) -> None:
    """Who holds it, for whoever is refused; a link that a stranger put there is not followed."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return
    try:
        os.write(file, f"{os.getpid()}\n".encode())
    finally:
        os.close(file)


def _holder(path: Path) -> str:
    try:
        text = path.read_bytes()[:20].decode().strip()
    except (OSError, UnicodeDecodeError):
        text = ""
    return f"process {text}" if text.isascii() and text.isdigit() else "another process"
