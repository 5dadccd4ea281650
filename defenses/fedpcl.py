"""FedPCL (Tan et al. 2022): a fixed extractor, own projections, contrast with all prototypes."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from defenses._class_prototypes import ClassPrototypes, bank, fits, pooled
from leakbench import Batch, Client, Facts, Net, Sent, Server, UsageError, unit
from leakbench.base import torch
from leakbench.federation import Choreography
from leakbench.models import fix

if TYPE_CHECKING:
    from torch import Tensor, nn


class FedPCL(ClassPrototypes):
    """L_g + L_p, contrasts of projections r(x) of norm 1 with prototypes (Tan et al., Eq. 6 to 8).

    All stages but the last are fixed, and public; the last one is a projection of each client's own
    that never leaves it. Clients send the mean projection of each of their classes; the server
    sends all of the round's back to everybody. L_g = -log softmax over classes of r(x) . C_k / tau
    at the example's class, C_k being the mean of all clients' prototypes of class k; L_p the same
    against each client's own prototypes, the mean over those clients that have the class. Means of
    projections are shorter than 1, and left so, as in their code. An input is given the class of
    the nearest C_k that the client received last; their code takes the nearest of the client's own
    prototypes, and so asks among its own classes alone.

    Ours: the softmax runs over all classes that there are, the example's own among them; one
    extractor, not several; it is the task's ``pretrained`` one where that has some, else it stays
    as it was drawn: random features, of which utility is low. Everybody's prototypes under the
    first projection are shared before round 1.
    """

    single_logit: ClassVar[bool] = False
    paper: ClassVar[str] = "Tan et al., NeurIPS 2022, Eq. 6 to 8, Algorithm 1"
    principal: ClassVar[tuple[str, ...]] = ("temperature",)

    temperature: float = Field(0.07, gt=0, description="tau of both contrasts")
    projection: int = Field(64, ge=2, le=4096, description="numbers of a projection (ours)")

    def before(self, fed: Choreography) -> None:
        fed.server(self.extractor)
        fed.clients(self.first)
        fed.server(self.rebuild)

    def round(self, fed: Choreography) -> None:
        fed.server(self.downlink)
        fed.clients(self.prepare)
        fed.train(self.loss)
        fed.clients(self.uplink)
        fed.server(self.rebuild)

    def module(self, module: nn.Module, facts: Facts) -> nn.Module:
        """The task's architecture: all but the last stage fixed, a projection in its place.

        Raises:
            UsageError: it does not end in a linear layer.
        """
        *_, (name, last) = module.named_children()
        *front, linear = list(last.children()) or [last]
        if not isinstance(linear, torch.nn.Linear):
            raise UsageError(
                "fedpcl: a projection takes the place of a linear last layer, which this network"
                " lacks; take another task.model."
            )
        head = torch.nn.Linear(linear.in_features, self.projection)
        for stage in [*module.children()][:-1]:
            fix(stage)
        module.set_submodule(name, torch.nn.Sequential(*front, head) if front else head)
        return module

    def keeps(self, name: str, module: nn.Module) -> bool:
        return any(v.requires_grad for v in module.parameters(recurse=False))

    def start(self, me: Client) -> None:
        me.state["prototypes"] = me.data.x.new_zeros(me.facts.classes, self.projection)
        me.state["known"] = torch.zeros_like(me.state["prototypes"][:, 0], dtype=torch.bool)

    def extractor(self, server: Server) -> Sent:
        """The fixed stages, before anybody can project anything."""
        return {"model": server.model}

    def first(self, me: Client) -> Sent:
        """The prototypes (L, d) and labels (L,) of the projection as it was drawn."""
        return super().uplink(me)

    def rebuild(self, server: Server) -> None:
        """The next round's prototypes are this round's, and nothing older; how many each sent."""
        each = server.inbox["labels"]
        count = torch.tensor([len(y) for y in each], device=each[0].device)
        server.state["buffer"] = {**pooled(server), "count": count}

    def downlink(self, server: Server) -> Sent:
        return {"model": server.model, **server.state["buffer"]}

    def prepare(self, me: Client) -> None:
        f, y = me.inbox["features"], me.inbox["labels"]
        me.state["prototypes"], me.state["known"] = bank(f, y, me.facts.classes)

    def loss(self, net: Net, batch: Batch, me: Client) -> Tensor:
        r = unit(net(batch.x))
        prototypes, labels = me.inbox["features"], me.inbox["labels"]
        nowhere = torch.where(me.state["known"], 0.0, -torch.inf).to(r.dtype)
        alike = r @ me.state["prototypes"].T / self.temperature
        # Of a class that nobody of the round has there is nothing to be near to.
        far = (alike + nowhere).logsumexp(1) - alike.gather(1, batch.y[:, None])[:, 0]
        value = (far * me.state["known"][batch.y]).mean()
        owner = torch.repeat_interleave(me.inbox["count"])
        alike = r @ prototypes.T / self.temperature
        own = labels == batch.y[:, None]
        same = owner[:, None] == owner
        apart = torch.where(same, alike[:, None, :], -torch.inf).logsumexp(2)
        each = ((apart - alike) * own).sum(1) / own.sum(1).clamp(min=1)  # Eq. 8: over its clients
        return value + each.mean()

    def features(self, me: Client, x: Tensor) -> Tensor:
        return unit(me.net(x))

    def predict(self, net: Net, x: Tensor, me: Client) -> Tensor:
        return fits(unit(net(x)), me.state["prototypes"], me.state["known"])
