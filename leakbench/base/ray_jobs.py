"""Jobs as tasks of a Ray cluster: each whole on one node, in folders that every node sees.

One whose node or process is lost is given out again, and goes on from its checkpoint. Ray moves
values between processes; no file is ever written in its form.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from leakbench.base import nodes, ray_cluster, ray_task, terminal
from leakbench.base.interrupts import heed
from leakbench.base.jobs import Job, Outcome, Tell
from leakbench.base.ray_task import NewsBox, TaskOrder

TRIES = 4  # of a job whose node or process was lost
LOOK = 0.3  # seconds between two looks at what there is to tell
GRACE = 5.0  # seconds in which cancelled jobs tidy up


@dataclass(frozen=True)
class Share:
    """What of a cluster the jobs may have.

    ``workers``: at a time; 1 stands for as many as there is room for. ``cpus``, ``gpus``: of each;
    as many threads as cpus. ``budget``: seconds; jobs that are predicted to end later are left out.
    """

    workers: int
    cpus: int
    gpus: float
    budget: float = math.inf


def run_on_ray(jobs: Sequence[Job], address: str, share: Share, tell: Tell) -> list[Outcome]:
    """Do them all on the cluster at ``address``; outcomes in the order of ``jobs``.

    Raises:
        UsageError: Ray is not there, no node has room, or one has other code, or does not see the
            folders that the jobs write.
        KeyboardInterrupt: a signal was heard.
    """
    import torch

    end = time.monotonic() + share.budget
    folders = [Path(job.folder).absolute().parent for job in jobs if job.folder]
    with ray_cluster.connected(address) as ray, nodes.marked_nodes(folders) as marks:
        wanted = nodes.Wanted(nodes.name(), nodes.node_code(), marks)
        ray_cluster.want(ray, wanted, ray_cluster.fitting_nodes(ray, share.cpus, share.gpus))
        alike = torch.are_deterministic_algorithms_enabled()
        order = TaskOrder(wanted, str(Path.cwd()), share.cpus, alike)
        return _Sweep(ray, jobs, order, share, end, tell).run()


@dataclass
class _Sweep:
    """Many jobs on their way, given out and listened to until each has an outcome."""

    ray: Any
    jobs: Sequence[Job]
    order: TaskOrder
    share: Share
    end: float  # by ``time.monotonic``
    tell: Tell
    busy: dict[Any, int] = field(default_factory=dict)  # {Ray's name of a task: its job's place}
    tries: Counter[int] = field(default_factory=Counter)
    done: dict[int, Outcome] = field(default_factory=dict)

    def run(self) -> list[Outcome]:
        """Give out, and listen."""
        ray, self.todo = self.ray, deque(range(len(self.jobs)))
        # Beside us: what is told is told for as long as somebody is here to hear it.
        here = ray.get_runtime_context().get_node_id()
        how = {"num_cpus": 0, "max_restarts": -1, "runtime_env": ray_cluster.runtime_env()}
        how["scheduling_strategy"] = ray_cluster.on_node(here)
        self.box = ray.remote(NewsBox).options(**how).remote()
        try:
            while self.todo or self.busy:
                while self.todo and len(self.busy) < self._room():
                    self._give(self.todo.popleft())
                ready, _ = ray.wait(list(self.busy), timeout=LOOK) if self.busy else ([], [])
                self._listen()
                for task in ready:
                    self._receive(task, self.busy.pop(task))
                heed()
        except BaseException:
            self._cancel()
            raise
        finally:
            ray.kill(self.box)
        return [self.done[i] for i in range(len(self.jobs))]

    def _slots(self) -> int:
        """How many jobs the nodes that are there can do at once."""
        of = self.share.cpus, self.share.gpus
        return sum(ray_cluster.slots(n, *of) for n in ray_cluster.alive(self.ray))

    def _room(self) -> float:
        """How many may be given out.

        All, so that a cluster that can grow does; but no more than can be done at once where they
        are timed.
        """
        limit = self.share.workers if self.share.workers > 1 else math.inf
        return min(limit, max(1, self._slots())) if self.end < math.inf else limit

    def _give(self, i: int) -> None:
        job = self.jobs[i]
        if time.monotonic() + job.seconds > self.end:
            self.done[i] = Outcome(job.name, left_out=True)
            return
        how: dict[str, Any] = {"num_cpus": self.share.cpus, "num_gpus": self.share.gpus}
        how |= {"runtime_env": ray_cluster.runtime_env(), "max_retries": 0}
        how |= {"name": f"leakbench {job.name}"[:200]}
        task = self.ray.remote(ray_task.work).options(**how)
        self.busy[task.remote(job, replace(self.order, again=self.tries[i] > 0), self.box)] = i

    def _receive(self, task: Any, i: int) -> None:
        """What came of a task: an outcome, or that it was lost."""
        name, errors = self.jobs[i].name, self.ray.exceptions
        try:
            said = self.ray.get(task)
        except errors.RayTaskError as error:
            if not isinstance(error.cause, ImportError):
                raise RuntimeError(f"{name}: {error}") from None
            # A node that came later.
            why = f"a node of the cluster cannot run leakbench ({error.cause}): install it there."
            said = Outcome(name, error=why, wrong=True)
        except errors.RayError as error:
            heed()
            self._lost(i, type(error).__name__)
            return
        self.done[i] = said

    def _lost(self, i: int, how: str) -> None:
        """Its node or its process is gone: another goes on from the checkpoint."""
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
        self.done[i] = Outcome(name, error=why)

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
        """Ask every task to end, and wait a little for it."""
        with suppress(Exception, KeyboardInterrupt):
            for task in self.busy:
                self.ray.cancel(task, force=False, recursive=False)
            self.ray.wait(list(self.busy), num_returns=len(self.busy), timeout=GRACE)
