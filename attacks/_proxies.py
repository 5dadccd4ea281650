"""What stands for prototypes outside of their clients, as the server or another client sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from pydantic import Field

from leakbench.attacking import Attack, Guess, Outline, ThreatModel, View
from leakbench.base import torch
from leakbench.federation import party

if TYPE_CHECKING:
    from torch import Tensor

UNKNOWN = -1  # the round in which a proxy was sent, where that cannot be told


class Proxy(NamedTuple):
    """One message of kind `prototype`, or a row of a bank of them."""

    round: int  # in which it was sent, or UNKNOWN
    vector: Tensor  # (dim,)


class FromProxies(Attack):
    """Reads messages of kind `prototype`; units are their senders.

    As a client it is given no message of another one, but the banks that the server sent it in its
    own rounds: (clients, dim), a row for each. A row that changed from one bank to the next is a
    proxy that was sent between them.
    """

    kinds: ClassVar[tuple[str, ...]] = ("prototype",)
    handed: ClassVar[Literal["", "rows", "banks"]] = "banks"
    says_server: ClassVar[bool] = True

    @property
    def threat(self) -> ThreatModel:
        return ThreatModel(kinds=self.kinds, knows=("method", "facts"), rounds="all", rung="method")

    def attacks(self, run: Outline) -> tuple[str, ...]:
        """Prototypes; more that an attack reads need not be there."""
        return ("prototype",)

    def sent(self, view: View) -> dict[str, list[Proxy]]:
        """{"client/3": its proxies, oldest first} of everybody but the observer."""
        return proxies(view)

    def blind(self, view: View, rng: torch.Generator) -> list[Guess]:
        """A random direction for each unit."""

        def dice() -> Tensor:
            noise = torch.randn(view.facts.dim, generator=rng, dtype=torch.float64)
            return noise.to(view.device)

        return [Guess(who, view.round, {"prototype": dice()}) for who in self.sent(view)]


class FromMeans(FromProxies):
    """Takes a mean of each client's messages, at the end of all rounds."""

    over: ClassVar[Literal["stages", "all"]] = "all"

    window: int = Field(
        0,
        ge=0,
        description=(
            "newest messages of each client that are averaged; 0: all, the older the lighter, as"
            " the messages themselves suggest"
        ),
    )

    @property
    def pools(self) -> bool:
        return self.window == 0


def banks(view: View) -> list[Proxy]:
    """The banks (clients, dim) that the server broadcast and the observer saw, oldest first."""
    sent = view.messages("prototype", sender="server")
    found = [m for m in sent if m.receiver == "client/*" and isinstance(m.payload, torch.Tensor)]
    return [Proxy(m.round, m.payload) for m in found if m.payload.ndim == 2]


def proxies(view: View) -> dict[str, list[Proxy]]:
    """{"client/3": its proxies, oldest first} of everybody but the observer."""
    out: dict[str, list[Proxy]] = {}
    if not view.observers:
        for m in view.messages("prototype"):
            if m.sender.startswith("client/"):
                out.setdefault(m.sender, []).append(Proxy(m.round, m.payload))
        return out
    seen = banks(view)
    for bank in seen:
        for i, vector in enumerate(bank.vector):
            held = out.setdefault(f"client/{i}", [])
            if not held or not torch.equal(held[-1].vector, vector):
                held.append(Proxy(UNKNOWN, vector))
    for who, held in out.items():
        # What stands in the first bank may be nobody's: the server's own random start.
        if len(held) > 1 and torch.equal(held[0].vector, seen[0].vector[party(who)]):
            held.pop(0)
    return {who: held for who, held in out.items() if party(who) in view.others}
