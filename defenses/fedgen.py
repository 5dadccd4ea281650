"""FedGen, as in FLea: from some round on clients also train on what a generator makes of labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from defenses import _generator
from defenses._local_epochs import LocalEpochs
from defenses._mixing import one_hot
from leakbench import Batch, Client, Net, Sent, Server
from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor


class FedGen(LocalEpochs):
    """Cross-entropy + ``weight`` times the same of generated examples, from round ``begin`` + 1 on.

    The server keeps a generator G(y, z) of *inputs*: four transposed convolutions on a one-hot
    label y and normal noise z. After every round it is trained to make what the global model takes
    for y, -log p(y | G(y, z)), and different things of different noise: minus ``diversity`` times
    log(1 + |G(y, z) - G(y, z')| / |z - z'|), means over the batch. Labels are drawn as often as the
    round's clients hold them, who send how many examples they have of each class. Clients get the
    generator's weights and draw labels evenly and noise for themselves.

    FLea (Appendix C.3) says: "four ConvTranspose2d layers", FedAvg for the first 30 rounds, then
    the global model tells whether what is generated is real. It gives neither widths, loss,
    weights, steps nor the labels' distribution. Ours: cross-entropy under the global model takes
    the place of real or not; counts and diversity are those of Zhu et al. (ICML 2021), whose
    generator makes latent features; signals are bounded. Undefended: itself; it claims to hide
    nothing.
    """

    by_example: ClassVar[tuple[str, ...]] = ("loss",)
    adds_mean: ClassVar[bool] = True
    single_logit: ClassVar[bool] = False
    paper: ClassVar[str] = "Liu et al. 2022 and Zhu et al., ICML 2021, as in FLea, Appendix C.3"
    principal: ClassVar[tuple[str, ...]] = ("begin",)

    begin: int = Field(30, ge=0, description="rounds of plain FedAvg (FLea: 30)")
    weight: float = Field(1.0, ge=0, description="of the generated examples' loss (ours)")
    generated: int = Field(32, ge=1, description="generated examples in a local step (ours)")
    noise: int = Field(64, ge=1, le=4096, description="numbers of noise behind an example (ours)")
    channels: int = Field(
        64, ge=8, le=4096, description="of the generator's first convolution, halved in each (ours)"
    )
    generator_steps: int = Field(
        20, ge=0, description="steps of Adam on the generator after a round (ours)"
    )
    generator_lr: float = Field(0.001, gt=0, description="their rate (ours)")
    diversity: float = Field(1.0, ge=0, description="weight of the generator's diversity (ours)")

    def settled(self) -> int:
        return self.begin

    def start_server(self, server: Server) -> None:
        made = _generator.start(server.rng, server.facts, self.noise, self.channels)
        server.state["generator"] = made

    def downlink(self, server: Server) -> Sent:
        if server.round <= self.begin:
            return {"model": server.model}
        return {"model": server.model, "generator": server.state["generator"]}

    def loss(self, net: Net, batch: Batch, me: Client) -> Tensor:
        value = super().loss(net, batch, me)
        if "generator" not in me.inbox:
            return value
        y = me.rng.integers("labels", me.facts.classes, self.generated)
        noise = me.rng.normal("noise", self.generated, self.noise)
        labels = one_hot(y, me.facts.classes, batch.x)
        x = _generator.made(me.inbox["generator"], labels, noise, me.facts)
        return value + self.weight * torch.nn.functional.cross_entropy(net.aside(x), y)

    def uplink(self, me: Client) -> Sent:
        """How many examples it has of each class, (K,) int64."""
        return {"label_counts": one_hot(me.data.y, me.facts.classes, me.data.x).sum(0).long()}

    def aggregate(self, server: Server) -> None:
        super().aggregate(server)
        if server.round < self.begin:  # the first that clients get is made after round ``begin``
            return
        counts = torch.stack(list(server.inbox["label_counts"])).sum(0)
        server.state["generator"] = self._trained(server, counts)

    def _trained(self, server: Server, counts: Tensor) -> _generator.Generator:
        """The generator, ``generator_steps`` later, on labels as frequent as ``counts`` (K,)."""
        net, facts = server.net(), server.facts
        leaves = {k: v.detach().clone() for k, v in server.state["generator"].items()}
        leaves = {k: v.requires_grad_() for k, v in leaves.items()}
        optimizer = torch.optim.Adam(list(leaves.values()), lr=self.generator_lr)
        upto = counts.double().cumsum(0) / counts.sum()
        for step in range(self.generator_steps):
            dice = server.rng.uniform(f"labels/{step}", self.generated).double()
            y = torch.searchsorted(upto, dice.to(upto.device), right=True)
            y = y.clamp(max=facts.classes - 1)
            z = server.rng.normal(f"noise/{step}", 2, self.generated, self.noise)
            labels = one_hot(y, facts.classes, z)
            x, other = (_generator.made(leaves, labels, part, facts) for part in z)
            fit = torch.nn.functional.cross_entropy(net(x, weights={}), y)
            apart = (x - other).abs().flatten(1).mean(1) / (z[0] - z[1]).abs().mean(1)
            value = fit - self.diversity * torch.log1p(apart).mean()
            grads = torch.autograd.grad(value, list(leaves.values()))
            for leaf, grad in zip(leaves.values(), grads, strict=True):
                leaf.grad = grad
            optimizer.step()
        return {k: v.detach() for k, v in leaves.items()}
