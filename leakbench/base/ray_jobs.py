"""Jobs as tasks of a Ray cluster: each whole on one node, and what it made put in its place here.

Where a node sees the folder of runs it works there. Elsewhere a job's folder is sent and brought
back. Ray moves values between processes; no file is ever written in its form.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from leakbench.base import nodes, ray_cluster, ray_worker, terminal
from leakbench.base.errors import UsageError
from leakbench.base.folder_job import FolderJob, told
from leakbench.base.jobs import Job, Outcome, Tell
from leakbench.base.ray_sweep import Share, Sweep
from leakbench.base.ray_worker import TaskOrder


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
                    f"not seen by {', '.join(sorted(blind))}: {', '.join(sorted(around))}; what is"
                    " made there is brought back"
                )
            order = TaskOrder(ours, marks, cpus, _deterministic())
            share = Share(workers, cpus, gpus, end)
            done = Sweep(ray, todo, order, share, tell, sending=bool(blind)).run()
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
