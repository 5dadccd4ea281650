"""Jobs as tasks of a Ray cluster: each whole on one node, and what it made put in its place here.

Where a node sees the folder of runs it works there. Elsewhere a job's folder is sent and brought
back. Ray moves values between processes; no file is ever written in its form.
"""

from __future__ import annotations

import math
import shutil
import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from leakbench.base import nodes, parcels, ray_cluster, ray_worker, terminal
from leakbench.base.errors import BrokenFile, LeakbenchError, UsageError, circumstance
from leakbench.base.folder_job import FolderJob, told
from leakbench.base.interrupts import heed
from leakbench.base.jobs import Job, News, Outcome, Tell
from leakbench.base.ray_worker import Ended, TaskOrder

TRIES = 4  # of a job whose node or process was lost
LOOK = 0.3  # seconds between two looks at what there is to tell
GRACE = 5.0  # seconds in which cancelled jobs tidy up


def run(
    jobs: Sequence[Job],
    *,
    address: str,
    workers: int,
    cpus: int,
    gpus: float,
    tell: Tell,
    budget: float = math.inf,
) -> list[Outcome]:
    """Do them all; outcomes in the order of ``jobs``.

    Args:
        jobs: those that are a ``FolderJob`` leave their folder here, wherever they are done.
        address: of the cluster.
        workers: at a time; 1 stands for as many as there is room for.
        cpus: of each, and its threads.
        gpus: of each.
        tell: is told how they go on.
        budget: seconds; those that are predicted to end later are left out.

    Raises:
        UsageError: Ray is not there, no node has room, or a node has other code.
        RuntimeError: a job raised what no job may raise; with its traceback.
        KeyboardInterrupt: a signal was heard.
    """
    end = time.monotonic() + budget
    todo = [_whole(job) for job in jobs]
    around = {str(j.around) for j in todo if isinstance(j, FolderJob)}
    marks = {folder: nodes.new_mark() for folder in sorted(around)}
    with ray_cluster.connected(address) as ray:
        try:
            for folder, name in marks.items():
                nodes.mark(Path(folder), name)
            fit = ray_cluster.fit(ray, cpus, gpus)
            answers = ray_cluster.everywhere(ray, ray_worker.facts, fit, marks)
            ours = nodes.code()
            for theirs, _ in answers:
                if why := nodes.unlike(ours, theirs):
                    raise UsageError(why)
            blind = {theirs.node for theirs, unseen in answers if unseen}
            if blind:
                terminal.say(
                    f"{', '.join(sorted(blind))} does not see {', '.join(sorted(around))}: what is"
                    " made there is brought back"
                )
            order = TaskOrder(ours, marks, cpus, _deterministic())
            sweep = _Sweep(ray, todo, order, tell, end, workers, cpus, gpus, sending=bool(blind))
            done = sweep.run()
        finally:
            for folder, name in marks.items():
                with suppress(OSError):
                    (Path(folder) / name).unlink(missing_ok=True)
    return [_as_asked(*one) for one in zip(jobs, todo, done, strict=True)]


def _as_asked(asked: Job, job: Job, outcome: Outcome) -> Outcome:
    """With paths as they were given."""
    if isinstance(asked, FolderJob) and isinstance(job, FolderJob):
        return told(outcome, job.around, asked.around)
    return outcome


def _whole(job: Job) -> Job:
    """With the whole path of its folder, which means the same on another machine."""
    return job.at(job.around.absolute()) if isinstance(job, FolderJob) else job


def _deterministic() -> bool:
    import torch

    return torch.are_deterministic_algorithms_enabled()


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


def task(job: Job, order: TaskOrder, box: Any, sent: Sequence[Any]) -> Iterator[Any]:
    """``leakbench.base.ray_worker.work`` as Ray calls it; ``sent``: references to pieces."""
    ray = ray_cluster.imported()

    def say(news: News | str) -> None:
        with suppress(Exception):  # nobody listens: the job is not to blame
            box.put.remote(news)

    def fetch() -> Iterator[parcels.Piece]:
        for ref in sent:
            yield ray.get(ref)

    yield from ray_worker.work(job, order, say, fetch)


@dataclass
class _Going:
    """A job that was given out: what came back of it so far lies in ``fresh``."""

    place: int
    fresh: Path | None = None
    ended: Ended | None = None


@dataclass
class _Sweep:
    ray: Any
    jobs: Sequence[Job]
    order: TaskOrder
    tell: Tell
    end: float
    workers: int
    cpus: int
    gpus: float
    sending: bool
    tries: Counter[int] = field(default_factory=Counter)
    sent: dict[str, list[Any]] = field(default_factory=dict)  # folder and what of it: pieces
    users: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    done: dict[int, Outcome] = field(default_factory=dict)

    def run(self) -> list[Outcome]:
        """Give out, listen, put in place."""
        ray, self.todo = self.ray, deque(range(len(self.jobs)))
        self.busy = dict[Any, _Going]()
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
                _discard(going)
            ray.kill(self.box)
        return [self.done[i] for i in range(len(self.jobs))]

    def _room(self) -> float:
        """How many may be given out.

        All, so that a cluster that can grow does; but no more than can be done at once where they
        are timed, or folders are on their way.
        """
        limit = self.workers if self.workers > 1 else math.inf
        if self.sending or self.end < math.inf:
            there = ray_cluster.alive(self.ray)
            slots = sum(ray_cluster.slots(n, self.cpus, self.gpus) for n in there)
            limit = min(limit, max(1, slots))
        return limit

    def _give(self, i: int) -> None:
        job = self.jobs[i]
        if time.monotonic() + job.seconds > self.end:
            self.done[i] = Outcome(job.name, left_out=True)
            return
        order = replace(self.order, again=self.tries[i] > 0, sent=self.sending)
        try:
            refs = self._sent(i) if self.sending else []
        except OSError as error:
            self.done[i] = Outcome(job.name, error=circumstance(error), wrong=True)
            return
        how: dict[str, Any] = {"num_cpus": self.cpus, "num_gpus": self.gpus, "max_retries": 0}
        how |= {"runtime_env": ray_cluster.runtime_env()}
        how |= {"name": f"leakbench {job.name}"[:200]}
        # The worker waits where pieces come faster than they are put down here.
        how |= {"num_returns": "streaming", "_generator_backpressure_num_objects": 2}
        if isinstance(job, FolderJob):
            job = replace(job, needs=None)  # asked here, and nobody's business there
        self.busy[self.task.options(**how).remote(job, order, self.box, refs)] = _Going(i)

    def _sent(self, i: int) -> list[Any]:
        """The pieces of a job's folder, put once for all jobs that want the same of it."""
        job = self.jobs[i]
        names = parcels.names(job) if isinstance(job, FolderJob) else []
        if not isinstance(job, FolderJob) or not names:
            return []
        key = "\0".join([str(job.around), *names])
        if key not in self.sent:
            pieces = parcels.pieces(job.around, names)
            self.sent[key] = [self.ray.put(p) for p in pieces]
        self.users[key].add(i)
        return self.sent[key]

    def _receive(self, stream: Any) -> None:
        """What a task says next: a piece of its folder, its end, or that it was lost."""
        going = self.busy[stream]
        i = going.place
        try:
            said = self.ray.get(next(stream))
        except StopIteration:
            del self.busy[stream]
            self._end(i, going)
            return
        except self.ray.exceptions.RayTaskError as error:
            if not isinstance(error.cause, ImportError):
                raise RuntimeError(f"{self.jobs[i].name}: {error}") from None
            del self.busy[stream]  # a node that came later
            why = f"a node of the cluster cannot run leakbench ({error.cause}): install it there."
            self._finish(i, Outcome(self.jobs[i].name, error=why, wrong=True))
            return
        except self.ray.exceptions.RayError as error:
            heed()
            del self.busy[stream]
            self._lost(i, going, error)
            return
        if isinstance(said, Ended):
            going.ended = said
        else:
            self._keep(going, said)

    def _keep(self, going: _Going, piece: parcels.Piece) -> None:
        job = self.jobs[going.place]
        if going.fresh is None and isinstance(job, FolderJob):
            going.fresh = job.folder.with_name(f".{job.folder.name}.ray-{uuid4().hex[:12]}")
        if going.fresh is not None:
            parcels.unpack(piece, going.fresh)

    def _end(self, i: int, going: _Going) -> None:
        job, ended = self.jobs[i], going.ended
        if ended is None:
            self._lost(i, going, "it ended without a word")
            return
        if ended.fault:
            raise RuntimeError(f"{job.name}: {ended.fault}")
        if ended.unseen:  # a node that came later, and sees less
            self.sending = True
            self.todo.append(i)
            return
        if ended.refused or ended.outcome is None:
            self._finish(i, Outcome(job.name, error=ended.refused, wrong=True))
            return
        outcome = ended.outcome
        try:
            why = ""
            if going.fresh is not None and ended.brought and isinstance(job, FolderJob):
                why = parcels.place(job, going.fresh, ended.brought)
            if why:
                outcome = Outcome(job.name, error=why)
        except LeakbenchError as error:
            wrong, damaged = isinstance(error, UsageError), isinstance(error, BrokenFile)
            outcome = Outcome(job.name, error=str(error), wrong=wrong, damaged=damaged)
        finally:
            _discard(going)
        self._finish(i, outcome)

    def _finish(self, i: int, outcome: Outcome) -> None:
        self.done[i] = outcome
        for key, users in list(self.users.items()):
            users.discard(i)
            if not users:
                del self.users[key], self.sent[key]

    def _lost(self, i: int, going: _Going, why: object) -> None:
        """Its node or its process is gone: another goes on, from the checkpoint if it sees one."""
        _discard(going)
        job = self.jobs[i]
        self.tries[i] += 1
        if self.tries[i] < TRIES:
            terminal.say(f"{job.name}: its process or its node was lost; it is given out again")
            self.todo.append(i)
            return
        self._finish(
            i,
            Outcome(
                job.name,
                error=f"its process or its node was lost {TRIES} times (the last time:"
                f" {type(why).__name__}); what was finished is kept, and the same command goes on"
                " from there.",
            ),
        )

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
            end = time.monotonic() + GRACE
            left = list(self.busy)
            while left and time.monotonic() < end:
                ready, left = self.ray.wait(left, num_returns=1, timeout=LOOK)
                left += [s for s in ready if not _over(self.ray, s)]


def _over(ray: Any, stream: Any) -> bool:
    """Does it say nothing more?"""
    try:
        ray.get(next(stream))
    except StopIteration:
        return True
    except ray.exceptions.RayError:
        return True
    return False


def _discard(going: _Going) -> None:
    if going.fresh is not None:
        shutil.rmtree(going.fresh, ignore_errors=True)
