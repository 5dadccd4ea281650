"""Label inference: which classes does a client hold?

Read straight off the label message, or off its update's output biases.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from attacks import _class_mixtures, _disaggregation, _label_shares, _updates
from attacks._noisy_counts import most_likely, of_named
from attacks._output_moves import bias_of, doubts, moved, of_classes, reads_classes
from attacks._strangers import frequencies
from leakbench import models
from leakbench.attacking import Attack, Guess, Metric, Outline, ThreatModel, View, covered
from leakbench.base import torch
from leakbench.federation import kept_names, trainings
from leakbench.metrics import LABEL_OVERLAP, LABEL_SET
from leakbench.record import Message

if TYPE_CHECKING:
    from torch import Tensor

# What the loss behind an update may have read, and how many steps it took.
REPLAYED = (
    *("update", "model", "count", "prototype", "statistics", "features", "labels", "mean_data"),
    *("data", "generator", "identifier", "variate"),
)
UNSENT = "of no output it was sent how it moved"
NO_LABELS = "the message holds no labels: expected integers (n,) or shares (n, K)"
READ_OFF = ("update", "moved")  # sources that take the output of a class for its logit
NAMED = ("labels", "label_counts")  # the kinds of message that say what a client's labels are
BESIDE = (*NAMED, "statistics")  # CCVR's say how many examples each label stands for


class LabelInference(Attack):
    """Seven ways to a client's labels.

    With ``source`` = "message" nothing is inferred: the labels are read straight off the message.
    "message": where clients send ``labels`` (FedAA's label names, the labels beside FLea's
    features, FedMix's mean labels, FedData's), the guess is the shares of the classes in the newest
    message: their frequencies where it holds one label for each example (integers (n,) or shares
    (n, K)); evenly where it holds names (each once); its counts where it says how many there are of
    each class (``label_counts``, as FedGen's clients do; or beside names, CCVR's ``statistics``,
    also scaled and with noise). Every client that sent one is a unit, and true are the labels of
    all its data. Where a client has one class the name is the whole answer:
    "label names are not sensitive" then means that the class is no secret.

    "messages": the same of all that a client ever sent. Noise that a wrapper draws anew for every
    message cancels in the mean, and labels of other examples each time add up to all of its data.

    "denoised": the same, where a wrapper covers them; of what noise made partly negative, what it
    most likely was (``_noisy_counts``), where the others cut it off at 0. So a class of which noise
    alone is left is not named.

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
    any optimiser and any number of steps. Where none stands still the guess is all classes. Where
    a wrapper sends a part of an update (``Wrapper.masks``), named are the classes whose outputs are
    known to have moved; of others it says nothing, and that they stood still least of all.

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

    "pooled": who listens to every round. Each class alone would make an update of its own of the
    model of the round, known from auxiliary data; a client's update is a mixture of these by the
    shares of its classes, which stay the same. Its messages of all rounds so are equations for one
    unknown, and noise cancels. A sum is an equation for all who took part in it, which the server
    knows that sent them the model: where company changes, sums are told apart
    (``_class_mixtures``). True are the labels of all of a client's data. Weights are those of the
    last layer where no more was kept, at the received model for one step and halfway to the next
    for several; what the loss reads of the client's own is what a client with all classes would
    have. Of Adam's steps each number of what a class makes is taken by its size over the classes.

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
        {"source": "messages"},
        {"source": "denoised"},
        {"source": "update"},
        {"source": "moved"},
        {"source": "calibrated"},
        {"source": "pooled"},
    )

    source: Literal[
        "message", "messages", "denoised", "update", "moved", "calibrated", "pooled"
    ] = Field(
        "message",
        description=(
            "what is read: the labels that clients send, the newest or all, or all with noise taken"
            " off, or which outputs their updates raise, or move at all, or raise beside auxiliary"
            " data, or the updates or their sums of all rounds together"
        ),
    )

    @property
    def threat(self) -> ThreatModel:
        if self.source == "message":
            return ThreatModel(kinds=BESIDE, rounds="last", knows=("facts",), rung="transcript")
        if self.source in ("messages", "denoised"):
            return ThreatModel(kinds=BESIDE, rounds="all", knows=("facts",), rung="transcript")
        if self.source in ("update", "moved"):
            return ThreatModel(
                kinds=("update",), rounds="audited", knows=("method", "facts"), rung="method"
            )
        if self._updates_added:
            kinds = (*REPLAYED, "sum")
            knows = ("aux_data", "method", "facts")
            return ThreatModel(kinds=kinds, rounds="all", knows=knows, rung="public")
        return ThreatModel(
            kinds=REPLAYED, rounds="audited", knows=("aux_data", "method", "facts"), rung="public"
        )

    @property
    def floor_threat(self) -> ThreatModel:
        knows = dict.fromkeys((*self.threat.knows, "aux_data"))
        return self.threat.model_copy(update={"knows": tuple(knows)})

    def attacks(self, run: Outline) -> tuple[str, ...]:
        """Labels and what says how many of each, or counts where it is these that clients send."""
        sent = [s["kind"] for s in run.sent if s["sender"] == "client"]
        named = [kind for kind in NAMED if kind in sent][:1]
        if not self._told or not named:
            return super().attacks(run)
        return (*named, *({"statistics"} & {*sent} if named == ["labels"] else ()))

    @property
    def pools(self) -> bool:
        return self._updates_added or self.source in ("messages", "denoised")

    @property
    def _updates_added(self) -> bool:
        """Are the updates of all rounds read as one?"""
        return self.source == "pooled"

    @property
    def _told(self) -> bool:
        """Are labels read that clients send, not inferred?"""
        return self.source in ("message", "messages", "denoised")

    def obstacle(self, run: Outline) -> str:
        why = super().obstacle(run)
        if why:
            return why
        if self._told:
            return self._untold(run)
        if self._updates_added:
            return self._unpooled(run)
        name, last = models.last_layer(run.module(), run.facts.shape)
        if run.method.outputs != "logits" or not reads_classes(last, run.facts.classes):
            return (
                "the network does not end in a linear layer of class logits, so no output bias"
                " stands for a class"
            )
        shared = {*models.of_layer(name, dict(run.module().named_parameters()))}
        shared -= kept_names(run.method, run.module())
        if self.source in READ_OFF and not models.gives_logits(run.module(), run.facts.shape):
            return (
                f"what the last layer ({name}) gives are not the logits of what the network gives,"
                " so that its bias says another class than was there"
            )
        if self.source == "moved" and last is not None and last.out_features == 1:
            return "one output stands for both classes, so that it moves names neither"
        if self.source == "moved":
            return "" if shared else f"nothing of the last layer ({name}) is shared"
        if models.tensor_of(name, "bias") not in shared:
            return (
                f"the last layer ({name}) shares no bias that would rise for the classes in a batch"
            )
        return self._uncalibrated(run) if self.source == "calibrated" else ""

    def _untold(self, run: Outline) -> str:
        """Why what clients send is no list of labels, or there is but one to read."""
        if run.facts.targets == "tokens":
            return "what clients send are captions and no labels: see caption_words"
        rounds = [s["rounds"] for s in run.sent if s["sender"] == "client" and s["kind"] in NAMED]
        if self.source == "denoised" and not any(covered(run.sent, kind) for kind in NAMED):
            return "no wrapper covers what clients send of their labels: see source=messages"
        if self.source == "messages" and max(rounds, default=0) < 2:
            return "clients send labels in one round alone: see source=message"
        return ""

    def _unpooled(self, run: Outline) -> str:
        """Why no class makes an update of its own that could be told."""
        if run.facts.targets == "tokens":
            return "clients hold captions and no labels: see caption_words"
        if run.method.outputs != "logits":
            return "its loss compares embeddings, so no class makes an update that data would tell"
        return _disaggregation.inseparable(run)

    def _uncalibrated(self, run: Outline) -> str:
        """Why what the model predicts anyway, or how many steps there were, cannot be told."""
        m = run.method
        if m.optimizer != "sgd":
            return (
                "the update was made by Adam, of which the bias does not say how far each class"
                " was off"
            )
        if m.step_terms().clips:
            return "each local step was clipped, and by how much no message tells"
        if kept_names(m, run.module()):
            return (
                "a part of the network never leaves the client, so what it predicts cannot be told"
            )
        trained = [t for t in trainings(m, 1) if t.steps or t.epochs]
        counted = any((s["kind"], s["sender"]) == ("count", "client") for s in run.sent)
        if not trained or trained[0].steps or counted:
            return ""
        return "clients send no count, so how many steps they take cannot be told"

    def seconds(self, run: Outline) -> float:
        return _class_mixtures.seconds(run) if self.source == "pooled" else super().seconds(run)

    def run(self, view: View, rng: torch.Generator) -> list[Guess]:
        if self._updates_added:
            found = _class_mixtures.pooled(view, rng)
            return [self._held(view, c, found.get(c)) for c in _disaggregation.heard(view)]
        if self.source in ("messages", "denoised"):
            return [self._together(view, sent) for sent in _by_sender(view).values()]
        return [self._read(view, m, rng) for m in self._sent(view)]

    def _together(self, view: View, sent: list[Message]) -> Guess:
        """Of all that a client sent: what its messages count, added up before they are cut off."""
        each = [c for m in sent if (c := _counted(m, view.facts.classes)) is not None]
        counts = torch.stack(each).sum(0) if each else torch.zeros(0)
        counts = most_likely(counts) if self.source == "denoised" else counts.clamp(min=0)
        if not bool(counts.any()):
            return Guess(sent[-1].sender, view.round, failed=NO_LABELS)
        return self._guess(view, sent[-1], counts / counts.sum(), accepted=True)

    def blind(self, view: View, rng: torch.Generator) -> list[Guess]:
        """The class frequencies of the auxiliary data."""
        prior = frequencies(view.know("aux_data").y, view.facts.classes)
        if self._updates_added:
            return [self._held(view, c, prior) for c in _disaggregation.heard(view)]
        return [self._guess(view, m, prior) for m in self._sent(view)]

    def _sent(self, view: View) -> list[Message]:
        """Each client's newest labels, or its first update of this round."""
        if self._told:
            return [sent[-1] for sent in _by_sender(view).values()]
        return _updates.first(view, trained=True)

    def _read(self, view: View, m: Message, rng: torch.Generator) -> Guess:
        if self.source == "message":
            counts = counted(m, view.facts.classes)
            if counts is None:
                return Guess(m.sender, view.round, failed=NO_LABELS)
            return self._guess(view, m, counts / counts.sum(), accepted=True)
        layer = models.last_layer(view.module, view.facts.shape)[0]
        if self.source == "moved":
            told = m.told() if m.sparse else None
            even = moved(m.payload, layer, view.facts.classes, told)
            if not bool(even.any()):
                return Guess(m.sender, view.round, failed="no output moved, or not by a number")
            return self._guess(view, m, even)
        bias = models.tensor_of(layer, "bias")
        if bias not in m.payload:  # a wrapper left it out
            return Guess(m.sender, view.round, failed="the update holds no output bias")
        move, known = bias_of(m, layer)
        if not bool(known.any()):
            return Guess(m.sender, view.round, failed=UNSENT)
        move = of_classes(move)
        if self.source == "calibrated":
            found = _label_shares.calibrated(view, m, bias, move, rng)
            if isinstance(found, str):
                return Guess(m.sender, view.round, failed=found)
            return self._guess(view, m, found)
        rise = move.clamp(min=0)
        if not bool(rise.isfinite().all()):
            return Guess(m.sender, view.round, failed="the update is not finite")
        if not bool(rise.any()):
            return Guess(m.sender, view.round, failed="no output bias rose")
        return self._guess(view, m, rise / rise.sum())

    def _held(self, view: View, client: int, shares: Tensor | None) -> Guess:
        unit = f"client/{client}"
        if shares is None:
            return Guess(unit, view.round, failed=_disaggregation.NOTHING)
        return Guess(unit, view.round, {"shares": shares})

    def _guess(self, view: View, m: Message, shares: Tensor, *, accepted: bool = False) -> Guess:
        if self._told:
            return Guess(m.sender, view.round, {"shares": shares}, accepted=accepted)
        found = {"shares": shares, "phase": torch.tensor(m.phase)}
        layer = models.last_layer(view.module, view.facts.shape)[0]
        return Guess(m.sender, view.round, found, accepted=accepted, flags=doubts([m], layer))


def _by_sender(view: View) -> dict[str, list[Message]]:
    """What each client sent of its labels, the oldest first."""
    sent = [m for kind in NAMED for m in view.messages(kind) if m.sender != "server"]
    told = {(m.sender, m.round): m.payload for m in view.messages("statistics")}
    out: dict[str, list[Message]] = {}
    for m in sorted(sent, key=lambda m: m.round):
        beside = told.get((m.sender, m.round))
        out.setdefault(m.sender, []).append(_many(m, beside, view.facts.classes))
    return out


def _many(m: Message, statistics: Any, classes: int) -> Message:
    """How many of each label's class the statistics beside it say that there are, where they do.

    Clipping scales all of them alike; noise on them is told off (``of_named``).
    """
    many = statistics.get("count") if isinstance(statistics, dict) else None
    names = m.payload
    if m.kind != "labels" or not isinstance(many, torch.Tensor) or many.ndim != 1:
        return m
    if not isinstance(names, torch.Tensor) or names.shape != many.shape or not len(names):
        return m
    known = not names.is_floating_point() and 0 <= int(names.min()) <= int(names.max()) < classes
    counts = many.double()
    if not known or not bool(counts.isfinite().all()) or not bool((counts > 0).any()):
        return m
    payload = counts.new_zeros(classes).index_add(0, names, of_named(counts))
    return replace(m, kind="label_counts", payload=payload)


def counted(m: Message, classes: int) -> Tensor | None:
    """(K,) float64: how often a message has each class, or in which shares, none below 0.

    None where that says nothing.
    """
    counts = _counted(m, classes)
    if counts is None:
        return None
    # A wrapper's noise cancels in a mean before it is cut off at 0.
    counts = counts.clamp(min=0)
    return counts if bool(counts.any()) else None


def _counted(m: Message, classes: int) -> Tensor | None:
    """The same, where noise may have made some negative.

    Of labels (n,) integers, of shares (n, K) their mean, of counts (K,) themselves.
    """
    payload: Tensor = m.payload
    if m.kind == "label_counts":
        fits = payload.shape == (classes,) and bool(payload.isfinite().all())
        return payload.double() if fits else None
    if payload.ndim == 1 and not payload.is_floating_point():
        known = payload.numel() and int(payload.min()) >= 0 and int(payload.max()) < classes
        return payload.bincount(minlength=classes).double() if known else None
    fits = payload.ndim == 2 and payload.shape[1] == classes and len(payload) > 0
    return payload.double().mean(0) if fits and bool(payload.isfinite().all()) else None
