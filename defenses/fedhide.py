"""FedHide (Park and Yun 2024): a client mixes its prototype into the proxies of its neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

from pydantic import Field

from defenses._prototypes import Prototypes
from leakbench import Client, Server, UsageError, others, unit
from leakbench.base import torch
from leakbench.federation import Mixture

if TYPE_CHECKING:
    from torch import Tensor


class FedHide(Prototypes):
    """Proxy = unit(alpha w + (1 - alpha) unit(sum of the k proxies nearest to w)), Eq. 4.

    Undefended: alpha = 1.
    """

    paper: ClassVar[str] = "Park and Yun, ECCV 2024, Eq. 1 to 4"
    principal: ClassVar[tuple[str, ...]] = ("alpha", "k")

    alpha: float = Field(
        0.1, ge=0, le=1, description="weight of the true prototype (the paper: 0.1, 0.01)"
    )
    k: int = Field(
        10, ge=1, description="neighbours mixed in (the paper: 5, 10, 20); at most clients - 1"
    )

    def start_server(self, server: Server) -> None:
        if self.k >= server.facts.clients:
            most = server.facts.clients - 1
            raise UsageError(
                f"fedhide: k = {self.k}, but each of {most + 1} clients has {most} neighbours; use"
                " a smaller k."
            )
        super().start_server(server)

    def proxy(self, w: Tensor, me: Client) -> Tensor:
        return self.mixed(w, me, self.alpha)

    def mixed(self, w: Tensor, me: Client, alpha: float | Tensor) -> Tensor:
        """Eq. 4 with any weight ``alpha`` of the true prototype ``w`` (dim,), of norm 1."""
        bank = me.inbox["prototype"]
        near = (bank @ w).masked_fill(~others(me), -torch.inf).topk(self.k).indices
        return unit(alpha * w + (1 - alpha) * unit(bank[near].sum(0)))

    def mixture(self) -> Mixture:
        return Mixture(self.alpha, self.k)

    def undefended(self) -> Self:
        return self.model_copy(update={"alpha": 1.0})
