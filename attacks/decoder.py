"""Decoder: rebuild inputs from shared features by a network trained on auxiliary data.

FLea (KDD 2024), Appendix D.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from attacks._decoders import TrainedDecoder
from attacks._feature_messages import FromFeatures, Made
from leakbench.attacking import Guess, Outline, ThreatModel, View
from leakbench.base import torch
from leakbench.record import Message

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Reading:
    """What one message was decoded to."""

    x: Tensor  # (n, *shape)
    decoder: TrainedDecoder


class Decoder(FromFeatures):
    """Sends auxiliary data through the attacked round's model and learns the way back.

    Up to the method's ``layer``. The model is the last one that was broadcast before the victims
    sent their features in that round (FLea: the new one, line 15 of its Algorithm 1), in evaluation
    mode, so the decoder is trained through the defense. It then decodes every client's features of
    the round; those of other rounds, made by models that are not recorded, are left alone. The
    server is the attacker; a client has the model and the features too, without the senders' names.
    Where ``layer`` is the input (the control) the guess is the features themselves; if a wrapper
    put noise on them, what the inputs most likely were, which is not believed.

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
    Images are clipped to their range, signals are not. It believes itself where it beats the class
    mean on the held-out examples by a twentieth and by two standard errors.

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
    variants: ClassVar[tuple[dict[str, Any], ...]] = ({"network": "linear"}, {"network": "relu"})

    average: int = Field(
        1, ge=1, description="messages of a client whose reconstructions are averaged"
    )

    @property
    def threat(self) -> ThreatModel:
        rounds: Literal["audited", "all"] = "all" if self.average > 1 else "audited"
        return super().threat.model_copy(update={"rounds": rounds})

    def obstacle(self, run: Outline) -> str:
        why = super().obstacle(run)
        if why or self.average == 1:
            return why
        if getattr(run.method, "subset", "") != "fixed":
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
        return self.average * super().seconds(run)

    def run(self, view: View, rng: torch.Generator) -> list[Guess]:
        made: Made = {}
        return [self._decoded(view, m, made, rng) for m in self._sent(view)]

    def _decoded(self, view: View, m: Message, made: Made, rng: torch.Generator) -> Guess:
        if self._layer(view) == "input":
            return self._shown(view, m)
        newest = self._reading(view, m, made, rng)
        if isinstance(newest, str):
            return Guess(m.sender, m.round, failed=newest)
        if not bool(newest.x.isfinite().all()):
            return Guess(m.sender, m.round, failed="the decoder's output is not finite")
        joined = [newest, *self._earlier(view, m, made, rng)]
        errors = [float(r.decoder.errors[0]) for r in joined]
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

    def _earlier(self, view: View, m: Message, made: Made, rng: torch.Generator) -> list[Reading]:
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
            found = self._reading(view, e, made, rng)
            if isinstance(found, Reading) and bool(found.x.isfinite().all()):
                out.append(found)
        return out

    def _reading(self, view: View, m: Message, made: Made, rng: torch.Generator) -> Reading | str:
        """One message decoded, or why it cannot be."""
        extract = self._extractor(view, m)
        if isinstance(extract, str):
            return extract
        decoder = self._decoder(view, m, extract, made, rng)
        if isinstance(decoder, str):
            return decoder
        found = decoder(m.payload.float(), self._classes(view, m))
        return Reading(extract.lies.native(found), decoder)
