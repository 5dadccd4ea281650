"""DeepSVDD (Ruff et al. 2018): every client alone with a model of its own; nothing is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from leakbench import Batch, Client, Defense, Facts, Net
from leakbench.base import torch
from leakbench.federation import Choreography

if TYPE_CHECKING:
    from torch import Tensor, nn

CHUNK = 500  # images at a time


class DeepSVDD(Defense):
    """Loss d(g(x), C)^2, mean over the batch (FedMetric, Eq. 1), at each client alone.

    Every tensor is kept, no message exists. C is the mean embedding of the client's data under the
    initial weights and stays fixed. Coordinates nearer to 0 than ``least`` are moved to plus or
    minus that, as Ruff et al.'s released code does (from memory): weights of zero would map
    everything to a centre at 0. For the same reason biases are taken out of the task's module,
    those of normalisation layers too; a bounded activation that the module has (tanh) stays,
    against the paper's advice.

    Differences from Ruff et al.: no autoencoder beforehand, no weight decay, plain SGD. All clients
    start from the same initial weights, as a federation's do. Hides everything, by not sending.
    """

    outputs: ClassVar[Literal["logits", "embedding"]] = "embedding"
    paper: ClassVar[str] = "Ruff et al., ICML 2018; Park, Hosseini and Yun, FL-ICML 2021, Eq. 1"

    lr: float = Field(
        0.01,
        gt=0,
        description=(
            "local learning rate of the model (ours; at 0.1 rounding errors grow from round to"
            " round)"
        ),
    )
    least: float = Field(0.1, ge=0, description="least size of a coordinate of the centre")

    def round(self, fed: Choreography) -> None:
        fed.train(self.loss)

    def module(self, module: nn.Module, facts: Facts) -> nn.Module:
        for part in module.modules():
            if getattr(part, "bias", None) is not None:
                part.register_parameter("bias", None)
        return module

    def keeps(self, name: str, module: nn.Module) -> bool:
        return True

    def start(self, me: Client) -> None:
        x = me.data.x
        mean = torch.cat([me.net(some) for some in torch.split(x, CHUNK)]).mean(0)
        least = torch.full_like(mean, self.least)  # else of float32, whatever the run is of
        edge = torch.where(mean < 0, -least, least)
        me.state["centre"] = torch.where(mean.abs() < least, edge, mean)

    def loss(self, net: Net, batch: Batch, me: Client) -> Tensor:
        return (net(batch.x) - me.state["centre"]).square().sum(1).mean()

    def predict(self, net: Net, x: Tensor, me: Client) -> Tensor:
        return -(net(x) - me.state["centre"]).norm(dim=1)

    def hides(self) -> bool:
        return True
