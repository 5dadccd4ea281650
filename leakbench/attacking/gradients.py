"""Updates that are read off other messages, where a method's messages tell a gradient.

A control variate is a gradient by another name. Whoever gets it needs no update: it may pass where
updates are summed or noised on the way, and nothing private is in the loss that made it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from leakbench.attacking.source import Source
from leakbench.federation.local_steps import Training, trainings
from leakbench.record.messages import Message

if TYPE_CHECKING:
    from torch import Tensor

Key = tuple[str, int]  # sender and round


def read(seen: Sequence[Message], told: Sequence[Message], source: Source) -> list[Message]:
    """``seen``, its updates replaced by, and joined with, those that ``told`` tells.

    Where a wrapper covers what would tell an update, no attack is made (``Attack.obstacle``). A
    probe, for which nothing else is sent, is freed of what the client's own variate did to it,
    which its real messages of the same round tell.

    Args:
        seen: the messages that are granted.
        told: those of kind ``tells`` of the method that are.
        source: of both.
    """
    method = source.method
    known = source.known("sizes") if source.holds("sizes") else {}
    whole = {
        (m.sender, m.round): m
        for m in seen
        if m.kind == "update" and m.probe is None and not m.part
    }
    audited = {(sender, t) for sender, t, *_ in known} or set(whole)
    made: dict[Key, Message] = {}
    probes: list[Message] = []
    for m in told:
        key = (m.sender, m.round)
        if key not in audited:  # nobody knows what its update was made of
            continue
        training = _training(source, m.round)
        steps = _steps(source, m, training, known)
        if training is None or not steps:
            continue
        rate = method.lr * method.schedule(m.round)
        slope = method.gradient(m.payload)
        payload = {k: -rate * steps * g for k, g in slope.items()}
        here = (m.round, training.phase, m.sender, m.receiver, "update")
        made[key] = Message(*here, payload, loss=method.plain_loss)
        for p in seen:
            if p.probe is not None and (p.sender, p.round) == key and key in whole:
                probes.append(_freed(p, whole[key], slope, rate, steps, method.plain_loss))
    again = {p.name for p in probes}
    kept = [m for m in seen if m.name not in again and _stays(m, made)]
    found = [*kept, *made.values(), *probes]
    return sorted(found, key=lambda m: (m.round, m.phase))


def _stays(m: Message, made: dict[Key, Message]) -> bool:
    """Is it shown as it was sent?"""
    mine = made.get((m.sender, m.round))
    return mine is None or m.kind != "update" or m.probe is not None or m.phase != mine.phase


def _training(source: Source, t: int) -> Training | None:
    """The training of round ``t`` that the message tells of: the first that takes steps."""
    found = trainings(source.method, t, last=source.rounds)
    return next((e for e in found if e.steps or e.epochs), None)


def _steps(source: Source, m: Message, training: Training | None, known: dict[object, int]) -> int:
    """How many steps the sender took; 0 where that cannot be told."""
    if training is None or training.steps:
        return training.steps if training else 0
    examples = known.get((m.sender, m.round, training.phase, None), 0)
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
    return replace(probe, payload=freed, loss=loss)
