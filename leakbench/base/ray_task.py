"""What happens on a node of a Ray cluster: one job, by the same code, and its news."""

from __future__ import annotations

import io
import signal
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, chdir, redirect_stderr, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from leakbench.base import nodes, ray_cluster, terminal
from leakbench.base.jobs import Job, News, Outcome, Tell, do

EVERY = 0.5  # seconds between two news of a job, but for its last
PATIENCE = 90.0  # seconds that the lock of a lost node may outlive it, on a network's disk
Say = Callable[[News | str], None]


@dataclass(frozen=True)
class TaskOrder:
    """What a task must know beside its job.

    ``where``: the folder in which the command was given, at which relative paths begin. ``again``:
    a node was lost that was at the job.
    """

    wanted: nodes.Wanted
    where: str
    threads: int = 1
    deterministic: bool = False
    again: bool = False


class NewsBox:
    """What jobs tell, until it is fetched: an actor beside the one who asks."""

    def __init__(self) -> None:
        self._news = deque[News | str](maxlen=10_000)

    def put(self, news: News | str) -> None:
        """Tell."""
        self._news.append(news)

    def take(self) -> list[News | str]:
        """All that was told since."""
        out = list(self._news)
        self._news.clear()
        return out


def work(job: Job, order: TaskOrder, box: Any) -> Outcome:
    """Do a job; what came of it, and of a fault of ours its traceback, goes to who gave it out."""
    ray = ray_cluster.imported()

    def say(news: News | str) -> None:
        with suppress(Exception):  # nobody listens: the job is not to blame
            told = box.put.remote(news)
            if isinstance(news, str):  # a warning: it is there before the job's end is
                ray.get(told, timeout=10)

    if why := order.wanted.refused():  # a node that came later
        return Outcome(job.name, error=why, wrong=True)
    _prepare(order)
    with ExitStack() as stack:
        with suppress(OSError):  # whole paths need no folder to begin at
            stack.enter_context(chdir(order.where))
        if order.again and job.folder:
            _await_locks(Path(job.folder))
        lines = stack.enter_context(_Lines(say))
        stack.enter_context(redirect_stderr(lines))
        outcome = do(job, _seldom(say))
    if outcome.error and outcome.wrong:  # it may be so on this node alone: its data, its disk
        where = f"{outcome.error.removesuffix('.')} (on node {nodes.name()})."
        return replace(outcome, error=where)
    return outcome


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

    def __init__(self, say: Say) -> None:
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


def _seldom(say: Say) -> Tell:
    """News now and then: of every job's the first and the last, and not one a round."""
    last = 0.0

    def tell(name: str, done: int, total: int, what: str) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= EVERY or done >= total:
            last = now
            say((name, done, total, what))

    return tell
