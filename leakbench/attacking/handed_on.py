"""What clients learn of others by what the server sends them.

Two things. Rows that somebody sent and that stand in a broadcast as they are (shared features,
means of data, the data themselves): the message that they came in is read off the broadcast. And
models: the difference of two successive ones is the mean of a round's updates, of which a client
that took part in the round subtracts its own (as in Melis et al., S&P 2019, Section 4).

Both bear the round in which they were sent. They reach a client later, in the next round in which
it takes part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from leakbench.base.lazy import torch
from leakbench.federation.local_steps import trainings
from leakbench.federation.selection import round_size
from leakbench.federation.traffic import party
from leakbench.record.knowledge import Source
from leakbench.record.messages import LARGE, Message

if TYPE_CHECKING:
    from torch import Tensor

Place = tuple[int, int, str]  # round, phase and sender of what was sent together
Row = tuple[int, int, int]  # round and phase of a broadcast, and the number of a row in it


def rows_of_others(
    seen: Sequence[Message], crossed: Sequence[Message], observers: Sequence[int], upto: int
) -> list[Message]:
    """The messages of other clients whose rows stand, one after the other, in what was received.

    Whose they are no row says: the names are those of the record, by which a guess is scored. What
    was sent together must stand at one place.

    Args:
        seen: what the clients ``observers`` sent and received.
        crossed: everything that crossed.
        observers: numbers of clients.
        upto: the last round of which anything is told.
    """
    sent = [m for m in seen if m.sender == "server" and _has_rows(m) and m.kind not in LARGE]
    kinds, names = {m.kind for m in sent}, {f"client/{i}" for i in observers}
    down, rows = {(m.round, m.phase, m.kind): m.payload for m in sent}, dict[int, list[Row]]()
    for (t, phase, kind), payload in sorted(down.items(), key=lambda one: one[0]):
        for i, row in enumerate(payload if payload.is_floating_point() else ()):
            rows.setdefault(_digest(kind, row), []).append((t, phase, i))
    found: list[Message] = []
    for place, together in _sent_together(crossed, kinds, names).items():
        if place[0] <= upto:
            found += _handed(together, down, rows)
    return found


def _sent_together(
    crossed: Sequence[Message], kinds: set[str], left_out: set[str]
) -> dict[Place, list[Message]]:
    """What each client sent of ``kinds`` in a phase, but for those ``left_out``."""
    out: dict[Place, list[Message]] = {}
    for m in crossed:
        theirs = m.sender.startswith("client/") and m.sender not in left_out
        if theirs and m.kind in kinds and m.probe is None and _has_rows(m):
            out.setdefault((m.round, m.phase, m.sender), []).append(m)
    return out


def _handed(
    together: Sequence[Message],
    down: Mapping[tuple[int, int, str], Tensor],
    rows: Mapping[int, Sequence[Row]],
) -> list[Message]:
    """Those of what was sent ``together`` that stand in one later broadcast, at one place.

    Whole numbers, as labels, may stand anywhere: they go with what is at a place of its own.
    """
    own = [m for m in together if m.payload.is_floating_point()]
    if not own:
        return []
    for t, phase, i in rows.get(_digest(own[0].kind, own[0].payload[0]), ()):
        if (t, phase) <= (own[0].round, own[0].phase):
            continue
        there = [m for m in together if _stands(m.payload, down.get((t, phase, m.kind)), i)]
        if {id(m) for m in own if (t, phase, m.kind) in down} <= {id(m) for m in there}:
            return there
    return []


def _digest(kind: str, row: Tensor) -> int:
    numbers = row.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return hash((kind, numbers.numpy().tobytes()))


def _has_rows(m: Message) -> bool:
    return isinstance(m.payload, torch.Tensor) and m.payload.ndim > 0 and len(m.payload) > 0


def _stands(block: Tensor, whole: Tensor | None, at: int) -> bool:
    """Do the rows of ``block`` stand in ``whole`` from row ``at`` on, bit for bit?"""
    if whole is None or block.shape[1:] != whole.shape[1:] or block.dtype != whole.dtype:
        return False
    return torch.equal(whole[at : at + len(block)], block)


def updates_of_others(
    seen: Sequence[Message], source: Source, observers: Sequence[int], upto: int
) -> list[Message]:
    """What the models received tell of the updates of those who do not observe.

    Of each round whose model and the next one were received, and of which the observers' own
    updates are there: the mean update of the others who took part, a message of kind sum; or the
    update of the only client that does not observe. How many take part is public; where the mean is
    weighted by counts, which the server alone is told, all are taken to weigh alike.

    Args:
        seen: what the clients ``observers`` sent and received.
        source: of it.
        observers: numbers of clients.
        upto: the last round of which anything is told.
    """
    if not source.method.adds_mean:
        return []
    size = round_size(source.method, source.facts.clients)
    rest = [i for i in range(source.facts.clients) if i not in observers]
    out = []
    for t, phase, before, after in _pairs(seen, source, upto):
        own = _own(seen, source, observers, t)
        if own is None or len(own) >= size:
            continue
        moved = _moved(before, after, [m.payload for m in own], size)
        if moved is None:
            continue
        alone = len(rest) == 1
        payload: dict[str, Any] = moved if alone else {"update": moved}
        sender, kind = (f"client/{rest[0]}", "update") if alone else ("aggregator", "sum")
        whole = not any(m.part for m in (before, after, *own))
        out.append(
            Message(t, phase, sender, "server", kind, payload, part="" if whole else "last_layer")
        )
    return out


def _pairs(
    seen: Sequence[Message], source: Source, upto: int
) -> Iterator[tuple[int, int, Message, Message]]:
    """(round, phase of its training, the model that it began with, the one that it led to)."""
    models = [m for m in seen if (m.kind, m.sender) == ("model", "server") and not m.changed]
    for t in sorted({m.round for m in models if 0 < m.round <= upto}):
        made = [e for e in trainings(source.method, t) if e.steps or e.epochs]
        if len(made) != 1:
            continue
        phase = made[0].phase
        before = [m for m in models if m.round == t and m.phase < phase]
        after = [m for m in models if (m.round == t and m.phase > phase) or m.round == t + 1]
        if before and after:
            yield t, phase, before[-1], min(after, key=lambda m: (m.round, m.phase))


def _own(
    seen: Sequence[Message], source: Source, observers: Sequence[int], t: int
) -> list[Message] | None:
    """The updates that the observers sent in round ``t``; None where one was not kept."""
    rows = source.traffic.get("update", torch.zeros((0, 3), dtype=torch.int32))
    took_part = set(rows[rows[:, 0] == t][:, 1].tolist()) & {*observers}
    kept = {
        party(m.sender): m
        for m in seen
        if (m.kind, m.round, m.probe) == ("update", t, None) and party(m.sender) in took_part
    }
    return [*kept.values()] if took_part and kept.keys() == took_part else None


def _moved(
    before: Message, after: Message, own: Sequence[Mapping[str, Tensor]], size: int
) -> dict[str, Tensor] | None:
    """The mean update of the others of ``size`` clients; None where the model stood still."""
    names = [k for k in own[0] if k in before.payload and k in after.payload]
    found = {}
    for k in names:
        mean = after.payload[k].double() - before.payload[k].double()
        mine = torch.stack([u[k].double() for u in own]).sum(0)
        found[k] = ((size * mean - mine) / (size - len(own))).to(own[0][k].dtype)
    still = all(torch.equal(before.payload[k], after.payload[k]) for k in names)
    return None if still else found
