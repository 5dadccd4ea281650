"""In which order attacks are done, so that a budget is spent on every setting alike."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from leakbench.base.jobs import Job
from leakbench.base.spec import canonical
from leakbench.cli.pace import QUICK


@dataclass
class Rotation:
    """The attacks of several runs, as they are planned, run by run."""

    todo: list[Job] = field(default_factory=list)
    _runs: list[tuple[int, int]] = field(default_factory=list)  # (seed's, setting's place) of each
    _settings: list[str] = field(default_factory=list)  # of each run
    _of: list[int] = field(default_factory=list)  # job -> its run
    _kinds: list[str] = field(default_factory=list)  # job -> which attack it is

    def begin(self, spec: Mapping[str, Any]) -> None:
        """The jobs that are added from now on attack a run of this specification."""
        own = canonical({**spec, "seed": None})
        self._settings.append(own)
        place = list(dict.fromkeys(self._settings)).index(own)
        self._runs.append((self._settings.count(own), place))

    def add(self, job: Job, kind: str) -> None:
        """The next attack on the run that was begun last; ``kind``: the attack, on any run."""
        self.todo.append(job)
        self._kinds.append(kind)
        self._of.append(len(self._runs) - 1)

    def order(self) -> list[int]:
        """The places of ``todo``, the cheap ones first.

        An attack costs what it takes on the run where it is quickest. Of those that cost alike
        (within a factor of two) every setting has one before any has its second: one seed of each,
        then the next seed of each, then the next attack.
        """
        quickest: dict[str, float] = {}
        for job, kind in zip(self.todo, self._kinds, strict=True):
            if job.seconds:
                quickest[kind] = min(job.seconds, quickest.get(kind, math.inf))
        both = zip(self.todo, self._kinds, strict=True)
        costs = [_class(quickest[kind] if job.seconds else 0.0) for job, kind in both]
        cheap = sorted(range(len(self.todo)), key=lambda i: costs[i])
        turn, seen = dict[int, int](), Counter[int]()
        for i in cheap:
            turn[i] = seen[self._of[i]]
            seen[self._of[i]] += 1
        return sorted(cheap, key=lambda i: (costs[i], turn[i], *self._runs[self._of[i]]))


def _class(seconds: float) -> float:
    """The power of two that they come to; -inf: those of results that are there already."""
    return math.frexp(max(seconds, QUICK))[1] if seconds else -math.inf


def weight(jobs: Sequence[Job]) -> float:
    """Seconds that they are predicted to take, one after another, each with its beginning."""
    return math.fsum(max(job.seconds, QUICK) for job in jobs if job.seconds)


def left(jobs: Sequence[Job], done: Sequence[Job], took: float, workers: int) -> float:
    """Seconds that ``jobs`` would take: as predicted, and what each that is done took beyond that.

    That is mostly its beginning, which does not grow with a job.

    Args:
        jobs: which were left out.
        done: which were not.
        took: seconds, of all that are done.
        workers: how many jobs run at a time.
    """
    begun = [job for job in done if job.seconds]
    todo = [job for job in jobs if job.seconds]
    beyond = max(took * workers - weight(begun), 0.0) / len(begun) if begun else 0.0
    whole = (weight(todo) + beyond * len(todo)) / workers
    return max(whole, max((job.seconds + beyond for job in todo), default=0.0))
