"""People of whom it is asked whether they trained at all: membership of clients, not of examples.

Half of them are clients; the others were dealt data as these were and stayed away
(``TaskData.absent``). Who stayed away was drawn, so neither what they have nor how much of it tells
anything.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from leakbench.base.lazy import torch
from leakbench.base.streams import shared
from leakbench.federation.task_data import Examples, TaskData

if TYPE_CHECKING:
    from torch import Tensor

MOST = 200  # who trained; as many others
EACH = 50  # examples of one


def drawn(data: TaskData, seed: int) -> tuple[Examples, Tensor] | None:
    """The people of a run, and who of them is a client; None where nobody stayed away.

    Returns:
        Examples (n,), whose ``client`` is the number 0 to P - 1 of their owner; (P,) int64, the
        client that it is, or of the a-th who stayed away -1 - a. Numbers of owners tell nothing.
    """
    many = min(len(data.absent), len(data.sizes), MOST)
    if not many:
        return None
    rng = shared(seed, "users")
    there = rng.permutation("clients", len(data.sizes))[:many].tolist()
    away = rng.permutation("absent", len(data.absent))[:many].tolist()
    rows = [data.rows[c, : data.sizes[c]] for c in there] + [data.absent[a] for a in away]
    who = torch.tensor([*there, *(-1 - a for a in away)])
    order = rng.permutation("order", len(who))
    some = [_some(rows[i], seed, i) for i in order.tolist()]
    number = torch.cat([torch.full((len(r),), k) for k, r in enumerate(some)])
    return replace(data.train.some(torch.cat(some)), client=number, attribute=None), who[order]


def _some(rows: Tensor, seed: int, place: int) -> Tensor:
    return rows[shared(seed, "users").permutation(f"examples/{place}", len(rows))[:EACH]]
