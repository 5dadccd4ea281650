"""Many trainings or attacks, in this process or side by side.

One that fails does not stop the others.
"""

from __future__ import annotations

import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from typing import Any

from leakbench.base.errors import BrokenFile, LeakbenchError, UsageError

Progress = Callable[[int, int, str], None]  # done, total, what is going on
Tell = Callable[[str, int, int, str], None]  # the same of several jobs, each under its name


@dataclass(frozen=True)
class Job:
    """``work(*args, progress=...)`` under a name that people read.

    ``work`` is a function of a module.
    """

    name: str
    work: Callable[..., Any]
    args: tuple[Any, ...]


@dataclass(frozen=True)
class Outcome:
    """What a job returned, or why it failed (one sentence).

    ``wrong``: what the user gave is the reason; ``damaged``: an artifact is. Else the method or the
    attack failed, or the process that was at the job was killed.
    """

    name: str
    value: Any = None
    error: str = ""
    wrong: bool = False
    damaged: bool = False


def run(jobs: Sequence[Job], *, workers: int = 1, tell: Tell = lambda *_: None) -> list[Outcome]:
    """Do them all, ``workers`` at a time, each with its share of the cores.

    Outcomes in the order of ``jobs``. A worker that is killed fails the one job that it was at.
    Workers end when this process does, however it ends.
    """
    if workers <= 1 or len(jobs) <= 1:
        return [do(job, tell) for job in jobs]
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
        return Outcome(
            job.name,
            job.work(
                *job.args, progress=lambda done, total, what: tell(job.name, done, total, what)
            ),
        )
    except LeakbenchError as error:
        return Outcome(
            job.name,
            error=str(error),
            wrong=isinstance(error, UsageError),
            damaged=isinstance(error, BrokenFile),
        )


# Processes for jobs, each with a pipe of its own: one that is killed takes nobody along, and none
# outlives the one that began it.
News = tuple[str, int, int, str]  # what ``Tell`` is told


@dataclass(frozen=True)
class Fault:
    """What a job raised that no job may raise: the traceback."""

    text: str


class Worker:
    """A process that does one job after another.

    After it was killed, the next job gets a new process.
    """

    pipe: Connection  # our end, once there was a job

    def __init__(self, workers: int) -> None:
        """One of ``workers``, which share the cores."""
        import torch

        self._settings = (
            max(1, (os.cpu_count() or 1) // workers),
            torch.are_deterministic_algorithms_enabled(),
        )
        self._process: Any = None

    def give(self, job: Job) -> None:
        """Let it do ``job``; the one before is done."""
        if self._process is None:
            context = get_context("spawn")
            self.pipe, there = context.Pipe()
            self._process = context.Process(
                target=_serve, args=(there, *self._settings), daemon=True
            )
            with _deaf():
                self._process.start()
            there.close()  # now the pipe ends when the process does
        with suppress(OSError):  # it is gone: ``hear`` finds out
            self.pipe.send(job)

    def hear(self) -> News | Outcome | Fault | None:
        """What it says next, waited for; None if it was killed."""
        try:
            heard: News | Outcome | Fault = self.pipe.recv()
        except (EOFError, OSError):
            return None
        return heard

    def fate(self) -> str:
        """How it ended without having done its job, in a sentence."""
        self._process.join(5)
        code = self._process.exitcode or 0
        self.end()
        how = (
            f"was killed by signal {-code}"
            if code < 0
            else f"ended with exit status {code} before the job was done"
        )
        memory = (
            " (so does a system that runs out of memory: try fewer --jobs)" if code == -9 else ""
        )
        return (
            f"its process {how}{memory}; what was finished is kept, and the same command goes on"
            " from there."
        )

    def end(self) -> None:
        """End the process, whatever it is doing."""
        if self._process is not None:
            self._process.terminate()
            self._process.join()
            self.pipe.close()
            self._process = None


def _serve(pipe: Connection, threads: int, deterministic: bool) -> None:
    """A worker's life: take a job, tell how it goes and what came of it."""
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_orphaned, daemon=True).start()
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(deterministic)

    def say(what: News | Outcome | Fault) -> None:
        try:
            pipe.send(what)
        except OSError:  # nobody listens any more, and the job is not to blame
            os._exit(1)

    while True:
        try:
            job = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            say(do(job, _sparing(say)))
        except Exception:  # raised again where the jobs were given out
            say(Fault(traceback.format_exc()))


def _orphaned() -> None:
    """End this process as soon as the one that started it is gone, be it killed."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _sparing(say: Callable[[News], None]) -> Tell:
    """A hundred lines a job, not one a round."""
    last = -1.0

    def tell(name: str, done: int, total: int, what: str) -> None:
        nonlocal last
        share = done / max(total, 1)
        if share == 1 or share - last >= 0.01:
            last = share
            say((name, done, total, what))

    return tell


@contextmanager
def _deaf() -> Iterator[None]:
    """Processes started in here ignore Ctrl-C from their first moment.

    The one that started them ends them, without a traceback each.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
