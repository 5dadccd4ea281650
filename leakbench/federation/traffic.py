"""Who sent what to whom, in every round, kept or not: `run.json`'s `sent`, `rounds.safetensors`."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from leakbench.base.lazy import torch
from leakbench.base.tree import Tree, flat, nbytes

if TYPE_CHECKING:
    from torch import Tensor

SERVER, AGGREGATOR = -1, -2
# Who may observe: a party, an outsider, or a coalition of clients.
OBSERVER = r"^(server\+?|aggregator|outsider|client/\d{1,9}|clients/\d{1,9}(,\d{1,9})+)$"
_CLIENTS = re.compile(r"clients?/(\d+(?:,\d+)*)")
_NUMBER = r"(0|[1-9]\d{0,8})"
_ATTACKER = re.compile(rf"server|client/{_NUMBER}|clients/{_NUMBER}(,{_NUMBER})+")


def party(name: str) -> int:
    """The number of a party: -1 the server, be it active, -2 the aggregator, i client i."""
    if name.startswith("client/"):
        return int(name.removeprefix("client/"))
    return {"server": SERVER, "server+": SERVER, "aggregator": AGGREGATOR}[name]


def members(observer: str) -> tuple[int, ...]:
    """The clients that observe: (3,) of client/3, (1, 4, 7) of clients/1,4,7; () of others."""
    found = _CLIENTS.fullmatch(observer)
    return tuple(map(int, found[1].split(","))) if found else ()


def observer_name(name: str) -> str:
    """``name``, where it is how that observer is called.

    Raises:
        ValueError: a coalition's clients are not in ascending order, each once.
    """
    found = members(name)
    if list(found) != sorted({*found}):
        raise ValueError("expected its clients in ascending order, each once, as clients/1,4,7")
    return name


def attacker_name(name: str) -> str:
    """``name``, where an attack can be asked to observe as that party.

    Raises:
        ValueError: it is neither the server nor one client or several, or not called so.
    """
    if not _ATTACKER.fullmatch(name):
        raise ValueError(
            "expected server, client/3, or several clients as clients/1,4,7; on a command line"
            """ several stand in quotes, -s 'observer="clients/1,4,7"', since a comma sweeps"""
        )
    return observer_name(name)


class Traffic:
    """Rows (round, sender, receiver) per kind, one for each receiver of a broadcast; and sizes."""

    def __init__(self, covered: set[str], changed: Collection[str] = ()) -> None:
        self.covered = covered  # kinds that a wrapper of the clients changes
        self.changed = set(changed)  # that a server changes which does not keep to its method
        self.rows: dict[str, list[Tensor]] = {}
        # (kind, sender, receiver) -> [rounds, messages, bytes, last round]
        self.totals: dict[tuple[str, str, str], list[int]] = {}

    def down(
        self, t: int, kind: str, receivers: Sequence[int], payload: Tree, *, each: bool
    ) -> None:
        """Server to clients: one broadcast, or ``each`` its own row."""
        n = len(receivers)
        self._add(t, kind, [SERVER] * n, receivers)
        to, messages = ("client", n) if each else ("client/*", 1)
        self._count(t, (kind, "server", to), messages, nbytes(payload))

    def up(
        self,
        t: int,
        kind: str,
        senders: Sequence[int],
        payload: Tree,
        *,
        summed: bool,
        stacked: bool = True,
    ) -> None:
        """Clients to the server, or ``summed`` to the aggregator, which sends one sum on."""
        n = len(senders)
        size = nbytes(payload) if stacked else n * nbytes(payload)
        self._add(t, kind, senders, [AGGREGATOR if summed else SERVER] * n)
        self._count(t, (kind, "client", "aggregator" if summed else "server"), n, size)
        if summed:
            self._add(t, "sum", [AGGREGATOR], [SERVER])
            self._count(t, ("sum", "aggregator", "server"), 1, size // n)

    def _add(self, t: int, kind: str, senders: Sequence[int], receivers: Sequence[int]) -> None:
        rows = torch.tensor([[t] * len(senders), senders, receivers], dtype=torch.int32)
        self.rows.setdefault(kind, []).append(rows.T)

    def _count(self, t: int, key: tuple[str, str, str], messages: int, size: int) -> None:
        total = self.totals.setdefault(key, [0, 0, 0, -1])
        total[0] += total[3] != t
        total[1] += messages
        total[2] += size
        total[3] = t

    def table(self) -> list[dict[str, Any]]:
        """For `run.json`: what was sent, how often, how much, and whether a wrapper covers it."""
        out = []
        for (kind, sender, receiver), (rounds, messages, size, _) in sorted(self.totals.items()):
            covered = sender == "client" and kind in self.covered
            line = {"kind": kind, "sender": sender, "receiver": receiver, "rounds": rounds}
            line |= {"messages": messages, "bytes": size, "covered": covered}
            changed = sender == "server" and kind in self.changed
            out.append({**line, **({"changed": True} if changed else {})})
        return out

    def tensors(self) -> dict[str, Tensor]:
        """{kind: (messages, 3) int32: round, sender, receiver}."""
        return {k: torch.cat(v) for k, v in self.rows.items()}

    def state(self) -> tuple[dict[str, Tensor], dict[str, list[int]]]:
        """What a checkpoint keeps."""
        return self.tensors(), {"|".join(k): v for k, v in self.totals.items()}

    def restore(self, rows: dict[str, Tensor], totals: dict[str, list[int]]) -> None:
        """Go on from a checkpoint."""
        self.rows = {k: [v] for k, v in flat(rows).items()}
        self.totals = {}
        for key, total in totals.items():
            kind, sender, receiver = key.split("|")
            self.totals[kind, sender, receiver] = list(total)
