"""FedBR (Guo et al. 2023), as in FLea: unlabelled means are shared; features and a head play."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import Field

from defenses._mixing import one_hot, soft_cross_entropy
from defenses._shared_set import SharedSet
from leakbench import Batch, Client, Facts, Net, Sent, UsageError
from leakbench.base import torch
from leakbench.models import Stages, last_layer

if TYPE_CHECKING:
    from torch import Tensor, nn

HEAD = "projector"


class FedBR(SharedSet):
    """CE(own) + lam CE(pseudo, q) + mu L_con on features; the projector P ascends on gamma L_con.

    Before round 1 clients share means of ``size`` examples without their labels, ``means`` or more
    in all: everybody's pseudo data. In a step each pseudo example is a mean (drawn with
    replacement) averaged with one of the batch, and its target q the average of the uniform one and
    that example's own label: the authors' "mixture", which FLea's code has, too; ``mixed`` False
    takes the means and the uniform target alone, as FLea's text says. L_con = mean of
    -log(g / (g + o)) with g = exp(tau cos(P z_p, P z_g)) and o = exp(tau cos(P z_p, P z)), where z
    and z_p are the representations (what goes into the last layer) of the batch and the pseudo
    data, and z_g the received model's of the pseudo data, in evaluation mode. The features descend
    on it, P ascends (Guo et al., Eq. 2 and 3).

    P stands beside the network's stages ("side.projector"), so x does not pass through it, and is
    averaged like the rest. It is d to ``width``, ReLU, to ``width``, where the authors have three
    layers of 2d units (of HARNet's 2,304 numbers 42 million weights) and FLea's clients do not
    share it.

    Ours: both move in the same step, P's gradient turned round; the authors move P first, then the
    rest. FLea's code has 32 means in all, of ten clients that send more; here every client sends
    32 / clients of them, rounded up, of groups drawn at random, and all that is sent is used.
    Clients with fewer than ``size`` examples share nothing. Pseudo data move BatchNorm's running
    statistics, too, as every pass of a training does. Weights are those of FLea's code: mu
    0.5, lam 0.8 (the authors' 1), gamma 1, tau 2. The authors' code adds FedDecorr's term and
    trains on mix-up, FLea's does not, nor does this.

    Undefended: means of one example.
    """

    single_logit: ClassVar[bool] = False
    paper: ClassVar[str] = "Guo et al., ICML 2023, Eq. 2 and 3, as in FLea, KDD 2024, Appendix C.3"
    letters: ClassVar[dict[str, str]] = {"gamma": "γ", "tau": "τ"}

    size: int = Field(10, ge=1, description="examples in a mean")
    means: int = Field(
        32, ge=1, description="means in all; each client sends its part of them, rounded up"
    )
    mixed: bool = Field(
        True, description="average each mean with an own example, and its target with its label"
    )
    mu: float = Field(0.5, ge=0, description="weight of the contrast of features")
    lam: float = Field(0.8, ge=0, description="weight of the pseudo data's cross-entropy")
    gamma: float = Field(1.0, ge=0, description="weight of the contrast for the projector")
    tau: float = Field(2.0, gt=0, description="factor on the cosines")
    width: int = Field(256, ge=1, le=4096, description="units of the projector's two layers")

    def module(self, module: nn.Module, facts: Facts) -> nn.Module:
        """The task's architecture with the projector beside it.

        Raises:
            UsageError: it is not made of stages, or does not end in a linear layer.
        """
        _, last = last_layer(module, facts.shape)
        if not isinstance(module, Stages) or last is None:
            raise UsageError(
                "fedbr: the projector reads what goes into a linear last layer, and this network"
                " is not made of stages that end in one; take another task.model."
            )
        first = torch.nn.Linear(last.in_features, self.width)
        second = torch.nn.Linear(self.width, self.width)
        module.put_aside(HEAD, torch.nn.Sequential(first, torch.nn.ReLU(), second))
        return module

    def contribute(self, me: Client) -> Sent:
        """Means (m, ...) and nothing else."""
        return {"mean_data": self._groups(me).mean(1)}

    def loss(self, net: Net, batch: Batch, me: Client) -> Tensor:
        place = net.representation
        x, q = self._pseudo(batch, me)
        z, pseudo = net(batch.x, stop=place), net(x, stop=place)
        glob = net(x, stop=place, weights=me.inbox["model"])
        fit = torch.nn.functional.cross_entropy(net(z, start=place), batch.y)
        balance = soft_cross_entropy(net(pseudo, start=place), q).mean()
        return fit + self.lam * balance + self._contrast(net, z, pseudo, glob)

    def _pseudo(self, batch: Batch, me: Client) -> tuple[Tensor, Tensor]:
        """As many pseudo examples as the batch has, and their targets (B, classes)."""
        n, classes = len(batch.y), me.facts.classes
        means = me.inbox["mean_data"]
        x = means[me.rng.integers("pseudo", len(means), n)]
        q = torch.full((n, classes), 1 / classes, dtype=batch.x.dtype, device=batch.x.device)
        if not self.mixed:
            return x, q
        own = me.rng.integers("own", n, n)
        return (x + batch.x[own]) / 2, (q + one_hot(batch.y[own], classes, batch.x)) / 2

    def _contrast(self, net: Net, z: Tensor, pseudo: Tensor, glob: Tensor) -> Tensor:
        """Weighted: mu L_con for whoever made z, -gamma L_con for the projector; of mu 0 none."""
        if not self.mu:
            return z.new_zeros(())
        head = {k: v for k, v in net.weights.items() if k.startswith(f"side.{HEAD}.")}
        against = {k: turned(v, self.gamma / self.mu) for k, v in head.items()}
        a, b, c = (net.side(HEAD, v.flatten(1), weights=against) for v in (pseudo, glob, z))
        near, far = torch.cosine_similarity(a, b), torch.cosine_similarity(a, c)
        return self.mu * torch.nn.functional.softplus(self.tau * (far - near)).mean()

    def inputs(self, me: Client) -> dict[str, Any]:
        """All examples, in the order in which they are grouped: those of a mean stand together."""
        return {"mean_data": me.data.x[me.rng.permutation("groups", len(me.data.x))]}

    def undefended(self) -> Self:
        return self.model_copy(update={"size": 1})

    def _groups(self, me: Client) -> Tensor:
        """Examples (groups, size, ...) of the means that this client sends."""
        x = me.data.x
        groups = min(-(-self.means // me.facts.clients), len(x) // self.size)
        some = me.rng.permutation("groups", len(x))[: groups * self.size]
        return x[some].reshape(groups, self.size, *x.shape[1:])


def turned(v: Tensor, factor: float) -> Tensor:
    """v, exactly, with -``factor`` times its gradient.

    Of weights, not of features: an attacker who differentiates a step's gradient by its inputs
    gets that right, too. (Through the weights of earlier steps it would get the wrong sign.)
    """
    still = v.detach()
    return still - factor * (v - still)
