"""Many trainings or attacks, in this process or side by side; one that fails does not stop the others."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from queue import Empty
from typing import Any

from leakbench.errors import BrokenFile, LeakbenchError, UsageError

Progress = Callable[[int, int, str], None]  # done, total, what is going on
Tell = Callable[[str, int, int, str], None]  # the same of several jobs, each under its name


@dataclass(frozen=True)
class Job:
    """``work(*args, progress=...)`` under a name that people read; ``work`` is a function of a module."""

    name: str
    work: Callable[..., Any]
    args: tuple[Any, ...]


@dataclass(frozen=True)
class Outcome:
    """What a job returned, or why it failed (one sentence).

    ``wrong``: what the user gave is the reason; ``damaged``: an artifact is. Else the method or the attack failed.
    """

    name: str
    value: Any = None
    error: str = ""
    wrong: bool = False
    damaged: bool = False


def run(jobs: Sequence[Job], *, workers: int = 1, tell: Tell = lambda *_: None) -> list[Outcome]:
    """Do them all, ``workers`` at a time, each with its share of the cores; outcomes in the order of ``jobs``."""
    if workers <= 1 or len(jobs) <= 1:
        return [_one(job, tell) for job in jobs]
    import torch

    context = get_context("spawn")
    settings = (max(1, (os.cpu_count() or 1) // workers), torch.are_deterministic_algorithms_enabled())
    with context.Manager() as manager:
        news = manager.Queue()
        with _deaf():
            pool = context.Pool(min(workers, len(jobs)), initializer=_begin, initargs=settings)
        with pool:
            waiting = [pool.apply_async(_apart, (job, news)) for job in jobs]
            while not all(w.ready() for w in waiting):
                _relay(news, tell)
            _relay(news, tell)
            return [w.get() for w in waiting]


def _one(job: Job, tell: Tell) -> Outcome:
    try:
        return Outcome(job.name, job.work(*job.args, progress=lambda done, total, what: tell(job.name, done, total, what)))
    except LeakbenchError as error:
        return Outcome(job.name, error=str(error), wrong=isinstance(error, UsageError), damaged=isinstance(error, BrokenFile))


def _apart(job: Job, news: Any) -> Outcome:
    state = {"last": -1.0}

    def tell(name: str, done: int, total: int, what: str) -> None:
        share = done / max(total, 1)
        if share == 1 or share - state["last"] >= 0.01:  # a hundred lines a job, not one a round
            state["last"] = share
            news.put((name, done, total, what))

    return _one(job, tell)


def _begin(threads: int, deterministic: bool) -> None:
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(deterministic)


@contextmanager
def _deaf() -> Iterator[None]:
    """Processes started in here ignore Ctrl-C from their first moment: the one that started them ends them, without a traceback each."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _relay(news: Any, tell: Tell) -> None:
    while True:
        try:
            tell(*news.get(timeout=0.1))
        except Empty:
            return
