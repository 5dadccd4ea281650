"""FedData (FLea's ceiling): a tenth of everybody's raw data is shared, and all train with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from defenses._shared_set import SharedSet
from leakbench import Batch, Client, Net, Sent
from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor


class FedData(SharedSet):
    """FedAvg in which every local batch holds ``batch`` own and ``shared_batch`` shared examples.

    No privacy at all. FLea (Appendix C.3) appends the shared set to every client's own data; an
    epoch then has (n + S) / 32 batches, n own and S shared examples, in which n / (n + S) are own
    on average. Here each batch has that share exactly: ``batch`` and ``shared_batch`` sum to the
    paper's 32 (a task's table states them), an epoch goes once through the own examples, and the
    shared ones are drawn with replacement. The number of steps and the expected mixture are the
    paper's: many more steps than the other methods take.
    """

    single_logit: ClassVar[bool] = False
    paper: ClassVar[str] = "FLea, KDD 2024, Appendix C.3"

    share: float = Field(
        0.1,
        gt=0,
        le=1,
        description="fraction of its data that a client shares, at least one example",
    )
    shared_batch: int = Field(
        28, ge=1, description="shared examples in a local step, beside the own ones"
    )
    batch: int = Field(4, ge=1, description="own examples in a local step")

    def contribute(self, me: Client) -> Sent:
        some = self._some(me)
        return {"data": me.data.x[some], "labels": me.data.y[some]}

    def loss(self, net: Net, batch: Batch, me: Client) -> Tensor:
        some = me.rng.integers("shared", len(me.inbox["labels"]), self.shared_batch)
        x = torch.cat([batch.x, me.inbox["data"][some]])
        y = torch.cat([batch.y, me.inbox["labels"][some]])
        return torch.nn.functional.cross_entropy(net(x), y)

    def inputs(self, me: Client) -> dict[str, Any]:
        return {"data": me.data.x[self._some(me)]}

    def _some(self, me: Client) -> Tensor:
        n = len(me.data.y)
        return me.rng.permutation("share", n)[: max(1, int(self.share * n))]
