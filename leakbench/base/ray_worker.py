"""What happens on a node of a Ray cluster: one job, by the same code, in a folder that is kept.

Of Ray itself nothing is needed here.
"""

from __future__ import annotations

import io
import os
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from filelock import FileLock, Timeout

from leakbench.base import nodes, parcels, terminal
from leakbench.base.errors import BrokenFile, UsageError, circumstance
from leakbench.base.folder_job import FolderJob, told
from leakbench.base.jobs import Job, News, Outcome, do
from leakbench.base.nodes import NodeCode

EVERY = 0.5  # seconds between two news of a job, but for its last
PATIENCE = 90.0  # seconds that the lock of a lost node may outlive it, on a network's disk


@dataclass(frozen=True)
class TaskOrder:
    """What a task must know beside its job.

    ``code``: what the machine has that asks. ``marks``: {folder: a file in it} by which a worker
    knows that it sees the same disk. ``sent``: may the job be done where it is not seen?
    """

    code: NodeCode
    marks: dict[str, str]
    threads: int = 1
    deterministic: bool = False
    again: bool = False  # a node was lost that was at it
    sent: bool = False


@dataclass(frozen=True)
class Ended:
    """The last word of a task: its outcome, or why there is none."""

    outcome: Outcome | None = None
    brought: parcels.Brought | None = None
    refused: str = ""  # this node must not do it
    unseen: bool = False  # it does not see the folder, and was sent nothing
    fault: str = ""  # a traceback: of ours


def work(
    job: Job,
    order: TaskOrder,
    say: Callable[[News | str], None],
    fetch: Callable[[], Iterator[parcels.Piece]],
) -> Iterator[parcels.Piece | Ended]:
    """Do a job: pieces of what goes back, if anything does, then how it ended.

    Args:
        job: with its folder as the machine that asks sees it.
        order: how.
        say: takes news, and lines for people.
        fetch: the pieces of the folder that were sent.
    """
    if why := nodes.unlike(order.code, nodes.code()):
        yield Ended(refused=why)
        return
    _prepare(order)
    if not isinstance(job, FolderJob):
        yield _done(job, say)
        return
    around = str(job.around)
    if nodes.sees(around, order.marks):
        if order.again:
            _await_locks(job.folder)
        yield _done(job, say)
        return
    if not order.sent:
        yield Ended(unseen=True)
        return
    try:
        with _room() as room:
            yield from _apart(job, room, say, fetch)
    except OSError as error:
        yield Ended(Outcome(job.name, error=_here(circumstance(error)), wrong=True))


def _apart(
    job: FolderJob,
    room: Path,
    say: Callable[[News | str], None],
    fetch: Callable[[], Iterator[parcels.Piece]],
) -> Iterator[parcels.Piece | Ended]:
    """Do it in a folder of our own."""
    mine = job.at(room)
    for piece in fetch():
        parcels.unpack(piece, room)
    try:
        before = parcels.before(room)
    except BrokenFile as error:
        yield Ended(Outcome(job.name, error=str(error), wrong=True, damaged=True))
        return
    ended = _done(mine, say)
    if ended.outcome is None:
        yield ended
        return
    brought = parcels.changed(mine, before)
    yield from parcels.pieces(room / brought.name, brought.sums)
    here = told(ended.outcome, room, job.around)
    yield Ended(here, brought)


def _done(job: Job, say: Callable[[News | str], None]) -> Ended:
    try:
        with _Lines(say) as lines, redirect_stderr(lines):
            outcome = do(job, _seldom(say))
    except Exception:  # raised again where the jobs were given out
        return Ended(fault=traceback.format_exc())
    if outcome.error and outcome.wrong:
        outcome = replace(outcome, error=_here(outcome.error))
    return Ended(outcome)


def _here(error: str) -> str:
    """What is wrong may be so on this node alone: its data, its disk."""
    return f"{error.removesuffix('.')} (on node {nodes.name()})."


def _prepare(order: TaskOrder) -> None:
    import torch

    terminal.prepare()
    # A cluster that was begun in the background of a script ignores it, and Ray cancels by it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    torch.set_num_threads(order.threads)
    if order.deterministic or torch.are_deterministic_algorithms_enabled():
        torch.use_deterministic_algorithms(order.deterministic)


def _await_locks(folder: Path) -> None:
    """Wait for the locks of a node that is gone: a network's disk may hold them for a while."""
    end = time.monotonic() + PATIENCE
    for path in [folder / ".lock", *(folder / "attacks").glob(".*.lock")]:
        if path.exists():
            left = max(0.0, end - time.monotonic())
            with suppress(Timeout, OSError, NotImplementedError), FileLock(path, timeout=left):
                pass


class _Lines(io.TextIOBase):
    """Stderr of a job: each line goes to whoever waits for it."""

    def __init__(self, say: Callable[[News | str], None]) -> None:
        self._say, self._rest = say, ""

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._say(line)
        return len(text)

    def close(self) -> None:
        if self._rest:  # a last line without an end
            self._say(self._rest)
        self._rest = ""
        super().close()


def _seldom(say: Callable[[News | str], None]) -> Callable[[str, int, int, str], None]:
    """News now and then: of every job's the first and the last, and not one a round."""
    last = 0.0

    def tell(name: str, done: int, total: int, what: str) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= EVERY or done >= total:
            last = now
            say((name, done, total, what))

    return tell


@contextmanager
def _room() -> Iterator[Path]:
    """A folder of this job's own, gone with it; those that killed jobs left go first."""
    around = Path(tempfile.gettempdir()) / f"leakbench-ray-{os.getuid()}"
    around.mkdir(mode=0o700, exist_ok=True)
    if around.is_symlink() or around.stat().st_uid != os.getuid():
        raise UsageError(f"{around} belongs to somebody else. Set TMPDIR to another folder.")
    for lock in around.glob("*.lock"):
        _sweep(lock)
    held = FileLock(around / f"{os.getpid()}-{time.time_ns()}.lock")
    room = Path(held.lock_file).with_suffix("")
    with held:
        room.mkdir()
        try:
            yield room
        finally:
            shutil.rmtree(room, ignore_errors=True)
            Path(held.lock_file).unlink(missing_ok=True)


def _sweep(lock: Path) -> None:
    held = FileLock(lock)
    with suppress(Timeout, OSError), held.acquire(timeout=0):
        shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
        lock.unlink(missing_ok=True)


def facts(marks: dict[str, str]) -> tuple[NodeCode, tuple[str, ...]]:
    """What this node has, and the folders of ``marks`` that it does not see."""
    return nodes.code(), tuple(f for f in marks if not nodes.sees(f, marks))
