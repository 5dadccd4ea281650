"""Label inference: which classes does a client hold?

Read straight off the label message, or off its update's output biases.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from attacks import _label_shares, _updates
from attacks._output_moves import moved
from attacks._strangers import frequencies
from leakbench.attacking import Attack, Guess, Metric, Outline, ThreatModel, View
from leakbench.federation import kept_names, trainings
from leakbench.metrics import LABEL_OVERLAP, LABEL_SET
from leakbench.models import last_layer, of_layer
from leakbench.record import Message

# What the loss behind an update may have read, and how many steps it took.
REPLAYED = (
    *("update", "model", "count", "prototype", "statistics", "features", "labels", "mean_data"),
    *("data", "generator", "identifier", "variate"),
)
NAMED = ("labels", "label_counts")  # the kinds of message that say what a client's labels are


class LabelInference(Attack):
    """Four ways to a client's labels.

    With ``source`` = "message" nothing is inferred: the labels are read straight off the message.
    "message": where clients send ``labels`` (FedAA's label names, the labels beside FLea's
    features, FedMix's mean labels, FedData's), the guess is the shares of the classes in the newest
    message: their frequencies where it holds one label for each example (integers (n,) or shares
    (n, K)); evenly where it holds names (each once); its counts where it says how many there are of
    each class (``label_counts``, as FedGen's clients do). Every client that sent one is a unit, and
    true are the labels of all its data. Where a client has one class the name is the whole answer:
    "label names are not sensitive" then means that the class is no secret.

    "update": what the update gives away even where no label is sent, for methods whose network ends
    in class logits with a bias. Cross-entropy raises the output bias of the classes in the batch
    and lowers the others' (the gradient of bias c is the mean predicted probability of c minus its
    share): the guess is the classes whose bias rose, in proportion to the rise. Units are the
    audited clients, read is their first update of the round, true are the labels behind that, all
    steps together. A class that the model predicts more often than it occurs is missed though it is
    there, so of many classes it finds too few.

    "moved": not which outputs rose but which moved at all, evenly. Of cross-entropy every output
    moves. Where the loss takes the classes that a client lacks out of the softmax (FedLC's margins,
    a mask), their outputs stand still, and the set of a client's classes is read off exactly, after
    any optimiser and any number of steps. Where none stands still the guess is all classes.

    "calibrated": the same for who has auxiliary data, on which the method's own loss is replayed:
    the shares s, 0 or more and of sum 1, for which Gᵀs is nearest to the rise in a step, row y of G
    minus the gradient of the output bias for examples of class y. Of cross-entropy that is what
    the model predicts anyway taken off again; of a loss that changes logits or labels it is what
    that makes of it. The weights are the received model's for a single step, of several the
    client's own (received + update). Where the loss reads what a client made of its own data
    (margins by its class counts), that is what the method makes of a client with the shares found,
    in turns; where the bias does not move by the mean over a batch's examples there is no guess.
    For SGD; by epochs it reads the client's count. After many steps, or where a wrapper clips the
    update, the shares are blurred; the raw rise may then say more.

    Floor: the class frequencies of the auxiliary data. Where all clients hold all classes alike
    there is nothing to tell: the control, too, stays at the floor, and the verdict is "attack too
    weak". In the control of FedAA clients send a label for each image.
    """

    about: ClassVar[str] = (
        "which classes a client holds, read straight off its label message or off its update's"
        " output biases"
    )
    paper: ClassVar[str] = (
        "after iDLG (Zhao et al. 2020) and LLG (Wainakh et al. 2022); FedAA, Section 3.2"
    )
    metrics: ClassVar[tuple[Metric, ...]] = (LABEL_OVERLAP, LABEL_SET)
    variants: ClassVar[tuple[dict[str, Any], ...]] = (
        {"source": "message"},
        {"source": "update"},
        {"source": "moved"},
        {"source": "calibrated"},
    )

    source: Literal["message", "update", "moved", "calibrated"] = Field(
        "message",
        description=(
            "what is read: the labels that clients send, or which outputs their updates raise, or"
            " move at all, or raise beside auxiliary data"
        ),
    )

    @property
    def threat(self) -> ThreatModel:
        if self.source == "message":
            return ThreatModel(kinds=NAMED, rounds="last", knows=("facts",), rung="transcript")
        if self.source in ("update", "moved"):
            return ThreatModel(
                kinds=("update",), rounds="audited", knows=("method", "facts"), rung="method"
            )
        return ThreatModel(
            kinds=REPLAYED, rounds="audited", knows=("aux_data", "method", "facts"), rung="public"
        )

    @property
    def floor_threat(self) -> ThreatModel:
        knows = dict.fromkeys((*self.threat.knows, "aux_data"))
        return self.threat.model_copy(update={"knows": tuple(knows)})

    def attacks(self, run: Outline) -> tuple[str, ...]:
        """Labels, or counts where it is these that clients send."""
        sent = [s["kind"] for s in run.sent if s["sender"] == "client"]
        named = [kind for kind in NAMED if kind in sent]
        return tuple(named[:1]) if self.source == "message" and named else super().attacks(run)

    def obstacle(self, run: Outline) -> str:
        why = super().obstacle(run)
        if why:
            return why
        if self.source == "message":
            texts = run.facts.targets == "tokens"
            return (
                "what clients send are captions and no labels: see caption_words" if texts else ""
            )
        name, last = last_layer(run.module())
        outputs, classes = run.method.outputs, run.facts.classes
        if outputs != "logits" or last is None or last.out_features != classes:
            return (
                "the network does not end in a linear layer of class logits, so no output bias"
                " stands for a class"
            )
        shared = {*of_layer(name, dict(run.module().named_parameters()))}
        shared -= kept_names(run.method, run.module())
        if self.source == "moved":
            return "" if shared else f"nothing of the last layer ({name}) is shared"
        if f"{name}.bias" not in shared:
            return (
                f"the last layer ({name}) shares no bias that would rise for the classes in a batch"
            )
        return self._uncalibrated(run) if self.source == "calibrated" else ""

    def _uncalibrated(self, run: Outline) -> str:
        """Why what the model predicts anyway, or how many steps there were, cannot be told."""
        m = run.method
        if m.optimizer != "sgd":
            return (
                "the update was made by Adam, of which the bias does not say how far each class"
                " was off"
            )
        if kept_names(m, run.module()):
            return (
                "a part of the network never leaves the client, so what it predicts cannot be told"
            )
        trained = [t for t in trainings(m, 1) if t.steps or t.epochs]
        counted = any((s["kind"], s["sender"]) == ("count", "client") for s in run.sent)
        if not trained or trained[0].steps or counted:
            return ""
        return "clients send no count, so how many steps they take cannot be told"

    def run(self, view: View, rng: torch.Generator) -> list[Guess]:
        return [self._read(view, m, rng) for m in self._sent(view)]

    def blind(self, view: View, rng: torch.Generator) -> list[Guess]:
        """The class frequencies of the auxiliary data."""
        prior = frequencies(view.know("aux_data").y, view.facts.classes)
        return [self._guess(view, m, prior) for m in self._sent(view)]

    def _sent(self, view: View) -> list[Message]:
        """Each client's newest labels, or its first update of this round."""
        if self.source == "message":
            sent = [m for kind in NAMED for m in view.messages(kind) if m.sender != "server"]
            return list({m.sender: m for m in sorted(sent, key=lambda m: m.round)}.values())
        return _updates.first(view, trained=True)

    def _read(self, view: View, m: Message, rng: torch.Generator) -> Guess:
        if self.source == "message":
            read = counted if m.kind == "labels" else _counts
            counts = read(m.payload, view.facts.classes)
            if counts is None:
                why = "the message holds no labels: expected integers (n,) or shares (n, K)"
                return Guess(m.sender, view.round, failed=why)
            return self._guess(view, m, counts / counts.sum(), accepted=True)
        layer = last_layer(view.module)[0]
        if self.source == "moved":
            even = moved(m.payload, layer, view.facts.classes)
            if not bool(even.any()):
                return Guess(m.sender, view.round, failed="no output moved, or not by a number")
            return self._guess(view, m, even)
        bias = f"{layer}.bias"
        if bias not in m.payload:  # a wrapper left it out
            return Guess(m.sender, view.round, failed="the update holds no output bias")
        if self.source == "calibrated":
            found = _label_shares.calibrated(view, m, bias, rng)
            if isinstance(found, str):
                return Guess(m.sender, view.round, failed=found)
            return self._guess(view, m, found)
        rise = m.payload[bias].double().clamp(min=0)
        if not bool(rise.isfinite().all()):
            return Guess(m.sender, view.round, failed="the update is not finite")
        if not bool(rise.any()):
            return Guess(m.sender, view.round, failed="no output bias rose")
        return self._guess(view, m, rise / rise.sum())

    def _guess(self, view: View, m: Message, shares: Tensor, *, accepted: bool = False) -> Guess:
        phase = {} if self.source == "message" else {"phase": torch.tensor(m.phase)}
        return Guess(m.sender, view.round, {"shares": shares, **phase}, accepted=accepted)


def _counts(payload: Tensor, classes: int) -> Tensor | None:
    """(K,) float64 of counts (K,), those below 0, as noise makes them, as 0; None if all are."""
    if payload.shape != (classes,) or not bool(payload.isfinite().all()):
        return None
    counts = payload.double().clamp(min=0)
    return counts if bool(counts.any()) else None


def counted(labels: Tensor, classes: int) -> Tensor | None:
    """(K,) float64: how often each class occurs.

    In labels (n,) integers; or the mean of shares (n, K). None where that says nothing.
    """
    if labels.ndim == 1 and not labels.is_floating_point():
        known = labels.numel() and int(labels.min()) >= 0 and int(labels.max()) < classes
        return labels.bincount(minlength=classes).double() if known else None
    fits = labels.ndim == 2 and labels.shape[1] == classes and len(labels) > 0
    if not fits or not bool(labels.isfinite().all()):
        return None
    # A wrapper's noise cancels in the mean before it is cut off at 0.
    mean = labels.double().mean(0).clamp(min=0)
    return mean if bool(mean.any()) else None
