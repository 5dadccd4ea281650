"""FedLC (Zhang et al. 2022): logits are calibrated by how often a client has each class."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from defenses._local_epochs import LocalEpochs
from defenses._mixing import one_hot
from leakbench import Batch, Client, Net
from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor


class FedLC(LocalEpochs):
    """Cross-entropy of the logits z_c - tau (n_c + added)^(-1/4), n_c the client's examples of c.

    Zhang et al., Section 4: the rarer a class, the wider its margin. It is kept in ``me.state`` and
    never sent, and the loss alone reads it: predictions are the plain logits'. Undefended: itself;
    it claims to hide nothing.

    Where a client lacks a class, n_c^(-1/4) is infinite. As FLea's code has it, ``added`` = 1e-6:
    that class's logit falls by 32 tau. With tau = 1 it is as good as left out of the softmax, so
    its output bias hardly moves, and *which* biases move says which classes a client has. With
    ``added`` = 1 it falls by tau, as that of a class with one example would otherwise.

    Their sum in the denominator leaves the true class out, which makes the loss unbounded below;
    here as in FLea's code it is the softmax over all classes.
    """

    by_example: ClassVar[tuple[str, ...]] = ("loss",)
    single_logit: ClassVar[bool] = False
    paper: ClassVar[str] = "Zhang et al., ICML 2022, Section 4, as in FLea, KDD 2024, Appendix C.3"
    principal: ClassVar[tuple[str, ...]] = ("tau",)
    letters: ClassVar[dict[str, str]] = {"tau": "τ"}

    tau: float = Field(1.0, ge=0, description="scale of the margins (FLea tries 0.1 to 1)")
    added: float = Field(1e-6, gt=0, description="to every count, for classes that a client lacks")

    def start(self, me: Client) -> None:
        counts = one_hot(me.data.y, me.facts.classes, me.data.x).sum(0)
        me.state["margin"] = self.tau * (counts + self.added) ** -0.25

    def loss(self, net: Net, batch: Batch, me: Client) -> Tensor:
        logits = net(batch.x) - me.state["margin"]
        return batch.mean(torch.nn.functional.cross_entropy(logits, batch.y, reduction="none"))
