"""Which of a round's updates are attacked, and which local steps made them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from leakbench.attacking import Outline, View
from leakbench.federation import Defense, Training, trainings
from leakbench.record import Message


@dataclass(frozen=True)
class Behind:
    """An update and what made it."""

    message: Message
    labels: Tensor  # (B,) of its examples
    sizes: Sequence[int]  # how many of these each local step had, in order
    loss: str  # the name of the loss


def first(view: View, *, trained: bool = False) -> list[Message]:
    """The updates of the attacked round's first training, from the model that opened the round.

    ``trained``: of the first that has any step (FedAA's may have none).
    """
    found, idle = view.messages("update", round=view.round), set()
    if trained:
        made = trainings(view.loss_method(), view.round, last=view.last)
        idle = {t.phase for t in made if not t.steps and not t.epochs}
    phases = {m.phase for m in found} - idle
    return [m for m in found if m.phase == min(phases, default=-1)]


def shortest(view: View, *, probe: bool, most: int) -> list[Behind]:
    """Those of the training with the fewest local steps, of at most ``most``; or its probes."""
    method, labels, known = view.loss_method(), view.know("labels"), []
    made = trainings(method, view.round, last=view.last)
    losses = {t.phase: t.name for t in made}
    for m in view.messages("update", round=view.round, probe=probe):
        y = labels.get((m.sender, m.round, m.phase, m.probe))  # None: it trained on nothing
        sizes = [] if y is None else _sizes(method, made, m.phase, len(y), probe=probe)
        if y is not None and 0 < len(sizes) <= most:
            known.append(Behind(m, y, sizes, losses[m.phase]))
    _, phase = min(((len(b.sizes), b.message.phase) for b in known), default=(0, -1))
    return [b for b in known if b.message.phase == phase]


def fewest(run: Outline, *, probe: bool) -> int:
    """The fewest local steps that any audited update is made of; 0 if none or if it cannot be told.

    Of probes: one, or they are none. A probe is what a client with a single example would have
    sent: a step, if the training is one step or one epoch.
    """
    method = run.method
    if probe:
        return int(any(t.once for t in trainings(method, 1)))
    steps = []
    for t, phase, examples in run.behind:
        steps.append(len(_sizes(method, trainings(method, t), phase, examples, probe=False)))
    return min((n for n in steps if n), default=0)


def _sizes(
    method: Defense, made: Sequence[Training], phase: int, examples: int, *, probe: bool
) -> list[int]:
    """The examples of each local step behind an update; empty where it cannot be told."""
    training = next((e for e in made if e.phase == phase), None)
    if training is None or not examples:
        return []
    if probe:
        return [1] if training.once else []
    return training.sizes(examples, method.batch)
