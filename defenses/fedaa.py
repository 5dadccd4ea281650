"""FedAA (Chen et al. 2023): the server makes adversarial examples and tunes models on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field

from defenses import _identifier, _lockstep
from defenses._adversarial import search
from defenses._eleven_epochs import ElevenEpochs
from defenses.fedavg import FedAvg
from defenses.fedprox import FedProx
from defenses.moon import MOON
from leakbench import Batch, Client, Defense, Each, Facts, Net, Sent, Server, UsageError
from leakbench.base import Tree, each_row, row, stack, torch
from leakbench.federation import Choreography, fits_target

if TYPE_CHECKING:
    from torch import Tensor, nn

PAIRS = 64  # pairs of image and caption in a forward pass
LOCAL: dict[str, type[Defense]] = {"fedavg": FedAvg, "fedprox": FedProx, "moon": MOON}


class FedAA(ElevenEpochs):
    """Algorithm 4: two uploads of the model a round, with the server's optimisation between them.

    1. Clients train the model (``epochs``) and send the update; then the names of the labels that
       they hold.
       Where the task asks for captions: the one that fits their trained model best, Eq. 3.
    2. Server, Eq. 4: from Gaussian noise, ``examples`` inputs for every label name of client k that
       k's own model gives that label.
    3. Server, Eq. 5: every local model is tuned on the *other* clients' examples; their average is
       the model.
    4. Server, Eq. 6: an identifier for every client tells its examples from the others' by their
       features F under that average.
    5. Clients train the average (``second_epochs``) on their loss - ``eta3`` mean log(1 -
       I_k(F_k(x))), Eq. 7, and send the update, which is averaged again. I_k stays as it is.

    ``local`` is whose local loss stands for the paper's cross-entropy: with "fedprox" it is
    FedProx+AA of Table 5. ``identifier`` = false is the ablation Non-I (step 5 then trains on the
    loss alone), ``fine_tune`` = false is Non-F. ``sends`` = "images" sends images in place of label
    names, which then stand for the examples: the strategy of Zhao et al. that FedAA replaces, and
    what its control transcript shows. Hides by not sending: a label name stands for many images.
    But where a client holds one class, its name is what all its images have in common, and steps
    2 to 4 are an inversion of its model.

    Left open by the paper, decided here: 32 examples for a label (Eq. 4 and 5 speak of one, Eq. 6
    of a distribution), found together and, as Eq. 4 has no bounds, not clipped (``clip``: to [0,
    1], where inputs are images); sigma 1; 50 iterations; 10 full-batch steps of SGD at 0.0025 for
    Eq. 5's argmin; identifiers begun anew in every round (Algorithm 4), 20 epochs, ReLU; weights
    n_k / n (Algorithm 4; Eq. 6 has a plain mean). L_k in Eq. 7 is a mean, as L_adv is, though
    printed as a sum. On the server models run in evaluation mode. Of captions J is the mean over
    their words (Eq. 3 and 4), the argmin of Eq. 3 over all of a client's pairs, one caption a
    round, which takes a label name's place in all that follows.
    """

    fusible: ClassVar[bool] = False  # the server reads every single update
    one_by_one: ClassVar[tuple[str, ...]] = ("names",)  # clients hold different numbers of labels
    texts: ClassVar[bool] = True
    by_example: ClassVar[tuple[str, ...]] = ("loss", "second_loss")
    paper: ClassVar[str] = "Chen et al., ACM MM 2023, Eq. 4 to 7, Algorithms 1 to 4"

    epochs: int = Field(
        10, ge=0, description="local epochs before the examples are made, when steps is 0"
    )
    second_epochs: int = Field(1, ge=1, description="local epochs with the identifier")
    identifier: bool = Field(True, description="client identifiers; false: Non-I")
    fine_tune: bool = Field(True, description="tuning on the others' examples; false: Non-F")
    local: Literal["fedavg", "fedprox", "moon"] = Field(
        "fedavg", description="the method whose local loss is trained"
    )
    mu: float = Field(0.01, ge=0, description="mu of that method, if it has one")
    sends: Literal["names", "images"] = Field(
        "names", description="what a client tells of its data: label names, or images of each label"
    )
    examples: int = Field(
        32, ge=1, description="examples made, or images sent, for each label name"
    )
    sigma: float = Field(
        1.0, ge=0, description="standard deviation of the noise that examples start from"
    )
    search_steps: int = Field(50, ge=0, description="most iterations of L-BFGS in Eq. 4")
    clip: bool = Field(False, description="clip examples to [0, 1] once they are found")
    tune_steps: int = Field(10, ge=0, description="full-batch steps of SGD in Eq. 5")
    tune_lr: float = Field(0.0025, ge=0, description="their rate")
    identifier_epochs: int = Field(
        20, ge=0, description="passes over all examples that train the identifiers"
    )
    identifier_lr: float = Field(
        0.0004, gt=0, description="their rate of Adam, with betas 0.5 and 0.9"
    )
    hidden: int = Field(512, ge=1, description="hidden units of an identifier")
    eta3: float = Field(1.0, ge=0, description="eta3 / eta1: weight of the identifier's loss")

    @property
    def base(self) -> Defense:
        """The method whose local loss is trained."""
        kind = LOCAL[self.local]
        params = {"mu": self.mu} if "mu" in kind.model_fields else {}
        return kind.build(params, f"fedaa: local {self.local}")

    # a round --------------------------------------------------------------------------------------
    def round(self, fed: Choreography) -> None:
        fed.server(self.downlink)
        fed.clients(self.prepare)
        fed.train(self.loss)
        fed.clients(self.names)
        fed.server(self.adapt)
        fed.train(self.second_loss, epochs=self.second_epochs)
        fed.clients(self.uplink)
        fed.server(self.aggregate)

    def module(self, module: nn.Module, facts: Facts) -> nn.Module:
        """The task's architecture.

        Raises:
            UsageError: a round has one client, so there are no others' examples; or examples are
                to be clipped to [0, 1], and inputs lie elsewhere.
        """
        if max(1, round(self.fraction * facts.clients)) < 2:
            raise UsageError(
                "fedaa: a round with one client has no other clients' examples; use a fraction of"
                " at least two clients."
            )
        if self.clip and not (facts.input_range.plain and facts.input_range.bounded):
            raise UsageError(
                "fedaa: clip cuts examples off to [0, 1], and this task's inputs lie elsewhere"
                f" ({facts.input_range}); use clip=false."
            )
        return self.base.module(module, facts)

    def start(self, me: Client) -> None:
        self.base.start(me)

    def prepare(self, me: Client) -> Sent:
        return self.base.prepare(me)

    def loss(self, net: Net, batch: Batch, me: Client) -> Tensor:
        return self.base.loss(net, batch, me)

    def names(self, me: Client) -> Sent:
        """The labels that the client holds, (L,) ascending; or images (n, ...) and theirs (n,).

        Of a task with captions: its best-fitting one, (1, T), or those of the images, (n, T).
        """
        data = me.data
        said = data.y if data.targets is None else data.targets
        if self.sends == "names" and data.targets is None:
            return {"labels": _present(said)}
        rows = self._rows(me, data)
        if self.sends == "names":
            return {"labels": said[rows[:1]]}
        return {"labels": said[rows], "data": data.x[rows]}

    def adapt(self, server: Server) -> Sent:
        """Steps 2 to 4: the average of the tuned models to all, each client's identifier to it."""
        models = server.local_models()
        net = server.net()
        sets = self._sets(server, net, models) if self.identifier or self.fine_tune else []
        if self.fine_tune:
            models = self._tuned(server, net, models, sets)
        mean: dict[str, Tensor] = server.average(models)
        server.model = {**server.model, **mean}
        if not self.identifier:
            return {"model": server.model}
        features = [server.net().features(b.x, weights=mean).detach() for b in sets]
        sizes = (features[0].shape[1], self.hidden)
        names = [f"identifier/{c}" for c in server.senders.tolist()]
        begun = stack([_identifier.start(server.rng, name, *sizes) for name in names])
        how: dict[str, Any] = {"epochs": self.identifier_epochs, "lr": self.identifier_lr}
        trained = _identifier.train(begun, features, server.rng, batch=self.batch, **how)
        return {"model": server.model, "identifier": Each(trained)}

    def second_loss(self, net: Net, batch: Batch, me: Client) -> Tensor:
        """Eq. 7: the local loss and ``eta3`` mean -log(1 - I_k(F_k(x))), which moves F alone."""
        value = self.loss(net, batch, me)
        if "identifier" not in me.inbox:
            return value
        logit = _identifier.logit(me.inbox["identifier"], net.aside.features(batch.x))
        return value + self.eta3 * batch.mean(torch.nn.functional.softplus(logit))

    def uplink(self, me: Client) -> Sent:
        return self.base.uplink(me)

    # the server's optimisation --------------------------------------------------------------------
    def fits(self, net: Net, x: Tensor, y: Tensor, *, weights: dict[str, Tensor]) -> Tensor:
        """J(T(F(x)), y) of each example, (n,), under ``weights``; y: labels or captions (n, T)."""
        return fits_target(net, x, y, weights=weights)

    def made(self, net: Net, weights: dict[str, Tensor], labels: Tensor, noise: Tensor) -> Batch:
        """Eq. 4: ``examples`` inputs for each of ``labels`` (L,), or captions (L, T).

        From standard normal ``noise`` (L examples, ...) times sigma.
        """
        y = labels.repeat_interleave(self.examples, 0)

        def fits(x: Tensor) -> Tensor:
            return self.fits(net, x, y, weights=weights)

        x = search(fits, self.sigma * noise, steps=self.search_steps)
        return Batch(x.clamp(0, 1) if self.clip else x, y)

    def made_together(self, net: Net, models: Tree, labels: Tensor, noise: Tensor) -> list[Batch]:
        """``made`` of M clients at once: labels (M, L, ...), noise (M, L examples, ...)."""
        y = labels.repeat_interleave(self.examples, 1)

        def one(e: Tree) -> Tensor:
            return self.fits(net, e["x"], e["y"], weights=e["weights"])

        def among(rows: Tensor) -> _lockstep.Fits:
            some = {"weights": row(models, rows), "y": y[rows]}
            return lambda x: each_row(one, {**some, "x": x})

        x = _lockstep.search(among, self.sigma * noise, steps=self.search_steps)
        x = x.clamp(0, 1) if self.clip else x
        return [Batch(*both) for both in zip(x, y, strict=True)]

    def tuned(
        self, net: Net, weights: dict[str, Tensor], batch: Batch, *, together: bool = False
    ) -> dict[str, Tensor]:
        """Eq. 5: ``tune_steps`` steps of SGD on ``batch``, the other clients' examples.

        ``together``: M models (M, ...), each on its row of the batch.
        """

        def mean(e: Tree) -> Tensor:
            return self.fits(net, e["x"], e["y"], weights=e["weights"]).mean()

        parameters = {k for k, _ in net.module.named_parameters()}
        for _ in range(self.tune_steps):
            leaves = {k: v.detach().requires_grad_() for k, v in weights.items() if k in parameters}
            rows = {"x": batch.x, "y": batch.y, "weights": {**weights, **leaves}}
            value = each_row(mean, rows).sum() if together else mean(rows)
            grads = dict(zip(leaves, torch.autograd.grad(value, [*leaves.values()]), strict=True))
            moved = {k: v.detach() - self.tune_lr * grads[k] for k, v in leaves.items()}
            weights = {**weights, **moved}
        return weights

    def _tuned(
        self, server: Server, net: Net, models: list[dict[str, Tensor]], sets: list[Batch]
    ) -> list[dict[str, Tensor]]:
        """Every sender's model after Eq. 5; all at once where that is faster."""
        rest = [_others(sets, k) for k in range(len(models))]
        if _lockstep.faster([b.x for b in rest], sum(v.numel() for v in models[0].values())):
            try:
                x, y = torch.stack([b.x for b in rest]), torch.stack([b.y for b in rest])
                tuned = self.tuned(net, stack(models), Batch(x, y), together=True)
                return [row(tuned, k) for k in range(len(models))]
            except RuntimeError as error:  # vmap refused the network: one by one, or the real error
                server.fallbacks["tuned"] = str(error).splitlines()[0]
        return [self.tuned(net, m, b) for m, b in zip(models, rest, strict=True)]

    def _sets(self, server: Server, net: Net, models: list[dict[str, Tensor]]) -> list[Batch]:
        """What each sender's label names become; all senders' at once where that is faster."""
        labels = list(server.inbox["labels"])
        if self.sends == "images":
            return [Batch(x, y) for x, y in zip(server.inbox["data"], labels, strict=True)]
        noise = []
        for k, y in zip(server.senders.tolist(), labels, strict=True):
            shape = (len(y) * self.examples, *server.facts.shape)
            noise.append(server.rng.normal(f"noise/{k}", *shape))
        if _lockstep.faster(noise, sum(v.numel() for v in models[0].values())):
            try:
                together = (stack(models), torch.stack(labels), torch.stack(noise))
                return self.made_together(net, *together)
            except RuntimeError as error:  # vmap refused the network: one by one, or the real error
                server.fallbacks["examples"] = str(error).splitlines()[0]
        return [self.made(net, m, y, x) for m, y, x in zip(models, labels, noise, strict=True)]

    # what it hides --------------------------------------------------------------------------------
    def _rows(self, me: Client, data: Batch) -> Tensor:
        """Rows of the client's data: ``examples`` of each label, the same in every round.

        Of pairs of image and caption: those that its trained model fits best, the best first.
        """
        if data.targets is not None:
            return self._fitting(me, data)[: self.examples]
        order = me.rng.always().permutation("images", len(data.y))
        y = data.y[order]
        return torch.cat([order[y == label][: self.examples] for label in _present(y)])

    def _fitting(self, me: Client, data: Batch) -> Tensor:
        """Rows of all pairs in the order of their loss, (n,): Eq. 3."""
        assert data.targets is not None  # noqa: S101 - for the type checker
        net, stage = me.net, me.net.extractor
        how: dict[str, Any] = {"weights": me.trained}
        # The captions of one image lie side by side: F sees it once.
        new = torch.ones(len(data.y), dtype=torch.bool, device=data.y.device)
        new[1:] = (data.x[1:] != data.x[:-1]).flatten(1).any(1)
        with torch.no_grad():
            seen = [net(x, stop=stage, **how) for x in torch.split(data.x[new], PAIRS)]
            features = torch.cat(seen)[new.cumsum(0) - 1]
            parts = zip(torch.split(features, PAIRS), torch.split(data.targets, PAIRS), strict=True)
            losses = [fits_target(net, f, y, start=stage, **how) for f, y in parts]
        return torch.cat(losses).argsort(stable=True)

    def inputs(self, me: Client) -> dict[str, Any]:
        data = me.data
        rows = self._rows(me, data)
        if data.targets is None:
            return {"data": data.x[rows]}
        return {"data": data.x[rows], "labels": data.x[rows[:1]]}

    def undefended(self) -> Self:
        return self.model_copy(update={"sends": "images"})


def _others(sets: list[Batch], k: int) -> Batch:
    """X_adv without the k-th client's."""
    rest = [b for j, b in enumerate(sets) if j != k]
    return Batch(torch.cat([b.x for b in rest]), torch.cat([b.y for b in rest]))


def _present(y: Tensor) -> Tensor:
    """The labels that occur in y (n,), ascending."""
    return y.bincount().nonzero().flatten()
