"""FedHide whose alpha is drawn anew by each client in each round, from a public range."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

from pydantic import Field

from defenses.fedhide import FedHide
from leakbench import Client, Server, UsageError
from leakbench.federation import Mixture

if TYPE_CHECKING:
    from torch import Tensor


class FedHideRandom(FedHide):
    """Proxy as FedHide's (Eq. 4), with alpha ~ U(alpha_low, alpha) in each round at each client.

    Repairs: who un-mixes must know alpha, and here a client alone knows it. Does not repair: with
    the true neighbours a wrong alpha still leads to a vector that lies between w and their mean,
    and a client is named by that, too; the update gives w away without any proxy. Undefended: both
    ends are 1.
    """

    title: ClassVar[str] = "FedHide redrawn"
    paper: ClassVar[str] = "ours; FedHide is of Park and Yun, ECCV 2024, Eq. 1 to 4"
    principal: ClassVar[tuple[str, ...]] = ("alpha", "alpha_low", "k")

    alpha: float = Field(0.1, ge=0, le=1, description="largest weight of the true prototype")
    alpha_low: float = Field(
        0.01, ge=0, le=1, description="least weight of the true prototype, at most alpha"
    )

    def start_server(self, server: Server) -> None:
        if self.alpha_low > self.alpha:
            raise UsageError(
                f"fedhide_random: alpha_low = {self.alpha_low} is above alpha = {self.alpha}; the"
                " weight is drawn between them, so use a smaller alpha_low."
            )
        super().start_server(server)

    def proxy(self, w: Tensor, me: Client) -> Tensor:
        share = me.rng.uniform("alpha")
        return self.mixed(w, me, self.alpha_low + (self.alpha - self.alpha_low) * share)

    def mixture(self) -> Mixture:
        return super().mixture()._replace(drawn=self.alpha_low < self.alpha)

    def undefended(self) -> Self:
        return self.model_copy(update={"alpha": 1.0, "alpha_low": 1.0})
