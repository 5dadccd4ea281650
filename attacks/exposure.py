"""Exposure (FLea, Section 4.4): of how many others does a client see the shared features?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from leakbench.attacking import Attack, Guess, Metric, Outline, ThreatModel, View
from leakbench.base import torch
from leakbench.federation import SERVER
from leakbench.metrics import EXPOSURE, EXPOSURE_UNDIRECTED

if TYPE_CHECKING:
    from torch import Tensor

PASSED_ON = ("features", "mean_data", "data")
"""The kinds of which a server can pass on to clients what other clients sent."""

Buffer = Literal["newest", "all"]


class Exposure(Attack):
    """Counts who got whose features until a round, from who sent what to whom.

    No payload is opened, no dice are thrown. What a broadcast of features, means or data carries is
    read off the order of the traffic (``received``): what clients sent of the same kind in the
    newest round before it. For FLea that is the round before, for FedMix and FedData round 0. A
    server that adds to what it already had needs ``buffer`` = "all"; "newest" would count too few.

    FLea divides the ordered pairs of clients by K^2, those of a client with itself among them; here
    a client's own features are no exposure, and the mean over clients of (others whose features it
    got) / (K - 1) is the ratio over ordered pairs of two clients. Its text ("i and j have
    exchanged") reads as undirected, its number (at most 40 % at round 50) fits the directed count
    only; both are here. Seen from who gives instead of who gets, the mean is the same.

    The number is exact: interval "exact", floor 0. The control transcript has the same traffic
    (undefended uplinks go to the same receivers), so it would say nothing; and before round 2 of
    FLea nothing was passed on, which is no weakness of the attack. The control is what sharing with
    everybody would be, exactly 1 (FedMix, FedData; FLea's Figure 9(a)).

    Not counted: sums of a secure aggregation (no receiver gets a client's own features; where
    nothing else is sent the attack does not fit, rather than saying 0), and what the server itself
    sees, which is every feature sent. Nor does the attack fit where the server passes nothing on by
    the name under which it came: FedProto's prototypes of a class that one client has are that
    client's own, and it would say 0 of them.
    """

    about: ClassVar[str] = "how many clients get to see another client's features"
    paper: ClassVar[str] = "FLea, KDD 2024, Section 4.4, Figure 9(a)"
    metrics: ClassVar[tuple[Metric, ...]] = (EXPOSURE, EXPOSURE_UNDIRECTED)
    curve: ClassVar[bool] = True

    buffer: Buffer = Field(
        "newest",
        description="a broadcast carries what the newest round before it brought, or all rounds",
    )

    @property
    def threat(self) -> ThreatModel:
        return ThreatModel(kinds=PASSED_ON, rounds="all", knows=("facts",), rung="transcript")

    def attacks(self, run: Outline) -> tuple[str, ...]:
        return _sent_singly(run) or PASSED_ON[:1]

    def obstacle(self, run: Outline) -> str:
        if not _sent_singly(run):
            return (
                "no client sends the server features, means of data or data that are not summed on"
                " the way"
            )
        unnamed = [k for k in _sent_singly(run) if not _passed_on(run, k)]
        if unnamed:
            return (
                f"the server sends clients nothing called {unnamed[0]}: what it makes of the"
                f" {unnamed[0]} that it got, and sends on by another name, is not followed here"
            )
        if run.partial:  # what is not in the table would count as never sent
            return "this run is an excerpt: who sent what to whom is not all there"
        return "" if run.facts.clients > 1 else "there is one client only"

    def run(self, view: View, rng: torch.Generator) -> list[Guess]:
        traffic = {kind: view.traffic(kind) for kind in PASSED_ON}
        got = received(traffic, view.facts.clients, buffer=self.buffer)
        exchanged = got | got.T
        return [
            Guess(f"client/{i}", view.round, {"got": got[i].sum(), "exchanged": exchanged[i].sum()})
            for i in range(len(got))
        ]

    def blind(self, view: View, rng: torch.Generator) -> list[Guess]:
        """Nobody has got anything."""
        none = torch.tensor(0)
        return [
            Guess(f"client/{i}", view.round, {"got": none, "exchanged": none})
            for i in range(view.facts.clients)
        ]


def _sent_singly(run: Outline) -> tuple[str, ...]:
    """The kinds that clients send the server, and not its aggregator."""
    passed = {(s["kind"], s["sender"], s["receiver"]) for s in run.sent}
    return tuple(k for k in PASSED_ON if (k, "client", "server") in passed)


def _passed_on(run: Outline, kind: str) -> bool:
    """Does the server send clients anything of this kind?"""
    return any((s["kind"], s["sender"]) == (kind, "server") for s in run.sent)


def received(traffic: Mapping[str, Tensor], clients: int, *, buffer: Buffer = "newest") -> Tensor:
    """(C, C) bool: [i, j] is True where client i got what client j had sent.

    No client gets from itself. Within a kind the rows are in the order in which they were sent,
    within a round too. What the server sends of a kind carries what clients sent it of this kind
    before: with ``buffer`` = "newest" all that came in the newest round in which any came (FLea's
    buffer, rebuilt each round, so round t brings what was sent in round t - 1; FedMix's and
    FedData's set, made in round 0), with "all" everything until then (a server that keeps and
    adds). Once got is got. What a server sends to each client alone counts as if it carried all of
    it, too. What goes to an aggregator (a negative receiver other than the server) is summed before
    anybody gets it, so nobody gets it singly: not counted.

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
    got = torch.zeros(clients, clients, dtype=torch.bool)
    held = torch.zeros(clients, dtype=torch.bool)
    rows = rows[(rows[:, 1] == SERVER) | (rows[:, 2] == SERVER)]
    if not len(rows):
        return got
    turns = torch.stack([rows[:, 0], rows[:, 1] == SERVER], 1)  # round, down
    _, sizes = torch.unique_consecutive(turns, dim=0, return_counts=True)
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
