"""FedAwS (Yu et al. 2020): true prototypes go to the server, which spreads them out and returns each client its own."""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from defenses._prototypes import Prototypes
from leakbench import Batch, Client, Each, Net, Sent, Server, unit


class FedAwS(Prototypes):
    """Clients minimise L_pos alone; the server steps on sum over c != c' of max(0, margin - |w_c - w_c'|)^2 (Yu et al., Eq. 6).

    Hides nothing: the server holds every true prototype, so P_leak is 1 by definition. Margin, server rate and negatives are
    not given in FedHide's comparison; all pairs are used here. ``lam`` has no effect.
    """

    paper: ClassVar[str] = "Yu et al., ICML 2020, Eq. 6"

    margin: float = Field(1.4, gt=0, le=2, description="distance wanted between prototypes of norm 1 (ours)")
    server_lr: float = Field(0.05, gt=0, description="rate of the server's spread-out step (ours)")

    def downlink(self, server: Server) -> Sent:
        return {"model": server.model, "prototype": Each(server.state["bank"][server.receivers])}

    def prepare(self, me: Client) -> None:
        # Also in a client's first round: the server's start is as random as its own, and already spread out.
        me.own["prototype"] = me.inbox["prototype"]

    def loss(self, net: Net, batch: Batch, me: Client) -> Tensor:
        return self.positive(net, batch, unit(me.own["prototype"]))

    def proxy(self, w: Tensor, me: Client) -> Tensor:
        return w

    def aggregate(self, server: Server) -> None:
        super().aggregate(server)
        w = server.state["bank"].detach().requires_grad_()
        gap = (self.margin - torch.pdist(w)).clamp(min=0)
        (grad,) = torch.autograd.grad(gap.square().sum(), w)
        server.state["bank"] = unit(w.detach() - self.server_lr * grad)
