"""What a server reads out of the update of a model that it planted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from attacks._inversion import check, engines
from attacks._inversion.victims import Victim
from attacks._updates import Behind
from leakbench import models
from leakbench.attacking import Attack, Guess, Metric, Outline, ThreatModel, View
from leakbench.base import torch
from leakbench.federation import trainings
from leakbench.metrics import RECONSTRUCTION
from leakbench.record import Message

if TYPE_CHECKING:
    from torch import Tensor

SPEED = 1e10  # operations of a search in a second of two cores, for `seconds`
OVERHEAD = 0.004  # seconds of a step besides
FEW = 4  # examples of a class in a batch, for the same
CLEAR = 1e-3  # of the largest slope by a bias: units below it say little beside rounding
ROUNDING = 4  # times the last digit of a weight: less than that, a slope is its rounding
NOTHING = 1e-5  # of an update, below its last layer: nobody of the class was in the batch
RANK = 1e-3  # of the largest singular value of a layer's step: smaller ones are rounding
NEAR = 0.01  # two readings that differ by less in the mean are of the same image
SURE = 10  # times the least that was sent, from which a slope is one, though a part was not sent
OPEN = 0.01  # of an image, that may be another for want of numbers, and two readings still agree
BEYOND = 0.05  # of the range of inputs, by which a reading may lie outside of it


@dataclass(frozen=True)
class _Victim:
    """A client, the model that was planted at it, and what came back."""

    client: str
    planted: Message
    told: dict[str, Tensor]  # its update, or a sum of which nothing else is a part
    phase: int
    examples: int
    summed: bool = False  # are others, who were silenced, in what was told?
    sparse: bool = False  # were its zeros not sent?


class PlantedModel(Attack):
    """Divides rows of the first linear layer's update by its bias, as the planted model asks for.

    Of one image x a unit's row moved by c x and its bias by c, whatever follows, and so x is their
    quotient (Boenisch et al. 2023, Section 4.1; Fowl et al. 2022, Eq. 2). What else came into a
    unit the planted model says, which the server knows, as it sent it: where all rows are one and
    the same, a bin is the difference of neighbouring units; else every unit is read by itself.
    Readings on which two units agree are of one image, for a mixture is another one in each; they
    come first, then those of the largest slope. What lies outside of the range of inputs is a
    mixture. Of images that nothing was read of, the auxiliary data's mean is guessed, as the blind
    guess has it for all. A number that was not sent (``top_k``) is less than the least that was:
    it is guessed as the mean has it, as far as that allows.

    Under a sum it reads the sum, where the others were silenced, and one client was aimed at, or
    each of several has units of its own, of which it is read. Over
    several local steps rows and biases add up over all their examples, and are read alike.

    Where a class was fished for, only its examples have a gradient below the last layer, and how
    many they are the last bias tells. Where the first layer tells less than these, or is no linear
    one, they are searched as in ``gradient_inversion``: as a batch of their own, whose gradient is
    what was sent without the last layer's rows of other classes (of one unit's threshold without
    that layer, and of one example).

    It believes itself where two units agree on each image of the batch.
    """

    about: ClassVar[str] = "images from the update of a model that the server planted"
    paper: ClassVar[str] = "Wen et al. 2022; Fowl et al. 2022; Boenisch et al. 2023"
    metrics: ClassVar[tuple[Metric, ...]] = RECONSTRUCTION
    order: ClassVar[int] = 3
    left_out: ClassVar[str] = "no planted model was sent to them, or no whole update was kept"

    targets: int = Field(
        50, ge=1, description="clients attacked in a round, of as many as were sent such a model"
    )

    steps: int = Field(300, ge=1, description="iterations of each search, of a class fished for")
    restarts: int = Field(2, ge=1, description="starts; the one that matches best is kept")
    total_variation: float = Field(
        0.3, ge=0, description="weight of the total variation at first, as in gradient_inversion"
    )
    side_by_side: int = Field(
        0, ge=0, description="searches at once; 0: as many as were measured to pay"
    )

    @property
    def threat(self) -> ThreatModel:
        return ThreatModel(
            observer="server+",
            kinds=("update", "model", "sum"),
            rounds="audited",
            knows=("method", "facts", "sizes", "aux_data"),
            rung="public",
        )

    def obstacle(self, run: Outline) -> str:
        sent = [s for s in run.sent if (s["kind"], s["sender"]) == ("model", "server")]
        if not any(s.get("changed") for s in sent):
            return "the server kept to its method: no model was planted (wrapper active_server)"
        if why := super().obstacle(run):
            return why
        summed = any(s["kind"] == "sum" for s in run.sent)
        if summed and not any(s["receiver"] == "client" for s in sent):
            return (
                "the server receives only a sum over clients who all got the planted model, so what"
                " is read has no owner: aim at one, -s active_server.clients=[0]"
            )
        if summed and not run.method.steps:
            return "of a sum it is not known how many examples by epochs are behind it"
        if run.method.optimizer != "sgd":
            return "of steps of Adam rows are no multiples of the image any more"
        if run.method.step_terms().weight_decay:
            return "weight decay is added to rows and biases, so their quotient is no image"
        if not models.first_linear(run.module(), run.facts.shape) and not self._searches(run):
            return "no linear layer with a bias reads the input itself, and nothing was fished for"
        return ""

    def _searches(self, run: Outline) -> bool:
        """Can a class be fished for, and what comes be searched?"""
        _, head = models.last_layer(run.module(), run.facts.shape)
        return head is not None and head.bias is not None and run.thrower() is None

    def nothing_kept(self, run: Outline) -> str:
        return "of no client that was sent a planted model a whole update was kept"

    def seconds(self, run: Outline) -> float:
        from torch.utils.flop_counter import FlopCounterMode

        module = run.module()
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            module(run.blank())
        step = OVERHEAD + 6 * FEW * counter.get_total_flops() / SPEED
        attacked = min(self.targets, run.audited) * max(len(run.stages), 1)
        return attacked * self.restarts * self.steps * step

    def run(self, view: View, rng: torch.Generator) -> list[Guess]:
        out = []
        victims = self._victims(view)
        for done, v in enumerate(victims):
            view.progress(done / len(victims))
            found = _readings(view, v)
            fished = _fished(view, v.planted)
            if fished is not None and (isinstance(found, str) or found[1] < _most(view, v)):
                found = self._search(view, v, fished, rng) or found
            if isinstance(found, str):
                out.append(Guess(v.client, view.round, failed=found))
                continue
            read, sure = found
            rest = _mean(view, v)[len(read) :]
            x = torch.cat([read.reshape(-1, *view.facts.shape), rest])
            accepted = sure == v.examples
            out.append(self._guess(view, v, {"x": x.to(view.dtype)}, accepted=accepted))
        return out

    def _search(
        self, view: View, v: _Victim, fished: int, rng: torch.Generator
    ) -> tuple[Tensor, int] | None:
        """The images of the class that was fished for, and how many of them are believed.

        None where none of it was in the batch, or the update is of several steps.
        """
        name, _ = models.last_layer(view.module, view.facts.shape)
        keys = models.tensor_of(name, "weight"), models.tensor_of(name, "bias")
        made = trainings(view.loss_method(), view.round, last=view.last)
        training = next((t for t in made if t.phase == v.phase), None)
        several = training is None or len(training.sizes(v.examples, view.loss_method().batch)) > 1
        if several or training is None or not {*keys} <= v.told.keys():
            return None
        gated = int((v.planted.payload[keys[0]][fished] != 0).sum()) == 1
        many = _count(view, v, fished)
        if not many:
            return None
        many = 1 if gated else many
        left = dict(v.told)
        for key in keys:
            own = torch.zeros_like(left[key])
            if not gated:
                own[fished] = left[key][fished]
            left[key] = own
        if not _length(left) > NOTHING * _length(v.told):
            return None
        message = Message(view.round, v.phase, v.client, "server", "update", left, sparse=True)
        y = torch.full((many,), fished, device=view.device)
        behind = Behind(message, y, (tuple(range(many)),), training.name)
        victim = Victim(view, behind, y, {}, (), int(torch.randint(2**62, (), generator=rng)))
        (candidates,) = engines.search([victim], self, "auto", rng)
        kept = check.judge(victim, candidates, self)
        if not bool(kept.best.x.isfinite().all()):
            return None
        x = view.facts.input_range.native(kept.best.x).flatten(1).cpu()
        return x, many * kept.accepted

    def blind(self, view: View, rng: torch.Generator) -> list[Guess]:
        """The mean of the auxiliary images; of a class that was fished for one of that class's."""
        aux, out = view.know("aux_data"), []
        for v in self._victims(view):
            some = torch.randint(len(aux), (v.examples,), generator=rng)
            tensors = {"x": _mean(view, v).to(view.dtype), "sample": aux.x[some].to(view.dtype)}
            out.append(self._guess(view, v, tensors))
        return out

    def _guess(
        self, view: View, v: _Victim, tensors: dict[str, Tensor], *, accepted: bool = False
    ) -> Guess:
        about = {**tensors, "phase": torch.tensor(v.phase)}
        return Guess(v.client, view.round, about, accepted=accepted)

    def _victims(self, view: View) -> list[_Victim]:
        """Whose update can be read, in their order."""
        sent = [m for m in view.messages("model", sender="server", round=view.round) if m.changed]
        planted = {m.receiver: m for m in sent if not _silent(m)}
        updates = view.messages("update", round=view.round)
        sums = [m for m in view.messages("sum", round=view.round) if "update" in m.payload]
        if sums and not updates:
            alone = "client/*" not in planted and _silenced(view, sent) and _apart(view, planted)
            one = sums[0].phase, sums[0].payload["update"], sums[0].sparse
            told = [(c, *one, model) for c, model in planted.items()] if alone else []
        else:
            told = []
            for m in updates:
                to = m.sender if m.sender in planted else "client/*"
                if to in planted and planted[to].phase < m.phase:
                    told.append((m.sender, m.phase, m.payload, m.sparse, planted[to]))
        out = []
        summed = bool(sums and not updates)
        for client, phase, payload, sparse, model in told[: self.targets]:
            if n := _examples(view, client, phase):
                out.append(_Victim(client, model, payload, phase, n, summed, sparse))
        return out


def _length(tree: Mapping[str, Tensor]) -> float:
    """The L2 norm of all its numbers."""
    return float(torch.stack([t.double().square().sum() for t in tree.values()]).sum() ** 0.5)


def _silent(m: Message) -> bool:
    """Is it a model through which nothing passes?"""
    return not any(bool(v.any()) for k, v in m.payload.items() if v.is_floating_point())


def _silenced(view: View, sent: list[Message]) -> bool:
    """Were all others of the round sent a model whose update is nothing?"""
    rows = view.traffic("model")
    here = {int(r) for t, _, r in rows.tolist() if t == view.round}
    return len(sent) == len(here)


def _apart(view: View, planted: Mapping[str, Message]) -> bool:
    """Is there one victim, or has each units of the first layer that no other one has?"""
    if len(planted) < 2:
        return True
    name = models.first_linear(view.module, view.facts.shape)
    if not name:
        return False
    live = [_live(m.payload[models.tensor_of(name, "weight")]) for m in planted.values()]
    return int(torch.stack(live).sum(0).max()) == 1


def _live(weight: Tensor) -> Tensor:
    """(units,) bool: those that read anything."""
    return (weight != 0).flatten(1).any(1)


def _examples(view: View, client: str, phase: int) -> int:
    """How many examples are behind the update; 0 if it cannot be told."""
    known = view.know("sizes").get((client, view.round, phase, None))
    if known is not None:
        return int(known)
    made = trainings(view.loss_method(), view.round, last=view.last)
    steps = next((t.steps for t in made if t.phase == phase), 0)
    return steps * view.loss_method().batch


def _fished(view: View, planted: Message) -> int | None:
    """The class that the last layer alone reads anything for; None where it is none."""
    name, layer = models.last_layer(view.module, view.facts.shape)
    weight = planted.payload.get(models.tensor_of(name, "weight"))
    if layer is None or weight is None:
        return None
    rows = weight.flatten(1).any(1).nonzero().flatten().tolist()
    return int(rows[0]) if len(rows) == 1 else None


def _mean(view: View, v: _Victim) -> Tensor:
    """(B, ...) on the CPU: the mean auxiliary image, the first of the class that was fished for."""
    aux = view.know("aux_data")
    x = aux.x.cpu().double()
    out = x.mean(0).expand(v.examples, *x.shape[1:]).clone()
    fished = _fished(view, v.planted)
    own = aux.y.cpu() == (-1 if fished is None else fished)
    if bool(own.any()):
        out[0] = x[own].mean(0)
    return out


def _readings(view: View, v: _Victim) -> tuple[Tensor, int] | str:
    """(k, inputs) float64 images, k <= B, and how many of them two units agree on; or why none."""
    name = models.first_linear(view.module, view.facts.shape)
    if not name:
        return "no linear layer reads the input itself, and of the class fished for there is none"
    keys = models.tensor_of(name, "weight"), models.tensor_of(name, "bias")
    if not {*keys} <= v.told.keys():
        return "the first layer's update was not sent"
    rows, biases = (v.told[k].double().cpu() for k in keys)
    had = [v.planted.payload[k].double().cpu() for k in keys]
    live = _live(had[0])
    rows, biases, had = rows[live], biases[live], [h[live] for h in had]
    there, known = _sent(rows, biases, sparse=v.sparse)
    least = _least(v.told[keys[0]]) if v.sparse else 0.0
    if not len(rows):
        return "the planted model reads nothing"
    if not bool(rows.isfinite().all() and biases.isfinite().all()):
        return "the update is not finite"
    last = torch.finfo(view.dtype).eps
    rounding = ROUNDING * last * torch.maximum(had[1].abs(), had[0].abs().max(1).values)
    if len(had[0]) > 1 and torch.equal(had[0], had[0][:1].expand_as(had[0])):
        order = had[1].argsort(descending=True)  # the lowest threshold first
        rows, biases, rounding = rows[order], biases[order], rounding[order]
        there, known = there[order], known[order]
        there[:-1] &= there[1:].clone()
        known[:-1] &= known[1:].clone()
        none = torch.zeros(1, *rows.shape[1:], dtype=rows.dtype)
        rows = rows - torch.cat([rows[1:], none])
        biases = biases - torch.cat([biases[1:], none[:, 0]])
    size = biases.abs()
    clear = (size > rounding) & (size > CLEAR * size.max()) & (known | (size > SURE * least))
    if not bool(clear.any()):
        return "no unit of the first layer moved: nothing fell where it was looked for"
    x = rows[clear] / biases[clear, None]
    open_by = torch.where(there[clear], 0.0, least / size[clear, None])
    likely = _mean(view, v)[-1].flatten().cpu()
    x = torch.maximum(torch.minimum(likely, x + open_by), x - open_by)
    unit = view.facts.input_range.unit(x.reshape(-1, *view.facts.shape)).flatten(1)
    within = torch.ones(len(unit), dtype=torch.bool)
    if view.facts.input_range.bounded:
        within = ((unit > -BEYOND) & (unit < 1 + BEYOND)).all(1)
    if not bool(within.any()):
        return "what was read lies outside of the range of inputs: mixtures of several images"
    x, unit, size = x[within], unit[within], size[clear][within]
    found, sure = _distinct(x, unit, size, _most(view, v))
    return found, 0 if float(open_by.max()) > OPEN else sure  # means agree with themselves


def _least(told: Tensor) -> float:
    """The least that was sent of a sparse update: what was not, is less (or was left by chance)."""
    sizes = told.abs()[told != 0]
    return float(sizes.min()) if len(sizes) else 0.0


def _sent(rows: Tensor, biases: Tensor, *, sparse: bool) -> tuple[Tensor, Tensor]:
    """Bool like rows and like biases: which were sent, of a sparse update all but its zeros.

    A unit of which nothing is there did not move.
    """
    if not sparse:
        return torch.ones_like(rows, dtype=torch.bool), torch.ones_like(biases, dtype=torch.bool)
    still = ~(rows.any(1) | biases.bool())
    return (rows != 0) | still[:, None], (biases != 0) | still


def _most(view: View, v: _Victim) -> int:
    """How many images there are to be read: of a fished class as many as its bias was moved by.

    Each moved it by its share of the mean over a step's examples, and others by nothing.
    """
    fished = _fished(view, v.planted)
    return v.examples if fished is None else max(_count(view, v, fished), 1)


def _count(view: View, v: _Victim, fished: int) -> int:
    """How many examples of the fished class are behind the update, 0 to B.

    In a sum others moved the last bias, too: there as many as the first layer's step has ranks, for
    each adds one; where that is no linear layer, or no such bias was sent, it is taken as one.
    """
    method = view.loss_method()
    name, _ = models.last_layer(view.module, view.facts.shape)
    bias = v.told.get(models.tensor_of(name, "bias"))
    if v.summed or bias is None:
        first = models.first_linear(view.module, view.facts.shape)
        rows = v.told.get(models.tensor_of(first, "weight"))
        if rows is None or not bool(rows.isfinite().all()):
            return 1
        sizes = torch.linalg.svdvals(rows.double())
        ranks = int((sizes > RANK * sizes[:1].clamp(min=1e-30)).sum()) if float(sizes[0]) else 0
        return min(ranks, v.examples)
    step = min(method.batch, v.examples)
    rate = method.lr * method.schedule(view.round)
    return min(max(round(float(bias[fished]) / rate * step), 0), v.examples)


def _distinct(x: Tensor, unit: Tensor, size: Tensor, most: int) -> tuple[Tensor, int]:
    """At most ``most`` readings that differ: first those on which two units agree."""
    near = torch.cdist(unit, unit) <= NEAR * unit.shape[1] ** 0.5
    agree = near.sum(1) > 1
    order = sorted(range(len(x)), key=lambda i: (not agree[i], -float(size[i])))
    taken: list[int] = []
    for i in order:
        if len(taken) < most and not any(bool(near[i, j]) for j in taken):
            taken.append(i)
    return x[taken], int(agree[taken].sum())
