"""Processes for jobs, each with a pipe of its own: one that is killed takes nobody along, and none outlives the process that began it."""

from __future__ import annotations

import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection
from typing import Any

import torch

from leakbench.jobs import Job, Outcome, Tell, do

News = tuple[str, int, int, str]  # what ``Tell`` is told


@dataclass(frozen=True)
class Fault:
    """What a job raised that no job may raise: the traceback."""

    text: str


class Worker:
    """A process that does one job after another; after it was killed, the next job gets a new process."""

    pipe: Connection  # our end, once there was a job

    def __init__(self, workers: int) -> None:
        """One of ``workers``, which share the cores."""
        self._settings = (max(1, (os.cpu_count() or 1) // workers), torch.are_deterministic_algorithms_enabled())
        self._process: Any = None

    def give(self, job: Job) -> None:
        """Let it do ``job``; the one before is done."""
        if self._process is None:
            context = get_context("spawn")
            self.pipe, there = context.Pipe()
            self._process = context.Process(target=_serve, args=(there, *self._settings), daemon=True)
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
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit status {code} before the job was done"
        memory = " (so does a system that runs out of memory: try fewer --jobs)" if code == -9 else ""
        return f"its process {how}{memory}; what was finished is kept, and the same command goes on from there."

    def end(self) -> None:
        """End the process, whatever it is doing."""
        if self._process is not None:
            self._process.terminate()
            self._process.join()
            self.pipe.close()
            self._process = None


def _serve(pipe: Connection, threads: int, deterministic: bool) -> None:
    """A worker's life: take a job, tell how it goes and what came of it."""
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
    """Processes started in here ignore Ctrl-C from their first moment: the one that started them ends them, without a traceback each."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
