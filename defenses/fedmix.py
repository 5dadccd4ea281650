"""FedMix (Yoon et al. 2021), as in FLea: means of a few examples are shared and mixed in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field

from defenses._mixing import mix, one_hot, soft_cross_entropy
from defenses._shared_set import SharedSet
from leakbench import Batch, Client, Net, Sent

if TYPE_CHECKING:
    from torch import Tensor


class FedMix(SharedSet):
    """Shares the mean of every ``size`` examples and of their labels before round 1.

    Loss: cross-entropy of beta x + (1 - beta) mean with beta y + (1 - beta) mean label, beta ~
    Beta(a, a), on mixtures alone. That is FLea's baseline (Appendix C.3 and its released code), a
    naive mix-up; Yoon et al.'s own loss, a Taylor expansion around (1 - lambda) x, is not here.

    Ours, where FLea is silent: a client's examples are grouped in a random order; those that fill
    no group are left out, so a client with fewer than ``size`` shares nothing; a mean is drawn with
    replacement for each example.
    """

    by_example: ClassVar[tuple[str, ...]] = ("loss",)
    single_logit: ClassVar[bool] = False
    paper: ClassVar[str] = "Yoon et al., ICLR 2021, as in FLea, KDD 2024, Appendix C.3"

    size: int = Field(10, ge=1, description="examples in a mean")
    a: int = Field(2, ge=1, description="beta ~ Beta(a, a)")
    per: Literal["batch", "example"] = Field(
        "batch", description="one beta for each batch (the released code) or for each example"
    )

    def contribute(self, me: Client) -> Sent:
        x, y = self._groups(me)
        return {"mean_data": x.mean(1), "labels": y.mean(1)}

    def loss(self, net: Net, batch: Batch, me: Client) -> Tensor:
        means, labels = me.inbox["mean_data"], me.inbox["labels"]
        partner = me.rng.integers("partner", len(means), len(batch.y))
        each = () if self.per == "batch" else (len(batch.y),)
        beta = me.rng.beta("mix", self.a, *each)
        target = mix(one_hot(batch.y, me.facts.classes, labels), labels[partner], beta)
        return batch.mean(soft_cross_entropy(net(mix(batch.x, means[partner], beta)), target))

    def inputs(self, me: Client) -> dict[str, Any]:
        """All examples, in the order in which they are grouped: those of a mean stand together."""
        return {"mean_data": me.data.x[me.rng.permutation("groups", len(me.data.y))]}

    def undefended(self) -> Self:
        return self.model_copy(update={"size": 1})

    def _groups(self, me: Client) -> tuple[Tensor, Tensor]:
        """Examples (groups, size, ...) and one-hot labels (groups, size, classes)."""
        x, y = me.data.x, me.data.y
        groups = len(y) // self.size
        order = me.rng.permutation("groups", len(y))[: groups * self.size]

        def grouped(v: Tensor) -> Tensor:
            return v[order].reshape(groups, self.size, *v.shape[1:])

        return grouped(x), grouped(one_hot(y, me.facts.classes, x))
