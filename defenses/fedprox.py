"""FedProx (Li et al. 2020): FedAvg whose clients stay near the model they received."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from leakbench import Batch, Client, Defense, Net

if TYPE_CHECKING:
    from torch import Tensor


class FedProx(Defense):
    """Local loss + mu/2 |theta - theta_received|^2 (Li et al., Eq. 2).

    With a single step the term is zero at its only gradient.
    """

    texts: ClassVar[bool] = True
    by_example: ClassVar[tuple[str, ...]] = ("loss",)
    paper: ClassVar[str] = "Li et al., MLSys 2020, Eq. 2"
    principal: ClassVar[tuple[str, ...]] = ("mu",)

    mu: float = Field(0.1, ge=0, description="weight of the proximal term")
    steps: int = Field(3, ge=0, description="local steps; 0: by epochs")

    def loss(self, net: Net, batch: Batch, me: Client) -> Tensor:
        model = me.inbox["model"]
        received = {k: model[k] for k, _ in net.module.named_parameters() if k in model}
        moved = sum((net.weights[k] - v).square().sum() for k, v in received.items())
        return super().loss(net, batch, me) + self.mu / 2 * moved
