"""Who has got whose features, read off the traffic alone: rows of round, sender and receiver, never a payload."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor

from leakbench.traffic import SERVER

PASSED_ON = ("features", "mean_data", "data")
"""The kinds of which a server can pass on to clients what other clients sent."""

Buffer = Literal["newest", "all"]


def received(traffic: Mapping[str, Tensor], clients: int, *, buffer: Buffer = "newest") -> Tensor:
    """(C, C) bool: [i, j] is True where client i got what client j had sent; no client gets from itself.

    Within a kind the rows are in the order in which they were sent, within a round too. What the server sends of a kind
    carries what clients sent it of this kind before: with ``buffer`` = "newest" all that came in the newest round in which
    any came (FLea's buffer, rebuilt each round, so round t brings what was sent in round t - 1; FedMix's and FedData's set,
    made in round 0), with "all" everything until then (a server that keeps and adds). Once got is got. What a server sends
    to each client alone counts as if it carried all of it, too. What goes to an aggregator (a negative receiver other than the server)
    is summed before anybody gets it, so nobody gets it singly: not counted.

    Args:
        traffic: {kind: (n, 3) whole numbers: round, sender, receiver}; the server is -1.
        clients: C.
        buffer: what a broadcast carries.
    """
    got = torch.zeros(clients, clients, dtype=torch.bool)
    for rows in traffic.values():
        got |= _of_kind(rows.cpu().long(), clients, buffer)
    return got.fill_diagonal_(False)


def _of_kind(rows: Tensor, clients: int, buffer: Buffer) -> Tensor:
    got, held = torch.zeros(clients, clients, dtype=torch.bool), torch.zeros(clients, dtype=torch.bool)
    rows = rows[(rows[:, 1] == SERVER) | (rows[:, 2] == SERVER)]
    if not len(rows):
        return got
    down = rows[:, 1] == SERVER
    _, sizes = torch.unique_consecutive(torch.stack([rows[:, 0], down], 1), dim=0, return_counts=True)
    newest = None
    for block in torch.split(rows, sizes.tolist()):
        t = int(block[0, 0])
        if int(block[0, 1]) == SERVER:
            got[block[:, 2]] |= held
            continue
        if buffer == "newest" and t != newest:
            held = torch.zeros_like(held)
        held[block[:, 1]] = True
        newest = t
    return got
