"""Whose data does a client have? By its updates, of people of whom the attacker knows examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from attacks._attributes import blind_guess, unknown
from attacks._candidate_gradients import losses_of, moved_by, replayed
from leakbench.attacking import Attack, Guess, Metric, Outline, Replay, ThreatModel, View
from leakbench.base import torch
from leakbench.federation import Batch, Net, Training, moved, party, trainings
from leakbench.metrics import ATTRIBUTE_AUC
from leakbench.record import Message

if TYPE_CHECKING:
    from torch import Tensor

CHUNK = 500  # examples of one forward pass
EXAMPLES = 1000  # known ones whose loss is looked at, at most
# Seconds of a local step, of an example's loss, and of each weight in both.
STEP, LOSS, OF_A_WEIGHT = 0.01, 2e-5, 1e-9
ALIKE = "its updates say the same of every value of the attribute"


class Attribute(Attack):
    """Two ways to tell by a client's updates whose data it trained on, added up over rounds.

    Who attacks knows people who may be clients: of each some examples that no client has (the
    task's ``attribute``). Each kept update says of each of them how much it speaks for it; that is
    standardised over the values of the attribute and added up over rounds.

    "loss": how much further the client's training took the loss of a person's known examples down
    than that of the others of the round, who began at the same model: subject membership inference
    (Suri, Kanani, Marathe and Peterson 2022, "Subject Membership Inference Attacks in Federated
    Learning", loss-across-rounds). Examples are compared with those of their own class alone, so
    that it is not told which classes the client has.

    "shadows": updates that the attacker makes itself, from the same model by the method's own local
    training on a person's known examples, and the cosine with these, both less their mean (ours).
    What updates on single classes explain of either is taken out.

    "both": their sum.

    Different from the paper: there it is asked whether one subject is in the federation, here which
    people are in one client's data. Shadows train on a person's known examples, whatever the
    client's number is; what wrappers do is not imitated.

    Floor: what the classes alone tell (``leakbench.metrics.attributes``).
    """

    about: ClassVar[str] = (
        "whose data a client has, of people whom the attacker knows, by its updates of all rounds"
    )
    paper: ClassVar[str] = "after Suri et al. (2022)"
    metrics: ClassVar[tuple[Metric, ...]] = (ATTRIBUTE_AUC,)
    over: ClassVar[Literal["stages", "all"]] = "all"
    left_out: ClassVar[str] = "no whole update of theirs was kept"
    variants: ClassVar[tuple[dict[str, Any], ...]] = ({"signal": "loss"}, {"signal": "both"})

    signal: Literal["loss", "shadows", "both"] = Field(
        "both", description="how the loss of known examples fell, updates made for comparison, both"
    )
    rounds: int = Field(
        10, ge=1, description="rounds of which updates are read, at most, evenly over the run"
    )
    shadows: int = Field(2, ge=1, description="updates that are made of each value, in each round")

    @property
    def threat(self) -> ThreatModel:
        kinds = (
            *("update", "model", "prototype", "statistics", "features", "labels", "mean_data"),
            *("data", "generator", "identifier", "variate"),
        )
        knows = ("attributes", "method", "facts")
        return ThreatModel(kinds=kinds, rounds="all", knows=knows, rung="public")

    @property
    def pools(self) -> bool:
        return True

    def hears_out(self, run: Outline) -> bool:
        """It reads half of the rounds, or more."""
        return 2 * self.rounds >= run.rounds

    def obstacle(self, run: Outline) -> str:
        return super().obstacle(run) or unknown(run)

    def seconds(self, run: Outline) -> float:
        return 1 + min(self.rounds, run.rounds) * self._of_a_round(run)

    def within(self, run: Outline, seconds: float) -> dict[str, Any]:
        fewer = int((seconds - 1) / self._of_a_round(run))
        return {"rounds": fewer} if 1 <= fewer < min(self.rounds, run.rounds) else {}

    def _of_a_round(self, run: Outline) -> float:
        weights = sum(p.numel() for p in run.module().parameters())
        senders = max(1.0, run.facts.clients * run.method.fraction)
        losses = senders * EXAMPLES * (LOSS + weights * OF_A_WEIGHT)
        steps = run.method.steps or 5 * run.method.epochs
        made = 20 * self.shadows * steps * (STEP + run.method.batch * weights * OF_A_WEIGHT)
        return losses * (self.signal != "shadows") + made * (self.signal != "loss")

    def run(self, view: View, rng: torch.Generator) -> list[Guess]:
        known = KnownPeople.of(view, rng)
        told: dict[int, list[Tensor]] = {}
        rounds = self._rounds(view)
        for i, sent in enumerate(rounds):
            view.progress(i / len(rounds))
            for client, values in self._said(view, sent, known, rng).items():
                told.setdefault(client, []).append(values)
        out = []
        for client in sorted({party(m.sender) for sent in rounds for m in sent}):
            score = sum(told.get(client, []), torch.zeros(known.values, dtype=torch.float64))
            found = {"attribute": score} if float(score.abs().sum()) > 0 else {}
            why = "" if found else ALIKE
            out.append(Guess(f"client/{client}", view.round, found, failed=why))
        return out

    def blind(self, view: View, rng: torch.Generator) -> list[Guess]:
        clients = {party(m.sender) for sent in self._rounds(view) for m in sent}
        return [blind_guess(view, c) for c in sorted(clients)]

    def _rounds(self, view: View) -> list[list[Message]]:
        """The updates of each round and phase that is read; the newest is among them."""
        sent = view.of_others(view.messages("update", probe=False))
        by = sorted(sent, key=lambda m: (m.round, m.phase, party(m.sender)))
        each = [list(found) for _, found in groupby(by, key=lambda m: (m.round, m.phase))]
        step = max(1.0, len(each) / self.rounds)
        return [each[-1 - int(i * step)] for i in range(min(self.rounds, len(each)))][::-1]

    def _said(
        self, view: View, sent: Sequence[Message], known: KnownPeople, rng: torch.Generator
    ) -> dict[int, Tensor]:
        """{client: (V,)} of the updates of one phase of a round, which began at one model."""
        made = {t.phase: t for t in trainings(view.loss_method(), sent[0].round, last=view.last)}
        replays = [(m, replayed(view, m, rng)) for m in sent]
        sound = [(m, r) for m, r in replays if r is not None]
        if not sound:
            return {}
        out = {party(m.sender): torch.zeros(known.values, dtype=torch.float64) for m, _ in sound}
        if self.signal != "shadows":
            for client, values in _by_loss(sound, known).items():
                out[client] += _standard(values)
        if self.signal != "loss":
            shadows = ShadowUpdates.made(
                view, sound[0][0], made[sent[0].phase], known, self.shadows, rng
            )
            for client, values in shadows.cosines([m for m, _ in sound]).items():
                out[client] += _standard(values)
        return out


@dataclass(frozen=True)
class KnownPeople:
    """Known people's examples."""

    batch: Batch
    value: Tensor  # (n,) int64
    values: int
    looked_at: Tensor  # (m,) int64, rows whose loss is looked at

    @classmethod
    def of(cls, view: View, rng: torch.Generator) -> KnownPeople:
        """All that the view grants."""
        told = view.know("attributes")
        value = told.attribute
        some = torch.randperm(len(value), generator=rng)[:EXAMPLES].sort().values
        batch = Batch(told.x, told.y, told.targets)
        return cls(batch, value, int(value.max()) + 1, some.to(value.device))


def _standard(values: Tensor) -> Tensor:
    """Less the mean, in deviations; zeros where all are the same, or one is not finite."""
    off = values - values.mean()
    size = float(off.square().mean().sqrt())
    return off / size if 0 < size < float("inf") else torch.zeros_like(values)


def _by_loss(sound: Sequence[tuple[Message, Replay]], known: KnownPeople) -> dict[int, Tensor]:
    """How much further each client took the loss of a value's examples down than the others did."""
    batch, value = known.batch.some(known.looked_at), known.value[known.looked_at]
    each = torch.stack([_fell(m, replay, batch) for m, replay in sound]).nan_to_num(0.0, 0.0, 0.0)
    y, value = batch.y.cpu(), value.cpu()
    more = [_beyond_others(each, i) for i in range(len(sound))]
    return {
        party(m.sender): _within_classes(told, y, value, known.values)
        for (m, _), told in zip(sound, more, strict=True)
    }


def _beyond_others(each: Tensor, i: int) -> Tensor:
    """(w,): row i of ``each`` (n, w), less the median of the others, where there are any.

    One client whose numbers are absurd hides nobody.
    """
    others = torch.cat([each[:i], each[i + 1 :]])
    return each[i] - (others.quantile(0.5, dim=0) if len(others) else 0.0)


def _fell(m: Message, replay: Replay, batch: Batch) -> Tensor:
    """(n,) float64: how much lower an update takes each example's loss.

    The cross-entropy of a network that says classes; of another one the method's own loss.
    """
    some = Batch(batch.x.to(replay.dtype), batch.y, batch.targets)
    received = replay.inbox["model"]
    if replay.method.outputs == "logits" and replay.facts.targets == "classes":
        both = (received, moved(received, replay.message.payload))
        before, after = (_cross_entropy(replay, some, weights) for weights in both)
    else:
        held = replay.started(some)
        private = {k: v for k, v in held.items() if k in replay.unknown}
        both = ({}, moved_by(replay, m))
        before, after = (losses_of(replay, some, private, weights) for weights in both)
    return (before - after).double().cpu()


def _cross_entropy(replay: Replay, batch: Batch, weights: Mapping[str, Tensor]) -> Tensor:
    net = Net(replay.module, {**replay.module.state_dict(), **weights})
    with torch.no_grad():
        logits = torch.cat([net(x) for x in torch.split(batch.x, CHUNK)])
    if logits.shape[1] == 1:  # one output for two classes
        logits = torch.cat([torch.zeros_like(logits), logits], 1)
    return torch.nn.functional.cross_entropy(logits, batch.y, reduction="none")


def _within_classes(more: Tensor, y: Tensor, value: Tensor, values: int) -> Tensor:
    """(V,) the mean of ``more`` (n,) of each value, against others of the same class alone."""
    total = torch.zeros(values, dtype=torch.float64)
    for k in sorted({*y.tolist()}):
        total.index_add_(0, value[y == k], _standard(more[y == k]))
    return total / value.bincount(minlength=values).clamp(min=1)


@dataclass(frozen=True)
class ShadowUpdates:
    """Updates on the known examples of each value, less what classes explain."""

    names: tuple[str, ...]  # of the tensors that are compared
    centres: Tensor  # (V, w) of length 1, or 0 where nothing is known of a value
    classes: Tensor  # (k, w) orthonormal

    @classmethod
    def made(
        cls,
        view: View,
        m: Message,
        training: Training,
        known: KnownPeople,
        many: int,
        rng: torch.Generator,
    ) -> ShadowUpdates:
        """From the model behind ``m``, ``many`` of each value and one of each class."""
        groups = [(known.value == v).nonzero().flatten() for v in range(known.values)]
        of_classes = [
            (known.batch.y == k).nonzero().flatten() for k in sorted({*known.batch.y.tolist()})
        ]
        shadow = _LocalTraining(view, m, training, known.batch, rng)
        found, names = [], tuple[str, ...]()
        for rows in groups:
            each = [shadow.of(rows) for _ in range(many)] if len(rows) else []
            names = names or (tuple(sorted(each[0])) if each else ())
            found.append(torch.stack([_long(one, names) for one in each]).mean(0) if each else None)
        there = torch.stack([one for one in found if one is not None])
        middle = there.mean(0)
        of_class = torch.stack([_long(shadow.of(rows), names) for rows in of_classes])
        _, sizes, axes = torch.linalg.svd(of_class - of_class.mean(0), full_matrices=False)
        axes = axes[sizes > 1e-6 * sizes[:1].clamp(min=1e-300)]
        centres = torch.stack([middle if one is None else one for one in found]) - middle
        return cls(names, _apart(centres, axes), axes)

    def cosines(self, sent: Sequence[Message]) -> dict[int, Tensor]:
        """{client: (V,)} of the updates ``sent``, less their mean, where there are several.

        All are made as long as each other: a longer one would be all of the mean, and hide them.
        """
        longs = torch.stack([_long(m.payload, self.names) for m in sent])
        longest = longs.abs().max(1, keepdim=True).values.clamp(min=1e-300)
        updates = torch.nn.functional.normalize(longs / longest, dim=1)
        if len(updates) > 1:
            updates = updates - updates.mean(0)
        near = (_apart(updates, self.classes) @ self.centres.T).cpu()
        return {party(m.sender): row for m, row in zip(sent, near, strict=True)}


def _apart(rows: Tensor, axes: Tensor) -> Tensor:
    """Rows (n, w) without what lies along ``axes`` (k, w), of length 1."""
    return torch.nn.functional.normalize(rows - rows @ axes.T @ axes, dim=1)


def _long(payload: Mapping[str, Tensor], names: Sequence[str]) -> Tensor:
    return torch.cat([payload[k].detach().double().flatten() for k in names]).nan_to_num(0.0, 0, 0)


@dataclass(frozen=True)
class _LocalTraining:
    """The local training behind a message, of other examples."""

    view: View
    message: Message
    training: Training
    batch: Batch
    rng: torch.Generator

    def of(self, rows: Tensor) -> dict[str, Tensor]:
        """The update that training on these rows of the known examples makes."""
        size = max(1, self.view.method.batch)
        if self.training.steps:
            orders = [self._order(len(rows))[:size] for _ in range(self.training.steps)]
        else:
            passes = [self._order(len(rows)) for _ in range(self.training.epochs)]
            orders = [part for order in passes for part in torch.split(order, size)]
        steps = [part.tolist() for part in orders if len(part) > 1] or [orders[0].tolist()]
        name = self.message.loss or self.training.name
        replay = Replay(self.view, self.message, self.rng, rows=steps, phase=name)
        some = self.batch.some(rows)
        some = Batch(some.x.to(replay.dtype), some.y, some.targets)
        private = {k: v for k, v in replay.started(some).items() if k in replay.unknown}
        with torch.no_grad():
            return replay.update(some, private)

    def _order(self, many: int) -> Tensor:
        return torch.randperm(many, generator=self.rng)
