"""Many trainings or attacks, in this process or side by side; one that fails does not stop the others."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from queue import Empty
from typing import Any

from leakbench.errors import LeakbenchError

Tell = Callable[[str, int, int, str], None]  # job, done, total, what is going on


@dataclass(frozen=True)
class Job:
    """``work(*args, progress=...)`` under a name that people read; ``work`` is a function of a module."""

    name: str
    work: Callable[..., Any]
    args: tuple[Any, ...]


@dataclass(frozen=True)
class Outcome:
    """What a job returned, or why it failed (one sentence)."""

    name: str
    value: Any = None
    error: str = ""


def run(jobs: Sequence[Job], *, workers: int = 1, tell: Tell = lambda *_: None) -> list[Outcome]:
    """Do them all, ``workers`` at a time, each with its share of the cores; outcomes in the order of ``jobs``."""
    if workers <= 1 or len(jobs) <= 1:
        return [_one(job, tell) for job in jobs]
    context = get_context("spawn")
    with context.Manager() as manager:
        news = manager.Queue()
        threads = max(1, (os.cpu_count() or 1) // workers)
        with context.Pool(min(workers, len(jobs)), initializer=_begin, initargs=(threads,)) as pool:
            waiting = [pool.apply_async(_apart, (job, news)) for job in jobs]
            while not all(w.ready() for w in waiting):
                _relay(news, tell)
            _relay(news, tell)
            return [w.get() for w in waiting]


def _one(job: Job, tell: Tell) -> Outcome:
    try:
        return Outcome(job.name, job.work(*job.args, progress=lambda done, total, what: tell(job.name, done, total, what)))
    except LeakbenchError as error:
        return Outcome(job.name, error=str(error))


def _apart(job: Job, news: Any) -> Outcome:
    state = {"last": -1.0}

    def tell(name: str, done: int, total: int, what: str) -> None:
        share = done / max(total, 1)
        if share == 1 or share - state["last"] >= 0.01:  # a hundred lines a job, not one a round
            state["last"] = share
            news.put((name, done, total, what))

    return _one(job, tell)


def _begin(threads: int) -> None:
    import torch

    torch.set_num_threads(threads)


def _relay(news: Any, tell: Tell) -> None:
    while True:
        try:
            tell(*news.get(timeout=0.1))
        except Empty:
            return
