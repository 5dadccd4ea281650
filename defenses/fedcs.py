"""FedCS (baseline in FedHide): a direction at a fixed cosine from the prototype."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

from pydantic import Field

from defenses._prototypes import Prototypes
from leakbench import Client, unit

if TYPE_CHECKING:
    from torch import Tensor


class FedCS(Prototypes):
    """Proxy uniform on the unit vectors v with w . v = cos_theta, each round (Eq. 6).

    Undefended: cos_theta = 1.
    """

    paper: ClassVar[str] = "Park and Yun, ECCV 2024, Eq. 1 to 3, 6"
    principal: ClassVar[tuple[str, ...]] = ("cos_theta",)

    cos_theta: float = Field(
        0.5, ge=-1, le=1, description="cosine of proxy and prototype (the paper: 0.1 to 0.5)"
    )

    def proxy(self, w: Tensor, me: Client) -> Tensor:
        n = me.rng.normal("direction", *w.shape)
        for _ in range(2):  # once leaves a rounding error along w, which unit() may blow up
            n = n - (n @ w) * w
        return self.cos_theta * w + (1 - self.cos_theta**2) ** 0.5 * unit(n)

    def undefended(self) -> Self:
        return self.model_copy(update={"cos_theta": 1.0})
