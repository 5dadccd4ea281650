"""FLea (Xia et al. 2024): clients share obfuscated features and train on each other's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field

from defenses._correlation import LOSSES
from defenses._distillation import divergence
from defenses._local_epochs import LocalEpochs
from defenses._mixing import mix, one_hot, soft_cross_entropy
from leakbench import Batch, Client, Net, Sent, Server
from leakbench.base import torch
from leakbench.federation import Choreography

if TYPE_CHECKING:
    from torch import Tensor


class FLea(LocalEpochs):
    """FedAvg on L_clf + lam1 L_dis + lam2 L_dec.

    The *new* model extracts the next round's features. Algorithm 1: the server sends the model and
    the buffer of the last round's features and labels; clients train on features mixed with the
    buffer's (Eq. 2, from stage ``layer`` on), on distillation from the received model on the same
    mixtures (Eq. 4) and on the correlation of features and inputs (Eq. 8); the updates are
    averaged; the same clients get the new model, pass a fraction ``share`` of their data through it
    in evaluation mode and send features and labels, which replace the buffer. In round 1 there is
    no buffer: own features, unmixed.

    ``variant = "released"`` has what the authors' code does instead (commit b85be07): loss CE(own)
    + CE(mixed) + KL(global || local) on the *buffer's* features + w L_dec, w = 3 - 0.1 t for t < 20
    and then 1, t the number of rounds before; in round 1 CE + KL/2 + 3 L_dec over three times the
    epochs; rate factor 1 - 0.018 t, from t = 50 on 0.1. Its fresh Adam for every batch is
    ``optimizer = "adam_each_step"`` (it has it in every method), its L_dec
    ``correlation = "plain_root"``.

    Ours: a partner is drawn with replacement for each example (the paper: shuffled batches of
    both); the shared examples are drawn once and without replacement (``subset``; the code: once,
    with replacement), at least one of a client (the code: none of fewer than ten). Gradients flow
    through the global model's inputs into the local features. The text says "a smaller beta is
    closer to the local feature"; Eq. 2 says the contrary and holds.
    """

    adds_mean: ClassVar[bool] = True
    single_logit: ClassVar[bool] = False
    paper: ClassVar[str] = "Xia et al., KDD 2024, Eq. 2 to 8, Algorithm 1"

    layer: str = Field(
        "first", description="stage whose output is shared; 'input': the data themselves"
    )
    share: float = Field(
        0.1,
        gt=0,
        le=1,
        description="alpha: fraction of its data that a client shares, at least one example",
    )
    subset: Literal["fixed", "fresh"] = Field(
        "fixed", description="the same examples in every round, or new ones (the paper is silent)"
    )
    a: int = Field(2, ge=1, description="beta ~ Beta(a, a), for each example")
    lam1: float = Field(1.0, ge=0, description="weight of the distillation")
    lam2: float = Field(3.0, ge=0, description="weight of the correlation of features and inputs")
    correlation: Literal["squared", "plain_root"] = Field(
        "squared", description="Eq. 8, or the released code's"
    )
    variant: Literal["paper", "released"] = Field(
        "paper", description="loss, first round and rates as in the paper or in its code"
    )

    def round(self, fed: Choreography) -> None:
        fed.server(self.downlink)
        longer = 3 if self.variant == "released" and fed.t == 1 else 1
        fed.train(self.loss, steps=self.steps * longer, epochs=self.epochs * longer)
        fed.server(self.aggregate)
        fed.server(self.publish)  # Algorithm 1, lines 14 to 18
        fed.clients(self.extract)
        fed.server(self.rebuild)

    def downlink(self, server: Server) -> Sent:
        return {"model": server.model, **server.state.get("buffer", {})}

    def publish(self, server: Server) -> Sent:
        """The new model, to the clients of this round."""
        return {"model": server.model}

    def extract(self, me: Client) -> Sent:
        """Features (n, ...) of the shared examples under the new model, and their labels (n,)."""
        some = self._some(me)
        return {"features": me.net(me.data.x[some], stop=self.layer), "labels": me.data.y[some]}

    def rebuild(self, server: Server) -> Sent:
        """The next round's buffer is this round's features, and nothing older."""
        came = server.inbox
        server.state["buffer"] = {k: torch.cat(list(came[k])) for k in ("features", "labels")}
        return None

    def loss(self, net: Net, batch: Batch, me: Client) -> Tensor:
        f = net(batch.x, stop=self.layer)
        follows = LOSSES[self.correlation](batch.x, f)
        if self.variant == "released":
            weight = 3 - 0.1 * (me.round - 1) if me.round <= 20 else 1.0
            return self._released(net, batch, f, me) + weight * follows
        y = one_hot(batch.y, me.facts.classes, batch.x)
        if "features" in me.inbox:
            f, y, _ = self._mixed(f, y, me)
        local, glob = self._logits(net, f, me)
        fit, distilled = soft_cross_entropy(local, y).mean(), divergence(local, glob).mean()
        return fit + self.lam1 * distilled + self.lam2 * follows

    def _released(self, net: Net, batch: Batch, f: Tensor, me: Client) -> Tensor:
        """All but L_dec of the released code's loss; ``lam1`` weighs its KL, too."""
        local, glob = self._logits(net, f, me)
        own = torch.nn.functional.cross_entropy(local, batch.y)
        if "features" not in me.inbox:
            return own + self.lam1 / 2 * divergence(glob, local).mean()
        mixed, y, partner = self._mixed(f, one_hot(batch.y, me.facts.classes, batch.x), me)
        local, glob = self._logits(net, me.inbox["features"][partner], me)
        of_mixed = soft_cross_entropy(net(mixed, start=self.layer), y).mean()
        return own + of_mixed + self.lam1 * divergence(glob, local).mean()

    def _mixed(self, f: Tensor, y: Tensor, me: Client) -> tuple[Tensor, Tensor, Tensor]:
        """Eq. 2: features (B, ...), soft labels (B, classes), and which rows were mixed in."""
        partner = me.rng.integers("partner", len(me.inbox["labels"]), len(y))
        beta = me.rng.beta("mix", self.a, len(y))
        theirs = one_hot(me.inbox["labels"][partner], me.facts.classes, f)
        return mix(f, me.inbox["features"][partner], beta), mix(y, theirs, beta), partner

    def _logits(self, net: Net, f: Tensor, me: Client) -> tuple[Tensor, Tensor]:
        """Of features f (B, ...): the local model's, and the received one's in evaluation mode."""
        return net(f, start=self.layer), net(f, start=self.layer, weights=me.inbox["model"])

    def schedule(self, round: int) -> float:
        if self.variant == "paper":
            return super().schedule(round)
        return 1 - 0.018 * (round - 1) if round <= 50 else 0.1

    def settled(self) -> int:
        return 0 if self.variant == "paper" else 50

    def inputs(self, me: Client) -> dict[str, Any]:
        return {"features": me.data.x[self._some(me)]}

    def undefended(self) -> Self:
        return self.model_copy(update={"layer": "input"})

    def _some(self, me: Client) -> Tensor:
        """Rows of the client's data that it shares."""
        n = len(me.data.y)
        rng = me.rng.always() if self.subset == "fixed" else me.rng
        return rng.permutation("share", n)[: max(1, int(self.share * n))]
