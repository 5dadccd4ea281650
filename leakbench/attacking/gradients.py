"""Updates that are read off other messages, where a method's messages tell a gradient.

A control variate is a gradient by another name. Whoever gets it needs no update: it may pass where
updates are summed or noised on the way, and nothing private is in the loss that made it. Where it
is the variate that is covered, a client's updates tell as much, one after the other: the first is
bent by no variate of its own, each later one by what the one before told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from leakbench.base.lazy import torch
from leakbench.federation.local_steps import Training, trainings
from leakbench.federation.traffic import party
from leakbench.record.knowledge import Source
from leakbench.record.messages import Message

if TYPE_CHECKING:
    from torch import Tensor

Key = tuple[str, int]  # sender and round


def read_gradients(
    seen: Sequence[Message], told: Sequence[Message], source: Source
) -> list[Message]:
    """``seen``, its updates replaced by, and joined with, those that ``told`` tells.

    A probe, for which nothing else is sent, is freed of what the client's own variate did to it,
    which its real messages of the same round tell.

    Args:
        seen: the messages that are granted.
        told: those of kind ``tells`` of the method that are, none of them covered.
        source: of both.
    """
    method = source.method
    slopes = {(m.sender, m.round): method.gradient(m.payload) for m in told if _sent(m)}
    receivers = {(m.sender, m.round): m.receiver for m in told}
    found = _Read(seen, source)
    for key, slope in slopes.items():
        found.add(key, receivers[key], slope)
    again = {p.name for p in found.probes}
    kept = [m for m in seen if m.name not in again and _stays(m, found.made)]
    return found.ordered(kept)


def read_chained(seen: Sequence[Message], told: Sequence[Message], source: Source) -> list[Message]:
    """``seen`` where a wrapper covers what clients send of kind ``tells``.

    By that they bend their updates. A client's first one is bent by what the server sent alone, so
    it tells its gradient, and by that gradient the next is bent (``Defense.bent_gradient``). What
    the record does not hold without a gap from a client's first update on is left out, and so is
    what was kept of a part of one: read as it stands it would seem to give little away.

    Args:
        seen: the messages that are granted.
        told: those of kind ``tells`` of the method that are.
        source: of both; one that is partial cannot say which update was a client's first.
    """
    given = {m.round: m.payload for m in told if not _sent(m)}
    found = _Read(seen, source)
    for sender, rounds in _took_part(source).items():
        before: dict[str, Tensor] | None = None
        known: dict[str, Tensor] = {}  # which numbers all of its updates until now have told
        for key in ((sender, t) for t in rounds):
            moved = found.moved(key)
            if moved is None or key[1] not in given:
                break
            before = source.method.bent_gradient(moved, before, given[key[1]])
            if found.whole[key].sparse:
                here = found.whole[key].told()
                known = {k: v & known[k] if known else v for k, v in here.items()}
            found.add(key, found.whole[key].receiver, before, known)
    return found.ordered([m for m in seen if m.kind != "update"])


class _Read:
    """The updates that gradients tell, and the probes freed by them."""

    def __init__(self, seen: Sequence[Message], source: Source) -> None:
        self.source = source
        self.known = source.known("sizes") if source.holds("sizes") else {}
        updates = [m for m in seen if m.kind == "update"]
        self.asked = [m for m in updates if m.probe is not None]
        whole = [m for m in updates if m.probe is None and not m.part]
        self.whole = {(m.sender, m.round): m for m in whole}
        self.audited = {(sender, t) for sender, t, *_ in self.known} or set(self.whole)
        self.made: dict[Key, Message] = {}
        self.probes: list[Message] = []

    def pace(self, key: Key, training: Training | None) -> tuple[float, int]:
        """The rate of a step of the sender's, and how many it took; 0 where that is not known."""
        method = self.source.method
        return method.lr * method.schedule(key[1]), _steps(key, self.source, training, self.known)

    def moved(self, key: Key) -> dict[str, Tensor] | None:
        """How far the sender went against the gradient a step, over the learning rate."""
        rate, steps = self.pace(key, _training(self.source, key[1]))
        if key not in self.whole or not steps:
            return None
        return {k: -u / (rate * steps) for k, u in self.whole[key].payload.items()}

    def add(
        self,
        key: Key,
        receiver: str,
        slope: dict[str, Tensor],
        known: Mapping[str, Tensor] | None = None,
    ) -> None:
        """The update that ``slope`` makes; none where nobody knows what it was made of.

        ``known``: {name: bool}, which of its numbers are; {} and None: all.
        """
        training, loss = _training(self.source, key[1]), self.source.method.plain_loss
        rate, steps = self.pace(key, training)
        if key not in self.audited or training is None or not steps:
            return
        payload = {k: -rate * steps * g for k, g in slope.items()}
        if known:
            payload = {k: torch.where(known[k], v, 0.0) for k, v in payload.items()}
        sender, t = key
        here = (t, training.phase, sender, receiver, "update")
        self.made[key] = Message(*here, payload, loss=loss, sparse=bool(known))
        for p in self.asked:
            if (p.sender, p.round) == key and key in self.whole:
                self.probes.append(_freed(p, self.whole[key], slope, rate, steps, loss))

    def ordered(self, kept: Sequence[Message]) -> list[Message]:
        """All of it with ``kept``, in the order in which it crossed.

        That is by sender within a phase: an attack that takes the first few must find the same
        clients in the control.
        """
        every = [*kept, *self.made.values(), *self.probes]
        return sorted(every, key=lambda m: (m.round, m.phase, party(m.sender)))


def _sent(m: Message) -> bool:
    return m.sender != "server"


def _took_part(source: Source) -> dict[str, list[int]]:
    """The rounds of each client's updates, in order, whether or not they are on record."""
    rows = source.traffic.get("update", torch.zeros((0, 3), dtype=torch.int32))
    out: dict[str, list[int]] = {}
    for t, sender, _ in sorted(rows.tolist()):
        out.setdefault(f"client/{sender}", []).append(t)
    return out


def _stays(m: Message, made: dict[Key, Message]) -> bool:
    """Is it shown as it was sent?"""
    mine = made.get((m.sender, m.round))
    return mine is None or m.kind != "update" or m.probe is not None or m.phase != mine.phase


def _training(source: Source, t: int) -> Training | None:
    """The training of round ``t`` that the message tells of: the first that takes steps."""
    found = trainings(source.method, t, last=source.rounds)
    return next((e for e in found if e.steps or e.epochs), None)


def _steps(
    key: Key, source: Source, training: Training | None, known: Mapping[tuple[Any, ...], int]
) -> int:
    """How many steps the sender took; 0 where that cannot be told."""
    if training is None or training.steps:
        return training.steps if training else 0
    examples = known.get((*key, training.phase, None), 0)
    return len(training.sizes(examples, source.method.batch))


def _freed(
    probe: Message, real: Message, slope: dict[str, Tensor], rate: float, steps: int, loss: str
) -> Message:
    """A probe without the correction that its client adds to every step.

    The real update u of K steps is -rate K (mean gradient + correction), so the correction is
    -u / (rate K) - mean gradient; a probe is one step of it.
    """
    update: dict[str, Tensor] = real.payload
    correction = {k: -u / (rate * steps) - slope[k] for k, u in update.items() if k in slope}
    freed = {
        k: v + rate * correction[k] if k in correction else v for k, v in probe.payload.items()
    }
    if probe.sparse:
        mine, whole = probe.told(), real.told()
        freed = {k: torch.where(mine[k] & whole[k], v, 0.0) for k, v in freed.items()}
    return replace(probe, payload=freed, loss=loss)
