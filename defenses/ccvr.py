"""CCVR (Luo et al. 2021), as in FLea: the classifier is trained again on features, after FedAvg."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from defenses._local_epochs import LocalEpochs
from leakbench import Client, Sent, Server
from leakbench.base import torch
from leakbench.federation import Choreography

if TYPE_CHECKING:
    from torch import Tensor

BATCH = 32  # features in a step of the calibration


class CCVR(LocalEpochs):
    """FedAvg; after the last round the server fits the last stage to features of all clients.

    Every client passes a fraction ``share`` of its data through the final model, up to its last
    stage, and sends these features with their labels, once; the server trains the last stage on
    them by Adam and leaves the rest of the model as it is. So the utility that counts is the one
    after the last round, and what leaks is what is sent then.

    As FLea's baseline (Appendix C.3): the classifier is fitted to features, not to samples of
    Gaussians made of each class's mean and covariance, which is what Luo et al. send. FLea gives
    "the same amount of features as our method"; ours: the fraction that its clients share, of every
    client. It names neither steps nor rate of the calibration: ours are here. Undefended: itself;
    in this form it claims to hide nothing.
    """

    by_example: ClassVar[tuple[str, ...]] = ("loss",)
    single_logit: ClassVar[bool] = False
    paper: ClassVar[str] = "Luo et al., NeurIPS 2021, as in FLea, KDD 2024, Appendix C.3"

    layer: str = Field(
        "", description="stage whose output is shared; what follows is calibrated; '': last but one"
    )
    share: float = Field(
        0.1,
        gt=0,
        le=1,
        description="fraction of its data that a client shares as features, at least one example",
    )
    calibration_epochs: int = Field(
        50, ge=0, description="passes over all features that train the last stage (ours)"
    )
    calibration_lr: float = Field(0.001, gt=0, description="their rate of Adam (ours)")

    def after(self, fed: Choreography) -> None:
        fed.server(self.downlink)
        fed.clients(self.extract)
        fed.server(self.calibrate)

    def extract(self, me: Client) -> Sent:
        """Features (n, ...) of the shared examples under the final model, and their labels (n,)."""
        some = self._some(me)
        features = me.net(me.data.x[some], stop=self.layer or me.net.extractor)
        return {"features": features, "labels": me.data.y[some]}

    def calibrate(self, server: Server) -> None:
        """What follows ``layer``, the last stage, trained on all features that came."""
        f, y = (torch.cat(list(server.inbox[kind])) for kind in ("features", "labels"))
        net = server.net()
        start = self.layer or net.extractor
        stages = ["input", *(name for name, _ in net.module.named_children())]
        last = stages[stages.index(start) + 1 :]
        of_last = [k for k, _ in net.module.named_parameters() if k.split(".")[0] in last]
        leaves = {k: server.model[k].detach().clone().requires_grad_() for k in of_last}
        optimizer = torch.optim.Adam(list(leaves.values()), lr=self.calibration_lr)
        for epoch in range(self.calibration_epochs):
            order = server.rng.permutation(f"calibration/{epoch}", len(y)).to(y.device)
            for rows in torch.split(order, BATCH):
                logits = net(f[rows], start=start, weights=leaves)
                value = torch.nn.functional.cross_entropy(logits, y[rows])
                grads = torch.autograd.grad(value, list(leaves.values()))
                for leaf, grad in zip(leaves.values(), grads, strict=True):
                    leaf.grad = grad
                optimizer.step()
        server.model = {**server.model, **{k: v.detach() for k, v in leaves.items()}}

    def inputs(self, me: Client) -> dict[str, Any]:
        return {"features": me.data.x[self._some(me)]}

    def _some(self, me: Client) -> Tensor:
        """Rows of the client's data that it shares."""
        n = len(me.data.y)
        return me.rng.permutation("share", n)[: max(1, int(self.share * n))]
