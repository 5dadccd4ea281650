"""Prototype to picture: an image of what a client holds, from the prototype recovered from it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from attacks import _pictures
from attacks.prototype_averaging import PrototypeAveraging
from attacks.prototype_from_update import PrototypeFromUpdate
from attacks.prototype_leakage import PrototypeLeakage
from attacks.prototype_unmixing import PrototypeUnmixing
from leakbench.attacking import Attack, Guess, Metric, Outline, ThreatModel, View
from leakbench.base import torch
from leakbench.federation import Net, unit
from leakbench.metrics import PICTURE_NAMES, PICTURE_PSNR

if TYPE_CHECKING:
    from torch import Tensor

# How prototypes are recovered: another attack, which reads what it declares.
SOURCES: dict[str, type[Attack]] = {
    "message": PrototypeLeakage,
    "mean": PrototypeAveraging,
    "unmixed": PrototypeUnmixing,
    "update": PrototypeFromUpdate,
}
SPEED = 4e9  # numbers of a network times images in a second of two cores, for `seconds`
STEP = 0.002  # seconds that a step takes however small the network is


class PrototypePicture(Attack):
    """Draws what a client holds from the prototype that another attack made of its messages.

    A prototype is where a client's examples are embedded by the global model, which the server has:
    an image that is embedded there looks like the client's. The model is the newest that was
    recorded. ``source`` is the attack that recovers the prototypes, with its own fields as they
    are unless given; a client whose prototype it does not recover gets no picture.

    ``way`` = "pixels": without any data, an image between 0 and 1 that is embedded near the
    prototype and has little total variation. "components": the same among images that are likely
    under a Gaussian with the mean and covariance of the auxiliary images; without that, descent
    finds patterns that are embedded nearest and look like nothing. "decoder": ridge regression of
    the auxiliary images on their embeddings. Real images are not embedded at their prototype but
    half-way to it (digit-pairs: at a cosine of .5 for FedAwS, .85 for FedHide), so a decoder has
    to reach further than what it was trained on; the one that `decoder` trains named fewer clients
    (83 of 100 with FedAwS where this names 100; 100 with as much noise on the embeddings, less like
    the clients' images, and a hundred times slower).

    What such a picture shows is the client's class. Members cannot be told by it: of digit-pairs
    even the mean of a client's very images is more like one of them than like a test image of its
    class no more often than 56 times in 100, and another client's picture is so 52 times.
    """

    about: ClassVar[str] = "a picture of what a client holds, from its recovered prototype"
    paper: ClassVar[str] = "adaptive; Fredrikson et al. 2015; not in FedHide"
    metrics: ClassVar[tuple[Metric, ...]] = (PICTURE_NAMES, PICTURE_PSNR)
    order: ClassVar[int] = 1
    over: ClassVar[Literal["stages", "all"]] = "all"
    variants: ClassVar[tuple[dict[str, Any], ...]] = (
        {"way": "pixels"},
        {"way": "components"},
        {"way": "decoder"},
        {"way": "decoder", "source": "unmixed"},
        {"way": "decoder", "source": "update"},
    )

    source: Literal["message", "mean", "unmixed", "update"] = Field(
        "mean",
        description="the prototype: newest message, mean of messages, un-mixed, or of an update",
    )
    way: Literal["pixels", "components", "decoder"] = Field(
        "decoder", description="search of pixels, of auxiliary components, or ridge regression"
    )
    steps: int = Field(150, ge=1, le=100_000, description="of Adam in each restart")
    restarts: int = Field(2, ge=1, le=1000, description="starts; the best picture is kept")
    prior: float = Field(3.0, ge=0, description="way=components: weight of being likely")
    total_variation: float = Field(10.0, ge=0, description="way=pixels: weight of being smooth")
    ridge: float = Field(1.0, ge=0, description="way=decoder: in variances of the embeddings")

    @property
    def threat(self) -> ThreatModel:
        own = self._recovery.threat
        kinds = (*own.kinds, *(k for k in ("model",) if k not in own.kinds))
        knows = [*own.knows, "method", "facts"]
        if self.way != "pixels":
            knows.append("aux_data")
        rung: Literal["method", "public"] = "method" if self.way == "pixels" else "public"
        return ThreatModel.model_validate(
            {
                "observer": own.observer,
                "kinds": kinds,
                "rounds": "all",
                "knows": tuple(dict.fromkeys(knows)),
                "rung": rung,
            }
        )

    @property
    def floor_threat(self) -> ThreatModel:
        knows = dict.fromkeys((*self.threat.knows, "aux_data"))
        return self.threat.model_copy(update={"knows": tuple(knows)})

    def obstacle(self, run: Outline) -> str:
        why = self._recovery.obstacle(run) or super().obstacle(run)
        if why:
            return why
        if not run.method.distance:
            return "the method does not compare embeddings with prototypes"
        if not run.holds("aux_data"):
            return "the run holds no auxiliary data, of which the blind guess is made"
        return "" if self.way == "decoder" else run.unreached()

    def attacks(self, run: Outline) -> tuple[str, ...]:
        return self._recovery.attacks(run)

    def seconds(self, run: Outline) -> float:
        positions = math.prod(run.facts.shape[1:])
        once = sum(p.numel() * (positions if p.dim() > 2 else 1) for p in run.module().parameters())
        images, steps = run.auxiliary, 0
        if self.way != "decoder":
            steps = self.steps * self.restarts
            images += 3 * steps * run.facts.clients
        chunks = math.ceil(run.facts.clients / _pictures.CHUNK)
        drawn = images * once / SPEED + steps * chunks * STEP
        return 1 + self._recovery.seconds(run) + 2 * drawn  # and once more of the control

    def run(self, view: View, rng: torch.Generator) -> list[Guess]:
        models = view.messages("model", sender="server")
        recovered = self._recovery.run(view, rng)
        if not models or not recovered:
            return []
        net = Net(view.module, models[-1].payload)
        private = net.lacking
        if private:
            why = f"clients keep {private[0]} of the model for themselves"
            return [Guess(g.unit, view.round, failed=why) for g in recovered]
        made = [g for g in recovered if not g.failed]
        out = [Guess(g.unit, view.round, failed=g.failed) for g in recovered if g.failed]
        if made:
            wanted = torch.stack([g.tensors["prototype"].to(view.device, view.dtype) for g in made])
            pictures = self._drawn(view, net, wanted, rng)
            out += [self._guess(view, g, x) for g, x in zip(made, pictures, strict=True)]
        return out

    def blind(self, view: View, rng: torch.Generator) -> list[Guess]:
        """The mean of all auxiliary images, for each client the same."""
        mean = view.know("aux_data").x.mean(0)
        units = [g.unit for g in self._recovery.blind(view, rng)]
        return [Guess(u, view.round, {"picture": mean}) for u in units]

    @property
    def _recovery(self) -> Attack:
        return SOURCES[self.source](seed=self.seed, observer=self.observer)

    def _guess(self, view: View, of: Guess, x: Tensor) -> Guess:
        if not bool(x.isfinite().all()):
            return Guess(of.unit, view.round, failed="the picture is not finite")
        return Guess(of.unit, view.round, {"picture": x.to(view.dtype)}, of.accepted)

    def _drawn(self, view: View, net: Net, wanted: Tensor, rng: torch.Generator) -> Tensor:
        """(n, *shape): a picture for each of the prototypes ``wanted`` (n, dim)."""
        cosine = view.method.distance == "cosine"
        wanted = unit(wanted) if cosine else wanted

        lies = view.facts.input_range

        def embed(x: Tensor) -> Tensor:  # of pictures on [0, 1], where inputs have bounds
            f = net(lies.native(x))
            return unit(f) if cosine else f

        if self.way == "pixels":
            space = _pictures.pixels(view.facts.shape, self, rng)
            return lies.native(_pictures.sought(embed, wanted, space, self))
        x = lies.unit(view.know("aux_data").x.to(view.dtype))
        if self.way == "decoder":
            return lies.native(_pictures.decoded(embed, wanted, x, self))
        space = _pictures.components(x, self, rng)
        return lies.native(_pictures.sought(embed, wanted, space, self))
