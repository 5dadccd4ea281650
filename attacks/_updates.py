"""Which of a round's updates are attacked, and which local steps made them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leakbench.attacking import Outline, View
from leakbench.base import torch
from leakbench.federation import Defense, Facts, Training, trainings
from leakbench.record import Message, recurring

if TYPE_CHECKING:
    from torch import Tensor

Rows = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Behind:
    """An update and what made it.

    An image over several epochs is one example: ``rows`` says which of the examples stood in each
    local step. Which one of a class it was that came again in another batch of a later epoch
    cannot be told (``guessed``); the first one of the class is taken, then the next.
    """

    message: Message
    labels: Tensor | None  # (B,) of its examples, each once; None where they are not granted
    rows: Rows
    loss: str  # the name of the loss
    guessed: bool = False

    @property
    def examples(self) -> int:
        """How many are unknown."""
        return 1 + max(max(step) for step in self.rows)

    @property
    def sizes(self) -> list[int]:
        """How many examples each local step had, in order."""
        return [len(step) for step in self.rows]


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
    """Those of the training with the fewest local steps, of at most ``most``; or its probes.

    With the labels where the view grants them, else by the number of examples alone (knowledge
    "sizes").
    """
    sent = view.messages("update", round=view.round, probe=probe)
    known = _known(view, sent, probe=probe, most=most)
    _, phase = min(((len(b.rows), b.message.phase) for b in known), default=(0, -1))
    return [b for b in known if b.message.phase == phase]


def before(view: View, b: Behind, most: int, together: int) -> list[Behind]:
    """Updates that the sender of ``b`` made of the same examples in earlier rounds, oldest first.

    The newest of them, ``together`` with ``b``. Of a client that takes all it has in every step; of
    others none, for nobody can tell which of their examples came again.
    """
    same = recurring(view.know("labels")) if "labels" in view.threat.knows else set()
    if not _of_all(view, b, same):
        return []
    sent = [m for m in view.messages("update", probe=False) if 0 < m.round < view.round]
    mine = [m for m in sent if m.sender == b.message.sender]
    found = [o for o in _known(view, mine, probe=False, most=most) if _of_all(view, o, same)]
    alike = [o for o in found if (o.loss, o.sizes) == (b.loss, b.sizes)]
    own = [o for o in alike if _same_labels(o.labels, b.labels)]
    return sorted(own, key=lambda o: o.message.round)[1 - together :]


def _of_all(view: View, b: Behind, same: Collection[tuple[str, int]]) -> bool:
    """Was each step behind it of all examples that its sender has, as they are?"""
    m, method = b.message, view.loss_method()
    made = {t.phase: t for t in trainings(method, m.round, last=view.last)}
    again = (m.sender, m.phase) in same
    whole = _takes_all(made[m.phase], b.sizes, method.batch, again=again)
    return whole and m.probe is None and not view.facts.augmented


def _takes_all(training: Training, sizes: Sequence[int], batch: int, *, again: bool) -> bool:
    """Was each step, of ``sizes``, of all examples that who trained has?

    A step is, that is smaller than a batch, or a whole one that is the same ``again`` and again;
    and that of an epoch of one step.
    """
    if training.steps:
        return len(sizes) == 1 and sizes[0] < batch + again
    return 0 < len(sizes) == training.epochs


def _same_labels(y: Tensor | None, z: Tensor | None) -> bool:
    """Are they the same labels, in whatever order?"""
    if y is None or z is None:
        return y is z
    return torch.equal(y.sort().values, z.sort().values)


def _known(view: View, sent: Sequence[Message], *, probe: bool, most: int) -> list[Behind]:
    """Of the updates ``sent`` those of at most ``most`` local steps, and what made them."""
    method, known = view.loss_method(), []
    told = "labels" in view.threat.knows
    labels = view.know("labels") if told else {}
    count = {k: len(y) for k, y in labels.items()} if told else view.know("sizes")
    for m in sent:
        made = trainings(method, m.round, last=view.last)
        key = (m.sender, m.round, m.phase, m.probe)
        n = count.get(key, 0)  # none: it trained on nothing
        sizes = _sizes(method, made, m.phase, n, probe=probe)
        if 0 < len(sizes) <= most:
            training = next(t for t in made if t.phase == m.phase)
            known.append(_behind(m, sizes, training, labels.get(key), view.facts))
    return known


def _behind(
    m: Message, sizes: Sequence[int], training: Training, y: Tensor | None, facts: Facts
) -> Behind:
    """``y`` (n,): the labels of all steps, in order, or None."""
    loss = m.loss or training.name
    alone = m.probe is not None or training.steps > 0 or training.epochs == 1
    # Turned or mirrored anew in each epoch, an image is another one each time.
    if alone or facts.augmented:
        places = torch.arange(sum(sizes))
        return Behind(m, y, _split(places, sizes), loss)
    n = sum(sizes) // training.epochs
    batches = len(sizes) // training.epochs
    if y is None:
        places = torch.arange(n).repeat(training.epochs)
        return Behind(m, None, _split(places, sizes), loss, guessed=batches > 1)
    places = torch.cat([_again(y[:n], epoch) for epoch in torch.split(y, n)])
    open_ = batches > 1 and int(y[:n].bincount().max()) > 1
    return Behind(m, y[:n], _split(places, sizes), loss, guessed=open_)


def _again(labels: Tensor, epoch: Tensor) -> Tensor:
    """(n,): which examples, of ``labels`` (n,), stood in an epoch with the labels ``epoch`` (n,).

    Both are the same labels in other orders.
    """
    places = torch.empty(len(labels), dtype=torch.long)
    places[epoch.cpu().argsort(stable=True)] = labels.cpu().argsort(stable=True)
    return places


def _split(places: Tensor, sizes: Sequence[int]) -> Rows:
    return tuple(tuple(step.tolist()) for step in torch.split(places, list(sizes)))


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


def repeated(run: Outline, most: int) -> set[int]:
    """The rounds of kept updates that ``before`` may find, of ``most`` local steps at most."""
    if run.facts.augmented:
        return set()
    method, out, same = run.method, set(), set(run.recurring)
    for t, phase, examples in run.behind:
        made = trainings(method, t)
        sizes = _sizes(method, made, phase, examples, probe=False)
        training = next((e for e in made if e.phase == phase), None)
        again = (t, phase, examples) in same
        if training and _takes_all(training, sizes, method.batch, again=again):
            out |= {t} if len(sizes) <= most else set()
    return out


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


def in_turns(found: Sequence[Behind], most: int) -> list[Behind]:
    """At most ``most`` of them: one of each client, then a second of each, in their order."""
    count: dict[str, int] = {}
    turns = []
    for b in found:
        sender = b.message.sender
        count[sender] = count.get(sender, 0) + 1
        turns.append(count[sender])
    order = sorted(range(len(found)), key=lambda i: (turns[i], i))
    return [found[i] for i in sorted(order[:most])]
