"""Many trainings or attacks, in this process or side by side.

One that fails does not stop the others.

The pool is our own on purpose. In those of ``concurrent.futures``, pebble and billiard workers
share queues, so that one which is killed takes others' jobs along or holds them up for ever. Here
each worker has a pipe to itself.
"""

from __future__ import annotations

import math
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

from leakbench.base import terminal
from leakbench.base.errors import BrokenFile, LeakbenchError, UsageError, circumstance
from leakbench.base.interrupts import heed
from leakbench.base.raised import is_own_fault, raised_text

Progress = Callable[[int, int, str], None]  # done, total, what is going on
Tell = Callable[[str, int, int, str], None]  # the same of several jobs, each under its name


@dataclass(frozen=True)
class Job:
    """A piece of work under a name that people read.

    ``folder``: of the run that it writes, "" for none: on a cluster all see the one around it.
    """

    name: str
    work: Callable[..., Any]  # a function of a module, called as work(*args, progress=...)
    args: tuple[Any, ...]
    seconds: float = 0.0  # it is predicted to take, 0 where nobody knows
    folder: str = ""


@dataclass(frozen=True)
class Outcome:
    """What a job returned, or why it failed.

    It failed by the method or the attack, or for the process that was at the job was killed, unless
    ``wrong``, ``damaged`` or by a ``fault`` of ours.
    """

    name: str
    value: Any = None
    error: str = ""  # one sentence
    wrong: bool = False  # what the user gave is the reason
    damaged: bool = False  # an artifact is
    left_out: bool = False  # it was not begun, for it would not have ended in time
    fault: str = ""  # the traceback of what no job may raise


def run_jobs(
    jobs: Sequence[Job], *, workers: int = 1, tell: Tell = lambda *_: None, budget: float = math.inf
) -> list[Outcome]:
    """Do them all, ``workers`` at a time, in as many threads each as there would be here.

    So what comes out does not depend on ``workers``. Outcomes in the order of ``jobs``; those are
    left out that are predicted to end more than ``budget`` seconds after the first began. A worker
    that is killed fails the one job that it was at. Workers end when this process does, however it
    ends.

    Raises:
        KeyboardInterrupt: a signal was heard, wherever it was lost.
    """
    end = time.monotonic() + budget
    if workers <= 1 or len(jobs) <= 1:
        return [do(job, tell) if _in_time(job, end) else _left_out(job) for job in jobs]
    todo, done = list(range(len(jobs)))[::-1], dict[int, Outcome]()
    idle, busy = list[Worker](), dict[int, Worker]()
    try:
        while todo or busy:
            while todo and len(busy) < workers:
                i = todo.pop()
                if not _in_time(jobs[i], end):
                    done[i] = _left_out(jobs[i])
                    continue
                busy[i] = idle.pop() if idle else Worker()
                busy[i].give(jobs[i])
            # Nothing to wait for where the last that was left did not fit into the time.
            ready = wait([w.pipe for w in busy.values()]) if busy else []
            for i, worker in [(i, w) for i, w in busy.items() if w.pipe in ready]:
                received = worker.receive()
                heed()
                if isinstance(received, tuple):
                    tell(*received)
                    continue
                done[i] = received
                del busy[i]
                if worker.process.is_alive():
                    idle.append(worker)
    finally:
        for worker in [*idle, *busy.values()]:
            worker.end()
    return [done[i] for i in range(len(jobs))]


def _in_time(job: Job, end: float) -> bool:
    """Is it predicted to have ended by then?"""
    return time.monotonic() + job.seconds <= end


def _left_out(job: Job) -> Outcome:
    return Outcome(job.name, left_out=True)


def do(job: Job, tell: Tell) -> Outcome:
    """Do it here.

    Raises:
        KeyboardInterrupt: a signal was heard, whatever a library made of it.
    """

    def told(done: int, total: int, what: str) -> None:
        heed()
        tell(job.name, done, total, what)

    try:
        value = job.work(*job.args, progress=told)
        heed()
        return Outcome(job.name, value)
    except LeakbenchError as error:
        heed()
        return Outcome(
            job.name,
            error=str(error),
            wrong=isinstance(error, UsageError),
            damaged=isinstance(error, BrokenFile),
        )
    except MemoryError:
        heed()
        return Outcome(job.name, error=f"{job.name} ran out of memory; what was finished is kept.")
    except (Exception, SystemExit) as error:
        heed()
        if is_own_fault(error):  # somebody's code may raise anything, or leave
            return Outcome(job.name, error=f"{job.name} failed: {raised_text(error)}.")
        if isinstance(error, OSError):
            return Outcome(job.name, error=circumstance(error), wrong=True)
        # Our fault, which costs no other job anything.
        return Outcome(job.name, error=raised_text(error), fault=traceback.format_exc())


# Signals that a terminal sends to all processes at once; the first of them answers for the others.
_OURS = (signal.SIGINT, signal.SIGHUP)
News = tuple[str, int, int, str]  # what ``Tell`` is told


class Worker:
    """A process that does one job after another."""

    def __init__(self) -> None:
        import torch

        settings = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
        context = get_context("spawn")
        self.pipe, there = context.Pipe()
        self.process = context.Process(target=_serve, args=(there, *settings), daemon=True)
        with _spawning():
            self.process.start()
        there.close()  # now the pipe ends when the process does

    def give(self, job: Job) -> None:
        """Let it do ``job``; the one before is done."""
        self.job = job
        with suppress(OSError):  # it is gone: ``receive`` finds out
            self.pipe.send(job)

    def receive(self) -> News | Outcome:
        """What it says next, waited for, or how it ended."""
        try:
            received: News | Outcome = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join(5)
            code = self.process.exitcode or 0
            self.end()
            return Outcome(self.job.name, error=_how_it_ended(code))
        return received

    def end(self) -> None:
        """End the process, whatever it is doing."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _how_it_ended(code: int) -> str:
    """How a process ended without having done its job, in a sentence."""
    how = f"ended with exit status {code} before the job was done"
    if code < 0:
        how = f"was killed by signal {-code}"
    if code == -signal.SIGKILL:
        how += " (so does a system that runs out of memory: try fewer --jobs)"
    return f"its process {how}; what was finished is kept, and the same command goes on from there."


@contextmanager
def _spawning() -> Iterator[None]:
    """Processes started in here never hear Ctrl-C, and see no module of the working folder.

    Nor a terminal that is closed. The one that started them ends them, without a traceback each; a
    file ``random.py`` that lies where the user is does not stand for Python's.
    """
    path = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    resource_tracker.ensure_running()  # started within, it would let the signal through again
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, set(_OURS))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        del os.environ["PYTHONSAFEPATH"]
        if path is not None:
            os.environ["PYTHONSAFEPATH"] = path


def _serve(pipe: Connection, threads: int, deterministic: bool) -> None:
    """A worker's life: take a job, tell how it goes and what came of it."""
    import torch

    for number in _OURS:
        signal.signal(number, signal.SIG_IGN)
    terminal.prepare()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(threads)
    if deterministic:  # nine hundred imports, even to say no
        torch.use_deterministic_algorithms(True)

    def say(what: News | Outcome) -> None:
        try:
            pipe.send(what)
        except OSError:  # nobody listens any more, and the job is not to blame
            os._exit(1)

    while True:
        try:
            job = pipe.recv()
        except (EOFError, OSError):
            return
        say(do(job, _by_percent(say)))


def _end_with_parent() -> None:
    """End this process as soon as the one that started it is gone, be it killed."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _by_percent(say: Callable[[News], None]) -> Tell:
    """A hundred lines a job, not one a round."""
    last = -1.0

    def tell(name: str, done: int, total: int, what: str) -> None:
        nonlocal last
        share = done / max(total, 1)
        if share == 1 or share - last >= 0.01:
            last = share
            say((name, done, total, what))

    return tell
