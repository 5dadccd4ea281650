"""FedDecorr (Shi et al. 2023): the dimensions of the representations are kept uncorrelated."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from defenses._local_epochs import LocalEpochs
from leakbench import Batch, Client, Net
from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor

TINY = 1e-8  # under the root of a variance, as the released code has it


class FedDecorr(LocalEpochs):
    """Cross-entropy + beta / d^2 |K|_F^2 (Shi et al., Eq. 6 and 7).

    K (d, d) are the correlations, over the batch, of the representations: what goes into the last
    layer. Undefended: itself; it claims to hide nothing.

    ``variant = "released"`` has what the authors' code (loss.py) computes, and FLea's after it: of
    standardised representations Z (n, d) with *unbiased* variances the mean of (Z'Z)^2 off the
    diagonal, over n. That is (n - 1)^2 / n times the mean squared correlation, 30 times Eq. 6 in
    batches of 32, so the same beta is another one.

    Ours: the representations are cut out of the one pass that makes the logits (the authors run the
    batch again, which BatchNorm would count twice). |Z'Z|_F is computed as |ZZ'|_F, which is the
    same number. A batch of one adds a term without gradient, as a dimension does that never
    changes.
    """

    single_logit: ClassVar[bool] = False
    paper: ClassVar[str] = "Shi et al., ICLR 2023, Eq. 6 and 7"
    principal: ClassVar[tuple[str, ...]] = ("beta",)
    letters: ClassVar[dict[str, str]] = {"beta": "β"}

    beta: float = Field(0.1, ge=0, description="weight of the correlations")
    variant: Literal["paper", "released"] = Field(
        "paper", description="the correlations as in Eq. 6, or as in the authors' code"
    )

    def loss(self, net: Net, batch: Batch, me: Client) -> Tensor:
        place = net.representation
        z = net(batch.x, stop=place)
        fit = torch.nn.functional.cross_entropy(net(z, start=place), batch.y)
        measure = correlations if self.variant == "paper" else released
        return fit + self.beta * measure(z.flatten(1))


def correlations(z: Tensor) -> Tensor:
    """|K|_F^2 / d^2 of the correlations K over z (n, d), () (Shi et al., Eq. 6)."""
    z = z - z.mean(0)
    z = z / (z.square().mean(0) + TINY).sqrt()
    n, d = z.shape
    return (z @ z.T).square().sum() / (n * d) ** 2


def released(z: Tensor) -> Tensor:
    """The authors' code: of z (n, d), standardised, the mean of (z'z)^2 off the diagonal, over n.

    0 for a batch of one.
    """
    n, d = z.shape
    z = z - z.mean(0)
    z = z / (z.square().sum(0) / max(n - 1, 1) + TINY).sqrt()
    whole, diagonal = (z @ z.T).square().sum(), z.square().sum(0).square().sum()
    return (whole - diagonal) / (max(d * (d - 1), 1) * n)
