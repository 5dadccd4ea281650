"""FedHush: a client shows its prototype under noise that it draws once and keeps."""

from __future__ import annotations

from typing import ClassVar, Self

from pydantic import Field
from torch import Tensor

from defenses import Prototypes
from leakbench import Client, unit


class FedHush(Prototypes):
    """Proxy = unit(w + n), n ~ N(0, sigma^2 I). Undefended: sigma = 0."""

    paper: ClassVar[str] = "an example"
    principal: ClassVar[tuple[str, ...]] = ("sigma",)

    sigma: float = Field(0.5, ge=0, description="standard deviation of the noise; |w| = 1")

    def proxy(self, w: Tensor, me: Client) -> Tensor:
        # The same noise in every round: what is drawn afresh averages out.
        noise = me.rng.always().normal("noise", *w.shape)
        return unit(w + self.sigma * noise)

    def undefended(self) -> Self:
        return self.model_copy(update={"sigma": 0.0})
