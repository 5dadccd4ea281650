"""FedAwS (Yu et al. 2020): the server spreads true prototypes out and returns each its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from defenses._prototypes import Prototypes
from leakbench import Batch, Client, Each, Net, Sent, Server, UsageError, unit
from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor


class FedAwS(Prototypes):
    """Clients minimise L_pos alone, the server spreads their prototypes out.

    It steps on lam times the sum over pairs of max(0, margin - |w_c - w_c'|)^2 (Yu et al., Eq. 6).
    The sum runs over all pairs, each once; or, with ``top_k``, each prototype is pushed away from
    its ``top_k`` nearest alone, which stay where they are for that (after Yu et al.'s stochastic
    negative mining). ``top_k`` = clients - 1 is all pairs. ``lam`` stands where FedMetric's Eq. 2
    has it; it multiplies ``server_lr``, nothing else.

    Hides nothing: the server holds every true prototype, so P_leak is 1 by definition. Margin,
    server rate and negatives are not given in FedHide's comparison. The server returns directions;
    a client's prototype keeps its norm, so that ``own_lr`` turns it as fast as FedHide's, FedGN's
    and FedCS's.
    """

    adds_mean: ClassVar[bool] = True
    paper: ClassVar[str] = (
        "Yu et al., ICML 2020, Eq. 6; Park, Hosseini and Yun, FL-ICML 2021, Eq. 2"
    )

    lam: float = Field(
        10.0,
        ge=0,
        description=(
            "weight of the server's spread-out step (FedHide's weight of the negative loss: 10)"
        ),
    )
    margin: float = Field(
        1.4, gt=0, le=2, description="distance wanted between prototypes of norm 1 (ours)"
    )
    server_lr: float = Field(0.05, gt=0, description="rate of the server's spread-out step (ours)")

    top_k: int = Field(0, ge=0, description="nearest prototypes that push one; 0: all pairs")

    def start_server(self, server: Server) -> None:
        if self.top_k >= server.facts.clients:
            most = server.facts.clients - 1
            raise UsageError(
                f"fedaws: top_k = {self.top_k}, but each of {most + 1} prototypes has {most}"
                " others; use fewer, or 0 for all."
            )
        super().start_server(server)

    def downlink(self, server: Server) -> Sent:
        return {"model": server.model, "prototype": Each(server.state["bank"][server.receivers])}

    def prepare(self, me: Client) -> None:
        # In a client's first round, too: the server's is as random as its own. A step of own_lr
        # turns a vector of norm r by 1/r^2 of the gradient: taken over at norm 1, it would turn dim
        # times as fast as those that others drew and kept.
        me.own["prototype"] = me.own["prototype"].norm() * me.inbox["prototype"]

    def loss(self, net: Net, batch: Batch, me: Client) -> Tensor:
        return self.positive(net, batch, unit(me.own["prototype"]))

    def proxy(self, w: Tensor, me: Client) -> Tensor:
        return w

    def aggregate(self, server: Server) -> None:
        super().aggregate(server)
        w = server.state["bank"].detach().requires_grad_()
        gap = (self.margin - self._apart(w)).clamp(min=0)
        (grad,) = torch.autograd.grad(gap.square().sum(), w)
        server.state["bank"] = unit(w.detach() - self.lam * self.server_lr * grad)

    def _apart(self, w: Tensor) -> Tensor:
        """The distances that count, of the rows of ``w`` (C, dim): all pairs, or (C, top_k)."""
        if not self.top_k:
            return torch.pdist(w)
        fixed = w.detach()
        alike = (fixed @ fixed.T).fill_diagonal_(-torch.inf)
        return (w[:, None] - fixed[alike.topk(self.top_k).indices]).norm(dim=-1)
