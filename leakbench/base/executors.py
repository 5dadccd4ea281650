"""Where many jobs are done: in processes of this machine, or as tasks of a Ray cluster."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from leakbench.base import jobs as local
from leakbench.base.errors import UsageError
from leakbench.base.fault_log import fault_reported
from leakbench.base.jobs import Job, Outcome, Tell

HERE, RAY = "here", "ray"


@dataclass(frozen=True)
class Executor:
    """Does jobs; the one place that knows where.

    ``on``: here or ray. ``workers``: jobs at a time; on a cluster 1 stands for as many as it has
    room for. ``address``: of the cluster; "" begins one here, "auto" joins the one that is there.
    ``cpus``, ``gpus``: of a job on a cluster.
    """

    on: str = HERE
    workers: int = 1
    address: str = ""
    cpus: int = 1
    gpus: float = 0.0

    @property
    def here(self) -> bool:
        """Is it this machine alone?"""
        return self.on == HERE

    def device(self, wanted: str) -> str:
        """The device that jobs are told: on a cluster its GPUs decide, not those of this machine.

        Raises:
            UsageError: cuda was asked for, and no share of a GPU.
        """
        if self.here:
            return wanted
        if wanted == "cuda" and not self.gpus:
            raise UsageError(
                "--device cuda on Ray needs a share of a GPU for each job: add --gpus 1, or less"
                " where several fit on one."
            )
        if wanted == "auto":
            return "cuda" if self.gpus else "cpu"
        return wanted

    def planned_on(self, wanted: str) -> str:
        """The device on which this machine itself reads runs to plan what jobs do."""
        return wanted if self.here else "cpu"

    def run(
        self, jobs: Sequence[Job], *, tell: Tell = lambda *_: None, budget: float = math.inf
    ) -> list[Outcome]:
        """Do them all; as ``leakbench.base.jobs.run_jobs``. Faults of ours are written to a log.

        Raises:
            UsageError: there is no such cluster, or it cannot do these jobs.
        """
        return [_reported(o) for o in self._done(jobs, tell, budget)]

    def _done(self, jobs: Sequence[Job], tell: Tell, budget: float) -> list[Outcome]:
        if self.here or not jobs:
            return local.run_jobs(jobs, workers=self.workers, tell=tell, budget=budget)
        from leakbench.base import ray_jobs

        share = ray_jobs.Share(self.workers, self.cpus, self.gpus, budget)
        return ray_jobs.run_on_ray(jobs, self.address, share, tell)


def _reported(outcome: Outcome) -> Outcome:
    """The same; where it tells of a fault of ours, with a log on this machine."""
    if not outcome.fault:
        return outcome
    return replace(outcome, error=fault_reported(outcome.error, outcome.fault))


def executor(
    on: str = HERE, workers: int = 1, cpus: int | None = None, gpus: float | None = None
) -> Executor:
    """What `--on`, `--jobs`, `--cpus` and `--gpus` say.

    Raises:
        UsageError: there is no such place, or it knows no shares.
    """
    name, _, address = on.partition(":")
    if name not in (HERE, RAY) or (name == HERE and address):
        raise UsageError(f"--on {on}: expected here, ray, or ray:ADDRESS as in ray:10.0.0.1:6379.")
    if name == HERE:
        if cpus is not None or gpus is not None:
            raise UsageError("--cpus and --gpus are shares of a cluster: they go with --on ray.")
        return Executor(workers=workers)
    if address.startswith("//"):
        raise UsageError(
            f"--on {on}: a client from outside does not see the cluster's folders. Run the command"
            " on a node of the cluster, with ray:HOST:6379 or plain ray."
        )
    share = gpus or 0.0
    if not math.isfinite(share) or share < 0 or (share > 1 and share != int(share)):
        raise UsageError(f"--gpus {share:g}: expected a share of one GPU, or a whole number.")
    return Executor(RAY, workers, address, 1 if cpus is None else cpus, share)
