"""What attacks on shared features have in common: messages, the model behind them, a decoder.

The server of FLea: it knows the extractor, and has data of its own to train a decoder on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from attacks import _decoders, _shared_inputs
from attacks._decoder_nets import operations
from attacks._decoders import Known, TrainedDecoder
from attacks._shared_layer import layer
from attacks._strangers import strangers
from leakbench.attacking import Attack, Guess, Metric, Outline, ThreatModel, View
from leakbench.base import torch
from leakbench.federation import InputRange, Net, kept_names
from leakbench.metrics import RECONSTRUCTION
from leakbench.record import Message

if TYPE_CHECKING:
    from torch import Tensor

CHUNK = 256  # auxiliary examples at once
SPEED = 4e10  # operations in a second of two cores, for `seconds`

Made = dict[tuple[object, ...], TrainedDecoder | str]  # decoders by the model they are for


@dataclass(frozen=True)
class Extractor:
    """The model that made a message's features, up to the method's layer."""

    name: tuple[object, ...]  # of the broadcast that it came by
    net: Net
    layer: str
    lies: InputRange  # where inputs lie that the network takes

    def __call__(self, x: Tensor) -> Tensor:
        """The features of inputs (n, *shape), on [0, 1] where they have bounds, with gradients."""
        return self.net(self.lies.native(x), stop=self.layer)

    def of(self, x: Tensor) -> Tensor:
        """The same of many inputs, without gradients."""
        with torch.no_grad():
            return torch.cat([self(some) for some in torch.split(x, CHUNK)])


def extractor(view: View, m: Message, dtype: torch.dtype | None = None) -> Extractor | str:
    """What made the message, or why that is not known; in another ``dtype`` than it was sent in."""
    broadcast = view.messages("model", sender="server", to=m.sender, round=m.round)
    models = [e for e in broadcast if e.phase <= m.phase]
    if not models:
        return "the model that made the features was not kept"
    weights = dict(models[-1].payload)
    for name, w in weights.items():
        weights[name] = w.to(dtype) if dtype and w.is_floating_point() else w
    net = Net(view.module, weights)
    private = net.lacking
    if private:
        return (
            f"clients keep {private[0]} of the model for themselves, so how their features"
            " are made is not known"
        )
    return Extractor(models[-1].name, net, layer(view.method, view.module), view.facts.input_range)


def unextracted(run: Outline) -> str:
    """Why nobody can know how features were made; empty where somebody can."""
    if hasattr(run.method, "layer"):
        return ""
    if kept_names(run.method, run.module()):
        return (
            "clients keep parts of the network that makes their features, and no attack"
            " here learns one in its place, so nothing is said of what the features tell of"
            " the inputs"
        )
    return "the method has no field `layer`, so how its features are made is not known"


def of_classes(run: Outline) -> bool:
    """Are the features that clients send means of classes, with covariances and counts?"""
    sent = {(s["kind"], s["sender"]) for s in run.sent}
    return {("features", "client"), ("statistics", "client")} <= sent


class FromFeatures(Attack):
    """An attack on the features that clients send the server, with a decoder of its own.

    The extractor is the last model that was broadcast before the victims sent their features in the
    attacked round, up to the method's ``layer``. The blind guess is the mean of the auxiliary
    inputs of each example's class, of all where clients send no labels.
    """

    metrics: ClassVar[tuple[Metric, ...]] = RECONSTRUCTION
    handed: ClassVar[Literal["", "rows", "banks"]] = "rows"
    searches: ClassVar[bool] = True
    left_out: ClassVar[str] = "their features were made by another round's model"

    network: Literal["linear", "relu", "conv"] = Field(
        "relu",
        description=(
            "Table 5 as released; the better of that and one with ReLUs between; or the best of"
            " both and a deeper one"
        ),
    )
    epochs: int = Field(20, ge=1, le=10_000, description="passes over the auxiliary data, at least")
    steps: int = Field(
        600,
        ge=0,
        le=1_000_000,
        description="steps, at least: small auxiliary sets are passed more often",
    )
    lr: float = Field(0.001, gt=0, le=1, description="rate of Adam")
    batch: int = Field(32, ge=1, description="auxiliary examples in a step")
    held_out: float = Field(
        0.15, gt=0, lt=1, description="share of the auxiliary data that chooses the epoch"
    )

    @property
    def threat(self) -> ThreatModel:
        return ThreatModel(
            kinds=("features", "labels", "model"),
            rounds="audited",
            knows=("aux_data", "method", "facts"),
            rung="public",
        )

    def obstacle(self, run: Outline) -> str:
        why = super().obstacle(run)
        if why:
            return why
        if of_classes(run):
            return "the features are means of classes, of no one example: see statistics_inversion"
        if why := unextracted(run):
            return why
        if not run.holds("aux_data"):
            return "the run holds no auxiliary data to train a decoder on"
        return ""

    def seconds(self, run: Outline) -> float:
        """Of training the decoders of all rounds that are attacked."""
        positions = math.prod(run.facts.shape[1:])
        once = 6 * positions * operations(self.network)  # forward and twice that backward
        trained = max(self.epochs * run.auxiliary, self.steps * self.batch)
        return len(run.stages) * trained * once / SPEED

    def blind(self, view: View, rng: torch.Generator) -> list[Guess]:
        """The mean of the auxiliary inputs of each example's class.

        Of all where clients send no labels.
        """
        aux = view.know("aux_data")
        means = _decoders.class_means(aux.x, aux.y, view.facts.classes)
        out = []
        for m in self._sent(view):
            y = self._labels(view, m)
            if y is None:
                x = aux.x.mean(0).expand(len(m.payload), *aux.x.shape[1:]).contiguous()
            else:
                x = means[y]
            out.append(Guess(m.sender, m.round, self._tensors(x)))
        return out

    def _sent(self, view: View) -> list[Message]:
        """The features that clients sent in this round, each client's last."""
        sent = view.messages("features", round=view.round)
        last = {m.sender: m for m in view.of_others(sent) if len(m.payload)}
        return list(last.values())

    def _labels(self, view: View, m: Message) -> Tensor | None:
        """(n,) int64, the classes that the sender named beside the features.

        None where it named none, or the attacker's own examples are not of these.
        """
        if strangers(view.know("aux_data").y, view.facts.classes):
            return None
        named = view.messages("labels", sender=m.sender, round=m.round, phase=m.phase)
        if not named:
            return None
        y: Tensor = named[-1].payload
        return y if y.shape == (len(m.payload),) and not y.is_floating_point() else None

    def _tensors(self, x: Tensor) -> dict[str, Tensor]:
        """A guess whose x[j] is about row j of the features."""
        return {"x": x, "features.rows": torch.arange(len(x))}

    def _layer(self, view: View) -> str:
        """The stage after which the method's clients share."""
        return layer(view.method, view.module)

    def _extractor(self, view: View, m: Message) -> Extractor | str:
        """What made the message, or why that is not known."""
        return extractor(view, m)

    def _shown(self, view: View, m: Message) -> Guess:
        """The guess where what is shared are the inputs themselves.

        Where a wrapper changed them on the way, what they most likely were, which is not believed.
        """
        aux, lies, signal = view.know("aux_data"), view.facts.input_range, view.facts.signal
        sent = m.payload.to(view.dtype)
        x, aux = lies.unit(sent), replace(aux, stored=lies.unit(aux.x))
        if not bool(x.isfinite().all()):
            return Guess(m.sender, m.round, failed="the message is not finite")
        if _shared_inputs.plain(x, aux, signal=signal):
            return Guess(m.sender, m.round, self._tensors(sent), accepted=True)
        if self._labels(view, m) is None:
            aux = replace(aux, y=torch.zeros_like(aux.y))
        classes = view.facts.classes
        y = self._classes(view, m)
        found, match = _shared_inputs.restored(x, y, aux, classes, signal=signal)
        tensors = {**self._tensors(lies.native(found)), "match": lies.native(match)}
        return Guess(m.sender, m.round, tensors, flags=("loss_did_not_fall",))

    def _classes(self, view: View, m: Message) -> Tensor:
        """(n,) int64: the labels, or one class for all where none were sent."""
        y = self._labels(view, m)
        if y is None:
            y = torch.zeros(len(m.payload), dtype=torch.int64, device=m.payload.device)
        return y

    def _decoder(
        self, view: View, m: Message, extract: Extractor, made: Made, rng: torch.Generator
    ) -> TrainedDecoder | str:
        """The decoder of the model that made the message, trained once, or why there is none."""
        labelled = self._labels(view, m) is not None
        key = (*extract.name, labelled)
        if key not in made:
            made[key] = self._trained(view, extract, rng, labelled=labelled)
        decoder = made[key]
        if isinstance(decoder, TrainedDecoder) and decoder.strange(m.payload.float()):
            return "the features are unlike those that the model makes of auxiliary data"
        return decoder

    def _trained(
        self, view: View, extract: Extractor, rng: torch.Generator, *, labelled: bool
    ) -> TrainedDecoder | str:
        """A decoder of what the model makes of auxiliary data, or why there is none."""
        aux = view.know("aux_data")
        x = extract.lies.unit(aux.x)
        features = extract.of(x)
        if not bool(features.isfinite().all()):
            return "the model's features of auxiliary data are not finite"
        y, classes = (aux.y, view.facts.classes) if labelled else (torch.zeros_like(aux.y), 1)
        known = Known(features.float(), x.float(), y)
        with torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False):
            decoder = _decoders.train(known, classes, self, rng)
        if not extract.lies.bounded:  # though the attacker's own may all lie on [0, 1]
            decoder = replace(decoder, low=-math.inf, high=math.inf)
        if not len(decoder.curve):
            return "training the decoder diverged in its first epoch: lower lr"
        return decoder
