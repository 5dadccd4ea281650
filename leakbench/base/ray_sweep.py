"""Jobs given out to a Ray cluster and listened to, until each has an outcome.

A job whose node or process is lost is given out again; what comes back of others is put in place
as it comes.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from leakbench.base import ray_cluster, terminal
from leakbench.base.errors import circumstance
from leakbench.base.folder_job import FolderJob
from leakbench.base.interrupts import heed
from leakbench.base.jobs import Job, Outcome, Tell
from leakbench.base.ray_task import NewsBox, task
from leakbench.base.ray_transport import Going, SentFolders
from leakbench.base.ray_worker import Ended, TaskOrder

TRIES = 4  # of a job whose node or process was lost
LOOK = 0.3  # seconds between two looks at what there is to tell
GRACE = 5.0  # seconds in which cancelled jobs tidy up


@dataclass(frozen=True)
class Share:
    """What of a cluster the jobs may have.

    ``workers``: at a time; 1 stands for as many as there is room for. ``cpus``, ``gpus``: of each.
    ``end``: by ``time.monotonic``; those that are predicted to end later are left out.
    """

    workers: int
    cpus: int
    gpus: float
    end: float = math.inf


@dataclass
class Sweep:
    """Many jobs on their way. ``sending``: some nodes do not see the folders."""

    ray: Any
    jobs: Sequence[Job]
    order: TaskOrder
    share: Share
    tell: Tell
    sending: bool
    tries: Counter[int] = field(default_factory=Counter)
    done: dict[int, Outcome] = field(default_factory=dict)

    def run(self) -> list[Outcome]:
        """Give out, listen, put in place."""
        ray, self.todo = self.ray, deque(range(len(self.jobs)))
        self.busy, self.sent = dict[Any, Going](), SentFolders(ray)
        # Beside us: what is told is told for as long as somebody is here to hear it.
        here = ray.get_runtime_context().get_node_id()
        how = {"num_cpus": 0, "max_restarts": -1, "runtime_env": ray_cluster.runtime_env()}
        how["scheduling_strategy"] = ray_cluster.on_node(here)
        self.box = ray.remote(NewsBox).options(**how).remote()
        self.task = ray.remote(task)
        try:
            while self.todo or self.busy:
                while self.todo and len(self.busy) < self._room():
                    self._give(self.todo.popleft())
                if self.busy:
                    ready, _ = ray.wait(list(self.busy), num_returns=1, timeout=LOOK)
                    for stream in ready:
                        self._receive(stream)
                self._listen()
                heed()
        except BaseException:
            self._cancel()
            raise
        finally:
            for going in self.busy.values():
                going.discard()
            ray.kill(self.box)
        return [self.done[i] for i in range(len(self.jobs))]

    def _slots(self) -> int:
        """How many jobs the nodes that are there can do at once."""
        of = self.share.cpus, self.share.gpus
        return sum(ray_cluster.slots(n, *of) for n in ray_cluster.alive(self.ray))

    def _room(self) -> float:
        """How many may be given out.

        All, so that a cluster that can grow does; but no more than can be done at once where they
        are timed, or folders are on their way.
        """
        limit = self.share.workers if self.share.workers > 1 else math.inf
        if self.sending or self.share.end < math.inf:
            limit = min(limit, max(1, self._slots()))
        return limit

    def _give(self, i: int) -> None:
        job = self.jobs[i]
        if time.monotonic() + job.seconds > self.share.end:
            self._finish(i, Outcome(job.name, left_out=True))
            return
        order = replace(self.order, again=self.tries[i] > 0, sent=self.sending)
        try:
            refs = self.sent.of(i, job) if self.sending else []
        except OSError as error:
            self._finish(i, Outcome(job.name, error=circumstance(error), wrong=True))
            return
        how: dict[str, Any] = {"num_cpus": self.share.cpus, "num_gpus": self.share.gpus}
        how |= {"max_retries": 0, "runtime_env": ray_cluster.runtime_env()}
        how |= {"name": f"leakbench {job.name}"[:200]}
        # The worker waits where pieces come faster than they are put down here.
        how |= {"num_returns": "streaming", "_generator_backpressure_num_objects": 2}
        there = replace(job, needs=None) if isinstance(job, FolderJob) else job  # asked here alone
        self.busy[self.task.options(**how).remote(there, order, self.box, refs)] = Going(i, job)

    def _receive(self, stream: Any) -> None:
        """What a task says next: a piece of its folder, its end, or that it was lost."""
        going, errors = self.busy[stream], self.ray.exceptions
        try:
            said = self.ray.get(next(stream))
        except StopIteration:
            del self.busy[stream]
            self._end(going, "it ended without a word")
            return
        except errors.RayTaskError as error:
            if not isinstance(error.cause, ImportError):
                raise RuntimeError(f"{going.job.name}: {error}") from None
            del self.busy[stream]  # a node that came later
            why = f"a node of the cluster cannot run leakbench ({error.cause}): install it there."
            self._finish(going.place, Outcome(going.job.name, error=why, wrong=True))
            return
        except errors.RayError as error:
            heed()
            del self.busy[stream]
            self._end(going, type(error).__name__)
            return
        if isinstance(said, Ended):
            going.ended = said
        else:
            going.keep(said, self.order.marks)

    def _end(self, going: Going, how: str) -> None:
        """A task says no more; ``how`` it ended, if its last word is missing."""
        i, job, ended = going.place, going.job, going.ended
        if ended is None:
            going.discard()
            self._lost(i, how)
        elif ended.fault:
            raise RuntimeError(f"{job.name}: {ended.fault}")
        elif ended.unseen:  # a node that came later, and sees less
            self.sending = True
            self.todo.append(i)
        elif ended.refused or ended.outcome is None:
            self._finish(i, Outcome(job.name, error=ended.refused, wrong=True))
        else:
            self._finish(i, going.settle(ended.outcome, ended.brought))

    def _finish(self, i: int, outcome: Outcome) -> None:
        self.done[i] = outcome
        self.sent.forget(i)

    def _lost(self, i: int, how: str) -> None:
        """Its node or its process is gone: another goes on, from the checkpoint if it sees one."""
        name = self.jobs[i].name
        self.tries[i] += 1
        if self.tries[i] < TRIES:
            where = "" if self._slots() else " as soon as a node has room for it: none has now"
            terminal.say(f"{name}: its process or its node was lost; it is given out again{where}")
            self.todo.append(i)
            return
        why = (
            f"its process or its node was lost {TRIES} times (the last time: {how}); what was"
            " finished is kept, and the same command goes on from there."
        )
        self._finish(i, Outcome(name, error=why))

    def _listen(self) -> None:
        """Tell what jobs told."""
        try:
            news = self.ray.get(self.box.take.remote(), timeout=10)
        except self.ray.exceptions.RayError:  # it begins anew: what it held is lost, and no result
            heed()
            return
        for said in news:
            if isinstance(said, str):
                terminal.say(said)
            else:
                self.tell(*said)

    def _cancel(self) -> None:
        """Ask every task to end, and wait a little: each takes its own folder away."""
        with suppress(Exception, KeyboardInterrupt):
            for stream in self.busy:
                self.ray.cancel(stream, force=False, recursive=False)
            over = [stream.completed() for stream in self.busy]
            self.ray.wait(over, num_returns=len(over), timeout=GRACE)
