"""Whose examples are these? By what clients share of them: features, means, or data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from attacks._attribute_readers import Reader, fitted
from attacks._attributes import blind_guess, unknown
from attacks._changed_rows import RowChange, Rows
from attacks._feature_messages import Extractor, extractor, of_classes, unextracted
from leakbench.attacking import Attack, Guess, Metric, Outline, ThreatModel, View
from leakbench.base import torch
from leakbench.federation import party
from leakbench.metrics import ATTRIBUTE_ACCURACY, ATTRIBUTE_AUC
from leakbench.record import Message

if TYPE_CHECKING:
    from torch import Tensor

SENT = ("data", "mean_data", "features")
MEANS = 50  # of each value, that the attacker makes
SECONDS = 15.0  # of a classifier and its trials


class SharedAttribute(Attack):
    """Trains a classifier of an attribute on known people's examples, and reads what is shared.

    Who attacks knows people who may be clients: of each some examples that no client has (the
    task's ``attribute``), as somebody does who filmed them, or to whom they are customers. These go
    the way of what is shared: ``features`` (FLea) through the model that the client received, up to
    the method's ``layer``; ``mean_data`` (FedMix) as means of the method's ``size`` examples of one
    value; ``data`` (FedData) as they are. A classifier of the attribute is trained on them
    (``attacks._attribute_readers``), with the class where labels are sent beside, and says of every
    row how likely each value is.

    Of a client all its messages of the last ``rounds`` kept ones count; its score of a value is the
    mean of what all its rows say. Of the newest message also each row is named by itself, unless
    rows are means. What is sent once before training is attacked at the end alone.

    Ours; attribute inference from shared embeddings is that of Song and Raghunathan (CCS 2020,
    Section 5), who train on examples of the same distribution, and here of the same people.

    What a wrapper did is told by how rows differ from the attacker's own (``_changed_rows``): they
    are scaled back, noise is added to the rows that the classifier learns from, and in place of
    numbers that were not sent stands the mean of the class. Rows that are not finite are left out.

    Floor: what the classes alone tell (``leakbench.metrics.attributes``). Control: rows that
    nothing hides.
    """

    about: ClassVar[str] = (
        "whose the examples are that clients share, as features, means or data, of people whom the"
        " attacker knows"
    )
    paper: ClassVar[str] = "after Song and Raghunathan (CCS 2020), Section 5"
    metrics: ClassVar[tuple[Metric, ...]] = (ATTRIBUTE_AUC, ATTRIBUTE_ACCURACY)
    handed: ClassVar[Literal["", "rows", "banks"]] = "rows"
    left_out: ClassVar[str] = "what they sent was made by another round's model, or is empty"

    rounds: int = Field(3, ge=1, description="rounds in which something was kept that are read")
    at: tuple[Literal["untrained", "early", "middle", "final"], ...] = Field(
        ("final",), min_length=1, description="stages attacked, where features are sent anew"
    )

    @property
    def threat(self) -> ThreatModel:
        return ThreatModel(
            kinds=(*SENT, "labels", "model"),
            rounds="all",
            knows=("attributes", "method", "facts"),
            rung="public",
        )

    @property
    def pools(self) -> bool:
        return True

    def hears_out(self, run: Outline) -> bool:
        """It reads half of the rounds in which something was sent, or more."""
        kinds = self.attacks(run)
        sent = [s for s in run.sent if s["kind"] in kinds and s["sender"] == "client"]
        return all(2 * self.rounds >= int(s["rounds"]) for s in sent)

    def attacks(self, run: Outline) -> tuple[str, ...]:
        sent = {str(s["kind"]) for s in run.sent if s["sender"] == "client"}
        return tuple(kind for kind in SENT if kind in sent)[:1] or SENT[-1:]

    def obstacle(self, run: Outline) -> str:
        if why := super().obstacle(run) or unknown(run):
            return why
        if of_classes(run):
            return "the features that clients send are means of whole classes"
        kind = self.attacks(run)[0]
        if kind == "mean_data" and not hasattr(run.method, "size"):
            return "the method has no field `size`, so how its mean_data are made is not known"
        return unextracted(run) if kind == "features" else ""

    def stages_of(self, run: Outline) -> tuple[str, ...]:
        """Features change with the model; what was sent once stays the same."""
        kinds = self.attacks(run)
        told = [s for s in run.sent if s["kind"] in kinds and s["sender"] == "client"]
        return ("final",) if all(s["rounds"] == 1 for s in told) else self.at

    def seconds(self, run: Outline) -> float:
        return SECONDS * (1 + len(self.at) * self.rounds)

    def run(self, view: View, rng: torch.Generator) -> list[Guess]:
        victims = self._victims(view)
        made = _Readers(view, rng, [m for sent in victims.values() for m in sent])
        return [self._guess(view, c, sent, made) for c, sent in victims.items()]

    def _guess(self, view: View, client: int, sent: list[Message], made: _Readers) -> Guess:
        """Of one client, by its messages, the newest last; what cannot be read hides no other."""
        unit, read, why = f"client/{client}", list[_Read](), ""
        for m in sent:
            found = made.read(m)
            if isinstance(found, str):
                why = found
            else:
                read.append(found)
        if not read:
            return Guess(unit, view.round, failed=why)
        newest, said = read[-1], torch.cat([one.said for one in read]).mean(0)
        named = said.argmax().repeat(len(sent[-1].payload))  # of a row that cannot be read
        if newest.message is sent[-1]:
            named[newest.rows] = newest.said.argmax(1)
        rows = _each_row(sent[-1], named)
        return Guess(unit, view.round, {"attribute": said, **rows}, newest.sure)

    def blind(self, view: View, rng: torch.Generator) -> list[Guess]:
        """As often as among the known examples; and the most frequent of them."""
        out = []
        for client, sent in self._victims(view).items():
            guess = blind_guess(view, client)
            most = guess.tensors["attribute"].argmax().expand(len(sent[-1].payload))
            rows = _each_row(sent[-1], most)
            out.append(replace(guess, tensors={**guess.tensors, **rows}))
        return out

    def _victims(self, view: View) -> dict[int, list[Message]]:
        """{client: its messages, oldest first}; of features of those who sent some this round."""
        for kind in SENT:
            passed = [m for m in view.of_others(view.messages(kind)) if len(m.payload)]
            if not passed:
                continue
            kept = sorted({m.round for m in passed})[-self.rounds :]
            out: dict[int, list[Message]] = {}
            for m in sorted(passed, key=lambda m: (m.round, m.phase)):
                if m.round in kept:
                    out.setdefault(party(m.sender), []).append(m)
            now = view.round if kind == "features" else -1
            return {c: ms for c, ms in sorted(out.items()) if ms[-1].round == now or now < 0}
        return {}


@dataclass(frozen=True)
class _Read:
    """What a message's rows say."""

    message: Message
    said: Tensor  # (k, V)
    rows: Tensor  # (k,) int64: which of them they are
    sure: bool


def _each_row(m: Message, named: Tensor) -> dict[str, Tensor]:
    """What is said of each of a message's rows, which are examples unless they are means."""
    if m.kind == "mean_data":
        return {}
    return {"named": named, f"{m.kind}.rows": torch.arange(len(named))}


@dataclass(frozen=True)
class _Own:
    """The attacker's own rows, made as those of a message were, and what was done to these."""

    x: Tensor  # (n, ...) float64
    value: Tensor  # (n,)
    y: Tensor | None  # (n,) their classes, where rows come with some
    change: RowChange

    def expected(self, labels: Tensor | None) -> Tensor:
        """(k, d) or (1, d): the mean row, of the class where it is named."""
        flat = self.x.flatten(1)
        if self.y is None or labels is None:
            return flat.mean(0, keepdim=True)
        there = {*self.y.tolist()}
        means = {c: flat[self.y == c].mean(0) for c in {*labels.tolist()} & there}
        return torch.stack([means.get(c, flat.mean(0)) for c in labels.tolist()])


class _Readers:
    """Classifiers of what is shared, one for each way in which it is made."""

    def __init__(self, view: View, rng: torch.Generator, sent: list[Message]) -> None:
        known = view.know("attributes")
        self.view, self.rng, self.x, self.y = view, rng, known.x, known.y.cpu()
        self.value, self.sent = known.attribute.cpu(), sent
        self.seed = int(torch.randint(2**31, (), generator=rng))
        self.trained: dict[tuple[object, ...], tuple[_Own, Reader] | str] = {}

    def read(self, m: Message) -> _Read | str:
        """What the rows of a message say, or why they say nothing."""
        rows, of = Rows.of(m.payload, m.told()[""]), self._extractor(m)
        if not len(rows.x):
            return "what was sent is not finite"
        if isinstance(of, str):
            return of
        place = self._place(m, of)
        if place not in self.trained:
            self.trained[place] = self._trained(m, of)
        found = self.trained[place]
        if isinstance(found, str):
            return found
        own, reader = found
        if rows.x.shape[1:] != own.x.flatten(1).shape[1:]:
            return "its rows have another shape than what the model makes of an example"
        labels = self._labels(m)
        labels = None if labels is None else labels[rows.at]
        x = own.change.undone(rows, own.expected(labels)).reshape(-1, *own.x.shape[1:])
        return _Read(m, reader.says(x, labels), rows.at, reader.sure)

    def _extractor(self, m: Message) -> Extractor | str | None:
        return extractor(self.view, m) if m.kind == "features" else None

    def _place(self, m: Message, of: Extractor | None) -> tuple[object, ...]:
        return (m.kind, self._labels(m) is None, *(of.name if of else ()))

    def _labels(self, m: Message) -> Tensor | None:
        """(rows,) int64: the classes that were named beside the rows; None where none were."""
        sent = self.view.messages("labels", sender=m.sender, round=m.round, phase=m.phase)
        y = sent[-1].payload if sent and m.kind != "mean_data" else None
        alike = isinstance(y, torch.Tensor) and y.shape == (len(m.payload),)
        return y.cpu() if alike and y is not None and not y.is_floating_point() else None

    def _trained(self, m: Message, of: Extractor | None) -> tuple[_Own, Reader] | str:
        x, value = self.x.double().cpu(), self.value
        if m.kind == "mean_data":
            x, value = _means(x, value, int(self.view.method.size), self.rng)  # type: ignore[attr-defined]
        elif of is not None:
            x = of.of(self.view.facts.input_range.unit(self.x.to(m.payload))).double().cpu()
        if not bool(x.isfinite().all()):
            return "what the model makes of known examples is not finite"
        y = None if self._labels(m) is None else self.y
        change = RowChange.of(x.flatten(1), self._alike(m, of, x[0].numel()))
        own = _Own(x, value, y, change)
        learnt = change.imitated(x.flatten(1), own.expected(y), self.rng).reshape(x.shape)
        return own, fitted(learnt, y, value, int(self.value.max()) + 1, self.seed)

    def _alike(self, m: Message, of: Extractor | None, wide: int) -> list[Rows]:
        """The rows of all messages that were made as this one was."""
        out = []
        for other in self.sent:
            by = self._extractor(other)
            if not isinstance(by, str) and self._place(other, by) == self._place(m, of):
                rows = Rows.of(other.payload, other.told()[""])
                out += [rows] if rows.x.shape[1:] == (wide,) else []
        return out


def _means(x: Tensor, value: Tensor, size: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Means (n, ...) of ``size`` examples of one value each, and their values (n,)."""
    means, whose = [], []
    for v in sorted({*value.tolist()}):
        own = (value == v).nonzero().flatten()
        for _ in range(MEANS):
            some = torch.randint(len(own), (size,), generator=rng)
            means.append(x[own[some]].mean(0))
            whose.append(v)
    return torch.stack(means), torch.tensor(whose)
