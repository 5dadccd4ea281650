"""Decoder: rebuild inputs from shared features by a network trained on auxiliary data.

FLea (KDD 2024), Appendix D.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from attacks import _decoders
from attacks._decoder_nets import WIDTH
from attacks._decoders import Known, TrainedDecoder
from leakbench.attacking import Attack, Guess, Metric, Outline, ThreatModel, View
from leakbench.federation import Net
from leakbench.metrics import RECONSTRUCTION
from leakbench.record import Message

CHUNK = 256  # auxiliary examples at once
SPEED = 4e10  # operations in a second of two cores, for `seconds`


@dataclass(frozen=True)
class Reading:
    """What one message was decoded to."""

    x: Tensor  # (n, *shape)
    decoder: TrainedDecoder | None  # None where the message is the inputs themselves


class Decoder(Attack):
    """Sends auxiliary data through the attacked round's model and learns the way back.

    Up to the method's ``layer``. The model is the last one that was broadcast before the victims
    sent their features in that round (FLea: the new one, line 15 of its Algorithm 1), in evaluation
    mode, so the decoder is trained through the defense. It then decodes every client's features of
    the round; those of other rounds, made by models that are not recorded, are left alone. The
    server is the attacker; a client has the model and the features too, without the senders' names.
    Where ``layer`` is the input (the control) the guess is the features themselves.

    From the paper: the network of Table 5, in the released code without any non-linearity
    (``network`` = "linear"); 20 epochs, rate 0.001, mean squared error. "relu" is the stronger
    attacker: a ReLU between the layers, and features turned to principal components of equal
    variance, where "linear" has every channel at variance 1. FLea's loss makes channels alike, and
    what tells inputs apart is left in the small components (UCI-HAR, ``layer2``, after six rounds:
    mean squared error on the clients' windows 0.35 linear, 0.36 with ReLUs alone, 0.11 with
    components alone, 0.06 with both; blind 1.24). Wider or deeper networks were no better. Where
    features are easily inverted (uci-har, ``layer1``) the linear network errs less, so "relu"
    trains both and keeps the one that errs less on held-out auxiliary examples. Features of other
    sides than the inputs' are brought to these by the first layer, a transposed convolution whose
    stride is the ratio of the sides; all else is Table 5.

    Differently from the paper: its 0.01 is the error on the decoder's *training* images. Here
    errors are those of the clients' examples, and the curve of training and held-out error is saved
    with the guess (``curve``, (epochs, 2)). A part ``held_out`` of the auxiliary data decides on
    the epoch. Adam (the code: SGD with momentum 0.9 and decay 5e-4) in batches of 32 (128), at
    least ``steps`` steps where the set is small (they had all 50,000 training images); no cropping
    and flipping; inputs are standardised by channel. What clients send as ``labels`` beside their
    features is used: the guess is mixed with the class mean in the proportion that is best on the
    held-out examples, so it is seldom worse than the blind guess, which knows these labels, too.
    Images are clipped to [0, 1], signals are not. It believes itself where it beats the class mean
    on the held-out examples by a twentieth and by two standard errors.

    ``average`` = k: a client's last k kept messages (a model is kept in the audited rounds, all
    with ``--record all``), each decoded through its own round's model, are averaged with weights 1
    / held-out error. Only for methods that share the same examples each time (FLea with ``subset``
    = "fixed"), and only messages with the very same labels are joined.

    A wrapper's noise or clipping is not imitated on the auxiliary data; features with ten times the
    variance of the attacker's own count as failed.
    """

    about: ClassVar[str] = "inputs from shared features, by a network trained on auxiliary data"
    paper: ClassVar[str] = (
        "Dosovitskiy and Brox 2016; FLea, KDD 2024, Section 4.4, Appendix D, Table 5"
    )
    metrics: ClassVar[tuple[Metric, ...]] = RECONSTRUCTION
    left_out: ClassVar[str] = "their features were made by another round's model"
    variants: ClassVar[tuple[dict[str, Any], ...]] = ({"network": "linear"}, {"network": "relu"})

    network: Literal["linear", "relu"] = Field(
        "relu", description="Table 5 as released; or the better of that and one with ReLUs between"
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
    average: int = Field(
        1, ge=1, description="messages of a client whose reconstructions are averaged"
    )

    @property
    def threat(self) -> ThreatModel:
        rounds: Literal["audited", "all"] = "all" if self.average > 1 else "audited"
        return ThreatModel(
            kinds=("features", "labels", "model"),
            rounds=rounds,
            knows=("aux_data", "method", "facts"),
            rung="public",
        )

    def obstacle(self, run: Outline) -> str:
        why = super().obstacle(run)
        if why:
            return why
        method = run.method
        if not hasattr(method, "layer"):
            return "the method has no field `layer`, so how its features are made is not known"
        if not run.holds("aux_data"):
            return "the run holds no auxiliary data to train a decoder on"
        if self.average == 1:
            return ""
        if getattr(method, "subset", "") != "fixed":
            return (
                "the method does not share the same examples again (subset=fixed), so there is"
                " nothing to average: use average=1"
            )
        if ("labels", "client") not in [(s["kind"], s["sender"]) for s in run.sent]:
            return (
                "clients send no labels by which the rows of two messages could be told to belong"
                " together: use average=1"
            )
        return ""

    def seconds(self, run: Outline) -> float:
        shape, examples = run.facts.shape, run.auxiliary
        positions = math.prod(shape[1:])
        once = 6 * positions * (22 * WIDTH**2)  # forward and twice that backward
        networks = 2 if self.network == "relu" else 1
        trained = max(self.epochs * examples, self.steps * self.batch) * networks
        return len(run.stages) * self.average * trained * once / SPEED

    def run(self, view: View, rng: torch.Generator) -> list[Guess]:
        trained: dict[tuple[object, ...], TrainedDecoder] = {}
        return [self._decoded(view, m, trained, rng) for m in self._sent(view)]

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
        last = {m.sender: m for m in sent if m.sender != "server" and len(m.payload)}
        return list(last.values())

    def _labels(self, view: View, m: Message) -> Tensor | None:
        """(n,) int64, the classes that the sender named beside the features."""
        named = view.messages("labels", sender=m.sender, round=m.round, phase=m.phase)
        if not named:
            return None
        y: Tensor = named[-1].payload
        return y if y.shape == (len(m.payload),) and not y.is_floating_point() else None

    def _tensors(self, x: Tensor) -> dict[str, Tensor]:
        """A guess whose x[j] is about row j of the features."""
        return {"x": x, "features.rows": torch.arange(len(x))}

    def _decoded(
        self,
        view: View,
        m: Message,
        trained: dict[tuple[object, ...], TrainedDecoder],
        rng: torch.Generator,
    ) -> Guess:
        newest = self._reading(view, m, trained, rng)
        if isinstance(newest, str):
            return Guess(m.sender, m.round, failed=newest)
        if not bool(newest.x.isfinite().all()):
            return Guess(m.sender, m.round, failed="the decoder's output is not finite")
        if newest.decoder is None:
            return Guess(m.sender, m.round, self._tensors(newest.x.to(view.dtype)), accepted=True)
        joined = [newest, *self._earlier(view, m, trained, rng)]
        errors = [float(r.decoder.errors[0]) for r in joined if r.decoder]
        weights = torch.tensor([1 / max(e, 1e-12) for e in errors], dtype=torch.float64)
        shares = (weights / weights.sum()).to(newest.x)
        x = torch.einsum("k,k...->...", shares, torch.stack([r.x for r in joined]))
        tensors = {
            **self._tensors(x.to(view.dtype)),
            "curve": newest.decoder.curve,
            "held_out": newest.decoder.errors,
        }
        if self.average > 1:
            tensors["averaged"] = torch.tensor(len(joined))
        return Guess(m.sender, m.round, tensors, accepted=newest.decoder.accepted)

    def _earlier(
        self,
        view: View,
        m: Message,
        trained: dict[tuple[object, ...], TrainedDecoder],
        rng: torch.Generator,
    ) -> list[Reading]:
        """Up to ``average`` - 1 of the sender's earlier messages, the newest first.

        Only those about the same examples.
        """
        out: list[Reading] = []
        y = self._labels(view, m)
        if y is None or self.average == 1:
            return out
        before = [e for e in view.messages("features", sender=m.sender) if e.round < m.round]
        for e in reversed(before):
            if len(out) == self.average - 1:
                break
            same = self._labels(view, e)
            if same is None or not torch.equal(y, same):
                continue
            found = self._reading(view, e, trained, rng)
            if isinstance(found, Reading) and found.decoder and bool(found.x.isfinite().all()):
                out.append(found)
        return out

    def _reading(
        self,
        view: View,
        m: Message,
        trained: dict[tuple[object, ...], TrainedDecoder],
        rng: torch.Generator,
    ) -> Reading | str:
        """One message decoded, or why it cannot be."""
        layer = str(view.method.layer)  # type: ignore[attr-defined]
        if layer == "input":
            return Reading(m.payload, None)
        to = ("client/*", m.sender)
        broadcast = view.messages("model", sender="server", round=m.round)
        models = [e for e in broadcast if e.phase <= m.phase and e.receiver in to]
        if not models:
            return "the model that made the features was not kept"
        y = self._labels(view, m)
        key = (*models[-1].name, y is None)
        if key not in trained:
            found = self._trained(view, models[-1], layer, rng, labelled=y is not None)
            if isinstance(found, str):
                return found
            trained[key] = found
        decoder = trained[key]
        if not len(decoder.curve):
            return "training the decoder diverged in its first epoch: lower lr"
        if decoder.strange(m.payload.float()):
            return "the features are unlike those that the model makes of auxiliary data"
        if y is None:
            y = torch.zeros(len(m.payload), dtype=torch.int64, device=m.payload.device)
        return Reading(decoder(m.payload.float(), y), decoder)

    def _trained(
        self, view: View, model: Message, layer: str, rng: torch.Generator, *, labelled: bool
    ) -> TrainedDecoder | str:
        """A decoder of what ``model`` makes of auxiliary data, or why there is none."""
        aux, net = view.know("aux_data"), Net(view.module, model.payload)
        private = sorted(net.module.state_dict().keys() - net.weights.keys())
        if private:
            return (
                f"clients keep {private[0]} of the model for themselves, so how their features"
                " are made is not known"
            )
        with torch.no_grad():
            features = torch.cat([net(x, stop=layer) for x in aux.x.split(CHUNK)])
        if not bool(features.isfinite().all()):
            return "the model's features of auxiliary data are not finite"
        y, classes = (aux.y, view.facts.classes) if labelled else (torch.zeros_like(aux.y), 1)
        known = Known(features.float(), aux.x.float(), y)
        with torch.backends.cudnn.flags(
            enabled=True, deterministic=True, benchmark=False, allow_tf32=False
        ):
            return _decoders.train(known, classes, self, rng)
