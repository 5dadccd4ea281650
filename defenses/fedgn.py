"""FedGN (baseline in FedHide): Gaussian noise on the prototype, drawn afresh each round."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

from pydantic import Field

from defenses._prototypes import Prototypes
from leakbench import Client, unit

if TYPE_CHECKING:
    from torch import Tensor


class FedGN(Prototypes):
    """Proxy = unit(w + n), n ~ N(0, sigma^2 I), Eq. 5.

    Its cosine with w is about 1/sqrt(1 + sigma^2 dim). Undefended: sigma = 0.
    """

    paper: ClassVar[str] = "Park and Yun, ECCV 2024, Eq. 1 to 3, 5"
    principal: ClassVar[tuple[str, ...]] = ("sigma",)

    sigma: float = Field(
        0.1,
        ge=0,
        description=(
            "standard deviation of the noise on each coordinate of w, |w| = 1 (the paper: 0.1 to"
            " 0.5)"
        ),
    )

    def proxy(self, w: Tensor, me: Client) -> Tensor:
        return unit(w + self.sigma * me.rng.normal("noise", *w.shape))

    def undefended(self) -> Self:
        return self.model_copy(update={"sigma": 0.0})
