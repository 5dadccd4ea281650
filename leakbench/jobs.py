"""Many trainings or attacks, in this process or side by side; one that fails does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
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

    ``wrong``: what the user gave is the reason; ``damaged``: an artifact is. Else the method or the attack failed, or the
    process that was at the job was killed.
    """

    name: str
    value: Any = None
    error: str = ""
    wrong: bool = False
    damaged: bool = False


def run(jobs: Sequence[Job], *, workers: int = 1, tell: Tell = lambda *_: None) -> list[Outcome]:
    """Do them all, ``workers`` at a time, each with its share of the cores; outcomes in the order of ``jobs``.

    A worker that is killed fails the one job that it was at. Workers end when this process does, however it ends.
    """
    if workers <= 1 or len(jobs) <= 1:
        return [do(job, tell) for job in jobs]
    from leakbench.workers import Fault, Worker

    staff = [Worker(workers) for _ in range(min(workers, len(jobs)))]
    todo, idle = list(range(len(jobs)))[::-1], staff[::-1]
    busy, done = dict[int, Worker](), dict[int, Outcome | Fault]()
    try:
        while todo or busy:
            while todo and idle:
                i = todo.pop()
                busy[i] = idle.pop()
                busy[i].give(jobs[i])
            ready = wait([w.pipe for w in busy.values()])
            for i in [i for i, w in busy.items() if w.pipe in ready]:
                heard = busy[i].hear()
                if isinstance(heard, tuple):
                    tell(*heard)
                    continue
                done[i] = Outcome(jobs[i].name, error=busy[i].fate()) if heard is None else heard
                idle.append(busy.pop(i))
    finally:
        for worker in staff:
            worker.end()
    outcomes = []
    for i in range(len(jobs)):
        came = done[i]
        if isinstance(came, Fault):  # of ours, no failed job
            raise RuntimeError(f"{jobs[i].name}: {came.text}")
        outcomes.append(came)
    return outcomes


def do(job: Job, tell: Tell) -> Outcome:
    """Do it here."""
    try:
        return Outcome(job.name, job.work(*job.args, progress=lambda done, total, what: tell(job.name, done, total, what)))
    except LeakbenchError as error:
        return Outcome(job.name, error=str(error), wrong=isinstance(error, UsageError), damaged=isinstance(error, BrokenFile))
