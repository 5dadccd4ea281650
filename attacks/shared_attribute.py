"""Whose examples are these? By what clients share of them: features, means, or data."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from attacks import _attribute_readers as readers
from attacks._attributes import blind_guess, unknown
from attacks._feature_messages import extractor, of_classes, unextracted
from leakbench.attacking import Attack, Guess, Metric, Outline, ThreatModel, View
from leakbench.base import torch
from leakbench.federation import Examples, party
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
    Section 5), who train on examples of the same distribution, and here of the same people. Noise
    and clipping of a wrapper are not imitated on the attacker's own rows.

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
        known, victims = view.know("attributes"), self._victims(view)
        values, trained = 1 + int(known.attribute.max()), dict[tuple[object, ...], object]()
        seed = int(torch.randint(2**31, (), generator=rng))
        out = []
        for client, messages in victims.items():
            said, why, sure = list[Tensor](), "", False
            for m in messages:
                place, made = self._made(view, m, known, rng)
                if isinstance(made, str):
                    why = made
                    continue
                x, value, y = made
                named = self._labels(view, m) if y is not None else None
                key = (*place, named is None)
                rows = m.payload.detach().double().cpu()
                if not bool(rows.isfinite().all()) or not bool(x.isfinite().all()):
                    why = "what was sent, or what the attacker made like it, is not finite"
                    continue
                if x.shape[1:] != rows.shape[1:]:
                    why = "its rows have another shape than what the model makes of an example"
                    continue
                if key not in trained:
                    its_class = None if named is None else y
                    trained[key] = readers.fitted(x, its_class, value, values, seed)
                reader = trained[key]
                assert isinstance(reader, readers.Reader)  # noqa: S101 - put there above
                said.append(reader.says(rows, named))
                sure = reader.sure
            unit = f"client/{client}"
            if not said or why:
                out.append(Guess(unit, view.round, failed=why))
                continue
            tensors = {"attribute": torch.cat(said).mean(0)}
            if messages[-1].kind != "mean_data":
                tensors["named"] = said[-1].argmax(1)
                tensors[f"{messages[-1].kind}.rows"] = torch.arange(len(said[-1]))
            out.append(Guess(unit, view.round, tensors, sure))
        return out

    def blind(self, view: View, rng: torch.Generator) -> list[Guess]:
        """As often as among the known examples; and the most frequent of them."""
        out = []
        for client, messages in self._victims(view).items():
            guess, m = blind_guess(view, client), messages[-1]
            if m.kind != "mean_data":
                most = int(guess.tensors["attribute"].argmax())
                guess.tensors["named"] = torch.full((len(m.payload),), most)
                guess.tensors[f"{m.kind}.rows"] = torch.arange(len(m.payload))
            out.append(guess)
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

    def _made(
        self, view: View, m: Message, known: Examples, rng: torch.Generator
    ) -> tuple[tuple[object, ...], tuple[Tensor, Tensor, Tensor | None] | str]:
        """A name for how; rows (n, ...) of the known examples, their values, their classes."""
        x, y, value = known.x, known.y.cpu(), known.attribute
        assert value is not None  # noqa: S101 - such examples are told with it
        value = value.cpu()
        if m.kind == "data":
            return (m.kind,), (x.double().cpu(), value, y)
        if m.kind == "mean_data":
            means, whose = _means(x.double().cpu(), value, int(view.method.size), rng)  # type: ignore[attr-defined]
            return (m.kind,), (means, whose, None)
        of = extractor(view, m)
        if isinstance(of, str):
            return (m.kind,), of
        rows = of.of(view.facts.input_range.unit(x.to(m.payload)))
        return (m.kind, *of.name), (rows.double().cpu(), value, y)

    def _labels(self, view: View, m: Message) -> Tensor | None:
        """(rows,) int64: the classes that were named beside the rows; None where none were."""
        sent = view.messages("labels", sender=m.sender, round=m.round, phase=m.phase)
        y = sent[-1].payload if sent else None
        alike = isinstance(y, torch.Tensor) and y.shape == (len(m.payload),)
        return y.cpu() if alike and y is not None and not y.is_floating_point() else None


def _means(
    x: Tensor, value: Tensor, size: int, rng: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Means (n, ...) of ``size`` examples of one value each, and their values (n,)."""
    means, whose = [], []
    for v in value.unique().tolist():
        own = (value == v).nonzero().flatten()
        for _ in range(MEANS):
            some = torch.randint(len(own), (size,), generator=rng)
            means.append(x[own[some]].mean(0))
            whose.append(v)
    return torch.stack(means), torch.tensor(whose)
