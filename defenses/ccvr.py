"""CCVR (Luo et al. 2021), as in FLea: the classifier is trained again on features, after FedAvg."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from defenses._class_prototypes import class_means, present
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

    So it is FLea's baseline (Appendix C.3). FLea gives "the same amount of features as our method";
    ours: the fraction that its clients share, of every client. It names neither steps nor rate of
    the calibration: ours are here.

    ``shares = "statistics"`` is what Luo et al. send (Section 4.2): of all its data a client sends
    each class's mean as ``features`` (L, d) with ``labels`` (L,), and ``statistics``: covariances
    (L, d, d), divided by n - 1, and counts (L,). The server puts them together (Eq. 3 and 4) and
    fits the classifier to ``virtual`` draws from one Gaussian a class, as many as the class has of
    all examples. That is no privacy: of one example the mean is its features, and of several mean
    and covariance are their features but for a rotation, which ``statistics_inversion`` finds.

    Undefended: itself; with features it claims to hide nothing.
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
    shares: Literal["features", "statistics"] = Field(
        "features", description="of some examples, as FLea has it, or of classes, as Luo et al."
    )
    virtual: int = Field(
        2000, ge=1, description="draws from the Gaussians, of shares = statistics (ours)"
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
        """Under the final model: features (n, ...) of the shared examples and their labels (n,).

        Or each class's mean features (L, d), its label (L,), covariance (L, d, d) and count (L,).
        """
        x, y = me.data.x, me.data.y
        place = self.layer or me.net.extractor
        if self.shares == "features":
            some = self._some(me)
            return {"features": me.net(x[some], stop=place), "labels": y[some]}
        f = me.net(x, stop=place).flatten(1)
        labels = present(y)
        apart = [f[y == label] - f[y == label].mean(0) for label in labels]
        each = [v.T @ v / max(len(v) - 1, 1) for v in apart]
        told = {"covariance": torch.stack(each), "count": y.bincount()[labels]}
        return {"features": class_means(f, y), "labels": labels, "statistics": told}

    def calibrate(self, server: Server) -> None:
        """What follows ``layer``, the last stage, trained on all features that came."""
        f, y = (torch.cat(list(server.inbox[kind])) for kind in ("features", "labels"))
        net = server.net()
        start = self.layer or net.extractor
        if self.shares == "statistics":
            blank = f.new_zeros(1, *server.facts.shape)
            f, y = self._drawn(server, f, y)
            f = f.reshape(len(f), *net(blank, stop=start, weights={}).shape[1:])
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

    def _drawn(self, server: Server, means: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Draws (n, d) from the classes' Gaussians and their labels (n,), of all clients' parts."""
        told = server.inbox["statistics"]
        covariances, counts = torch.cat(list(told["covariance"])), torch.cat(list(told["count"]))
        f: list[Tensor] = []
        y: list[Tensor] = []
        for label in present(labels):
            mine = labels == label
            mean, spread = gaussian(means[mine], covariances[mine], counts[mine])
            many = max(1, round(self.virtual * int(counts[mine].sum()) / int(counts.sum())))
            values, vectors = torch.linalg.eigh(spread)
            dice = server.rng.normal(f"virtual/{int(label)}", many, len(mean))
            f.append(mean + (dice * values.clamp(min=0).sqrt()) @ vectors.T)
            y.append(label.expand(many))
        return torch.cat(f), torch.cat(y)

    def inputs(self, me: Client) -> dict[str, Any]:
        if self.shares == "statistics":
            x, y = me.data.x, me.data.y
            return {"features": class_means(x, y), "statistics": x[y.argsort(stable=True)]}
        return {"features": me.data.x[self._some(me)]}

    def hides(self) -> bool:
        """With statistics it claims to: no example's features are sent as such."""
        return self.shares == "statistics"

    def _some(self, me: Client) -> Tensor:
        """Rows of the client's data that it shares."""
        n = len(me.data.y)
        return me.rng.permutation("share", n)[: max(1, int(self.share * n))]


def gaussian(means: Tensor, covariances: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Mean (d,) and covariance (d, d) of examples of which parts are known (Luo et al., Eq. 3, 4).

    Of the parts: means (M, d), covariances (M, d, d) over n - 1, counts (M,). Of one example the
    covariance is 0.
    """
    n = counts.to(means.dtype)
    mean = (n[:, None] * means).sum(0) / n.sum()
    inner = ((n - 1)[:, None, None] * covariances).sum(0)
    outer = (n[:, None] * means).T @ means - n.sum() * torch.outer(mean, mean)
    return mean, (inner + outer) / (n.sum() - 1).clamp(min=1)
