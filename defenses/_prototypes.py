"""What methods with private prototypes share: how one is kept, and FedHide's Eq. 1 to 3."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from leakbench import Batch, Client, Defense, Net, Sent, Server, Tree, others, unit

if TYPE_CHECKING:
    from torch import Tensor


class OwnPrototype(Defense):
    """A prototype for each client, of one class each, that is trained with the network on L_pos.

    Nothing of it is sent. Prototypes start as random normal vectors and are ``stored`` as they are
    (norm about sqrt(dim)), normalised in the loss only, so that ``own_lr`` = 0.1 is an angular rate
    of 0.1/dim; stored at norm 1, and brought back to it after each round's local training,
    ``own_lr`` is the angular rate itself, and 0.1 is far too fast.
    """

    outputs: ClassVar[Literal["logits", "embedding"]] = "embedding"
    distance: ClassVar[Literal["", "cosine", "euclidean"]] = "cosine"

    select: Literal["random", "round_robin"] = Field(
        "round_robin", description="how a round's clients are chosen"
    )
    fraction: float = Field(
        1.0, gt=0, le=1, description="share of the clients in a round (the paper on CIFAR-100: 0.1)"
    )
    stored: Literal["as_drawn", "unit"] = Field(
        "as_drawn",
        description="norm of a prototype at its client: as it becomes, or 1 after each round",
    )

    def start(self, me: Client) -> None:
        w = me.rng.normal("prototype", me.facts.dim)
        me.own["prototype"] = unit(w) if self.stored == "unit" else w

    def loss(self, net: Net, batch: Batch, me: Client) -> Tensor:
        return self.positive(net, batch, unit(me.own["prototype"]))

    def positive(self, net: Net, batch: Batch, w: Tensor) -> Tensor:
        """Eq. 2, mean over the batch of (1 - w . f(x))^2, (); ``w`` (dim,) of norm 1."""
        return (1 - unit(net(batch.x)) @ w).square().mean()

    def uplink(self, me: Client) -> Sent:
        if self.stored == "unit":
            me.own["prototype"] = unit(me.own["prototype"])
        return None

    def predict(self, net: Net, x: Tensor, me: Client) -> Tensor:
        return unit(net(x)) @ unit(me.own["prototype"])

    def secrets(self, me: Client) -> dict[str, Tree]:
        return {"prototype": unit(me.own["prototype"])}


class Prototypes(OwnPrototype):
    """A round of FedHide's Algorithm 1, for clients with one class each.

    Model and bank of proxies down; one step on L_pos + lam L_neg; update and a fresh proxy up. Left
    open by the paper, decided here: how prototypes start and are ``stored`` (``OwnPrototype``). The
    bank starts as random directions; a client's own stale proxy is neither among its neighbours nor
    in its negative term.
    """

    adds_mean: ClassVar[bool] = True

    lam: float = Field(10.0, ge=0, description="weight of the negative loss (the paper: 10)")

    def start_server(self, server: Server) -> None:
        facts = server.facts
        server.state["bank"] = unit(server.rng.normal("bank", facts.clients, facts.dim))

    def downlink(self, server: Server) -> Sent:
        return {"model": server.model, "prototype": server.state["bank"]}

    def loss(self, net: Net, batch: Batch, me: Client) -> Tensor:
        w, bank = unit(me.own["prototype"]), me.inbox["prototype"]
        negative = ((1 + bank @ w).square() * others(me)).sum() / others(me).sum()  # Eq. 3
        return self.positive(net, batch, w) + self.lam * negative  # Eq. 1

    def uplink(self, me: Client) -> Sent:
        w = unit(me.own["prototype"])
        if self.stored == "unit":
            me.own["prototype"] = w
        return {"prototype": self.proxy(w, me)}

    @abstractmethod
    def proxy(self, w: Tensor, me: Client) -> Tensor:
        """(dim,): what stands outside the client for the true prototype ``w`` (dim,), of norm 1."""

    def aggregate(self, server: Server) -> None:
        super().aggregate(server)
        proxies = server.inbox["prototype"]
        server.state["bank"] = server.state["bank"].index_copy(0, server.senders, proxies)
