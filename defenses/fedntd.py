"""FedNTD (Lee et al. 2022): what the global model says of the wrong classes is distilled."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from defenses._distillation import divergence
from defenses._local_epochs import LocalEpochs
from leakbench import Batch, Client, Net
from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor


class FedNTD(LocalEpochs):
    """Cross-entropy + beta tau^2 KL(global || local) over the classes that are not true.

    Lee et al., Eq. 2 to 4: both models' logits without the true class's, over tau, then softmax.
    Eq. 4 has no tau^2, the authors' code has (criterion.py), and so has this; at tau = 1, the
    default there and in FLea, it is the same. The teacher is the model as received, in evaluation
    mode and without a gradient. Undefended: itself; it claims to hide nothing.
    """

    by_example: ClassVar[tuple[str, ...]] = ("loss",)
    single_logit: ClassVar[bool] = False
    paper: ClassVar[str] = "Lee et al., NeurIPS 2022, Eq. 2 to 4"
    principal: ClassVar[tuple[str, ...]] = ("beta",)
    letters: ClassVar[dict[str, str]] = {"beta": "β", "tau": "τ"}

    beta: float = Field(1.0, ge=0, description="weight of the distillation")
    tau: float = Field(1.0, gt=0, description="temperature of the distillation")

    def loss(self, net: Net, batch: Batch, me: Client) -> Tensor:
        local, glob = net(batch.x), net(batch.x, weights=me.inbox["model"])
        fit = torch.nn.functional.cross_entropy(local, batch.y, reduction="none")
        local, glob = (not_true(logits, batch.y) / self.tau for logits in (local, glob))
        return batch.mean(fit + self.beta * self.tau**2 * divergence(glob, local))


def not_true(logits: Tensor, y: Tensor) -> Tensor:
    """The logits (B, K - 1) of the classes that are not ``y`` (B,), of (B, K); in their order."""
    index = torch.arange(logits.shape[1] - 1, device=y.device)
    return logits.gather(1, index + (index >= y[:, None]).to(index.dtype))
