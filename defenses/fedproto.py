"""FedProto (Tan et al. 2022): clients with own networks share the prototypes of their classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from defenses._class_prototypes import ClassPrototypes, bank, fits
from leakbench import Batch, Client, Net, Sent, Server
from leakbench.base import torch
from leakbench.federation import Choreography

if TYPE_CHECKING:
    from torch import Tensor, nn


class FedProto(ClassPrototypes):
    """Cross-entropy + lam |f(x) - C_y|^2 / d, mean over the batch (Tan et al., Eq. 7).

    f(x) are the features before the last stage, C_y the global prototype of the example's class:
    the mean of the newest prototypes of all clients that have sent one of it (Eq. 6, all alike, as
    their code has it; classes without one add nothing). The distance is each example's, as in their
    code: Eq. 8 has that of the means of a class. No tensor of a network leaves its client.
    An input is given the class of the nearest global prototype among those that the client received
    last (their code: of its own classes among them). The paper tests every client on its own
    classes: that is the utility ``own_classes``; on the whole test set a client gets at most the
    share of classes that it holds.

    Ours: all clients start from the same weights. A client's prototypes stay in the bank until it
    sends new ones.
    """

    by_example: ClassVar[tuple[str, ...]] = ("loss",)
    single_logit: ClassVar[bool] = False
    paper: ClassVar[str] = "Tan et al., AAAI 2022, Eq. 6 and 7, Algorithm 1"
    principal: ClassVar[tuple[str, ...]] = ("lam",)

    lam: float = Field(1.0, ge=0, description="weight of the distance to the global prototypes")

    def round(self, fed: Choreography) -> None:
        fed.server(self.downlink)
        fed.clients(self.prepare)
        fed.train(self.loss)
        fed.clients(self.uplink)
        fed.server(self.aggregate)

    def keeps(self, name: str, module: nn.Module) -> bool:
        return True

    def start(self, me: Client) -> None:
        wide = me.net.features(torch.zeros_like(me.data.x[:1])).shape[1]
        me.state["prototypes"] = me.data.x.new_zeros(me.facts.classes, wide)
        me.state["known"] = torch.zeros_like(me.state["prototypes"][:, 0], dtype=torch.bool)

    def downlink(self, server: Server) -> Sent:
        """The global prototypes (classes, d) and which there are, from the second round on."""
        if "held" not in server.state:
            return None
        held, known = server.state["held"], server.state["known"]
        many = known.sum(0)
        means = (held * known[..., None]).sum(0) / many.clamp(min=1)[:, None]
        return {"prototype": {"mean": means, "known": many > 0}}

    def prepare(self, me: Client) -> None:
        if "prototype" in me.inbox:
            me.state["prototypes"] = me.inbox["prototype"]["mean"]
            me.state["known"] = me.inbox["prototype"]["known"]

    def loss(self, net: Net, batch: Batch, me: Client) -> Tensor:
        place = net.extractor
        f = net(batch.x, stop=place)
        logits = net(f, start=place)
        away = f.flatten(1) - me.state["prototypes"][batch.y]
        apart = away.square().mean(1) * me.state["known"][batch.y]
        fit = torch.nn.functional.cross_entropy(logits, batch.y, reduction="none")
        return batch.mean(fit + self.lam * apart)

    def features(self, me: Client, x: Tensor) -> Tensor:
        return me.net.features(x)

    def aggregate(self, server: Server) -> None:
        came, facts = server.inbox, server.facts
        for i, f, y in zip(server.senders.tolist(), came["features"], came["labels"], strict=True):
            if "held" not in server.state:
                shape = (facts.clients, facts.classes, f.shape[1])
                server.state["held"] = f.new_zeros(shape)
                server.state["known"] = f.new_zeros(shape[:2], dtype=torch.bool)
            prototypes, known = bank(f, y, facts.classes)
            held, old = server.state["held"].clone(), server.state["known"].clone()
            held[i] = torch.where(known[:, None], prototypes, held[i])
            old[i] |= known
            server.state["held"], server.state["known"] = held, old

    def predict(self, net: Net, x: Tensor, me: Client) -> Tensor:
        return fits(net.features(x), me.state["prototypes"], me.state["known"])
