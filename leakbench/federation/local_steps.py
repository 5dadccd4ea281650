"""Which trainings a round of a method has, and which local steps an update is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from leakbench.federation.defense import Defense


@dataclass(frozen=True)
class Training:
    """A local training of a round."""

    phase: int
    name: str  # of the loss
    steps: int  # 0: by epochs
    epochs: int

    @property
    def once(self) -> bool:
        """Would who holds a single example take a single step?"""
        return self.steps == 1 or (self.steps, self.epochs) == (0, 1)

    def sizes(self, examples: int, batch: int) -> list[int]:
        """How many examples each step of an update had, of ``examples`` in all; else empty.

        By epochs every pass ends in what is left of the client's data. By steps all are full
        batches; where somebody holds less than one batch they are not, and of several steps the
        sizes cannot be told.
        """
        if self.steps == 1:
            return [examples]
        if self.steps:
            return [batch] * self.steps if examples == self.steps * batch else []
        if not self.epochs or examples % self.epochs:
            return []
        full, rest = divmod(examples // self.epochs, batch)
        return ([batch] * full + [rest] * bool(rest)) * self.epochs


def steps_or_epochs(method: Defense, steps: int | None, epochs: int | None) -> tuple[int, int]:
    """(steps, epochs) that ``train`` was told, or where it was told neither, the method's own."""
    if steps is None and epochs is None:
        return method.steps, method.epochs
    return steps or 0, epochs or 0


def trainings(method: Defense, t: int, *, last: int | None = None) -> list[Training]:
    """The trainings of round ``t``, in order: the method is read, no party's function run.

    ``last``: the run's last round; what follows it, the method says in ``after``.
    """
    reading = _Reading(method, t)
    if t == 0:
        method.before(reading)
    elif last is not None and t > last:
        method.after(reading)
    else:
        method.round(reading)
    return reading.found


class _Reading:
    """A choreography that notes its verbs; phases are counted as the federation counts them."""

    def __init__(self, method: Defense, t: int) -> None:
        self.method, self.t, self.phase = method, t, 0
        self.found: list[Training] = []

    def server(self, fn: Callable[..., Any]) -> None:
        self.phase += 1

    def clients(self, fn: Callable[..., Any]) -> None:
        self.phase += 1

    def train(
        self, fn: Callable[..., Any], *, steps: int | None = None, epochs: int | None = None
    ) -> None:
        self.found.append(
            Training(self.phase, fn.__name__, *steps_or_epochs(self.method, steps, epochs))
        )
        self.phase += 1
