"""How much of some jobs is done, and when they will have ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

SHORTEST = 2.0  # seconds of work before an end is foretold
LEAST = 0.01  # and of all the work: a first job also starts processes, and tells little of others
UNKNOWN = 1.0  # what a job weighs of which nobody knows how long it takes
QUICK = 1.0  # what it weighs at least: to begin and to score takes its time, too


@dataclass
class Pace:
    """The work of several jobs, weighed by how long each was predicted to take.

    Predictions only weigh jobs against each other: how fast they go is measured.
    """

    total: int
    seconds: Mapping[str, float] = field(default_factory=dict)  # by the job's name
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._begun = self.clock()
        self._done: dict[str, float] = {}  # job -> the share of it that is done

    @property
    def begun(self) -> int:
        """How many jobs have begun."""
        return len(self._done)

    def heard(self, name: str, done: int, of: int) -> None:
        """A job says how far it is."""
        self._done[name] = done / of if of > 0 else 0.0

    @property
    def share(self) -> float:
        """Of all the work, 0 to 1."""
        known = sum(self._weight(name) for name in self._done)
        rest = [self._weight(name) for name in self.seconds if name not in self._done]
        unseen = self.total - len(self._done) - len(rest)
        whole = known + sum(rest) + max(unseen, 0) * UNKNOWN
        return sum(self._weight(n) * part for n, part in self._done.items()) / (whole or 1.0)

    @property
    def left(self) -> str:
        """As in ", about 4 min left"; nothing while too little is done to say."""
        took, share = self.clock() - self._begun, self.share
        if took < SHORTEST or share < LEAST or share >= 1.0:
            return ""
        return f", {duration(took * (1 - share) / share)} left"

    def _weight(self, name: str) -> float:
        return max(self.seconds.get(name, UNKNOWN), QUICK)


def duration(seconds: float) -> str:
    """As in "about 40 s", "about 4 min", "about 1.5 h"."""
    if seconds < 90:
        return f"about {max(1, round(seconds))} s"
    if seconds < 5400:
        return f"about {round(seconds / 60)} min"
    return f"about {seconds / 3600:.1f} h"
