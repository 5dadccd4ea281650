"""Statistics inversion: the examples behind class means and covariances of their features."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from attacks._decoders import beats
from attacks._feature_messages import CHUNK, Extractor, extractor, of_classes, unextracted
from attacks._input_prior import InputPrior, unknown
from attacks._shared_inputs import clipped
from attacks._statistics_search import FOLLOWED, GLANCE, Rebuilt, Told, search
from leakbench.attacking import Attack, Guess, Metric, Outline, ThreatModel, View
from leakbench.base import torch
from leakbench.federation import Examples
from leakbench.metrics import RECONSTRUCTION
from leakbench.record import Message

if TYPE_CHECKING:
    from torch import Tensor

UNEXPLAINED = 0.01  # of the variance of features: what is left beyond it says there is more to find
TRIED = 6  # groups of the attacker's own examples on which the search is tried
HELD = 0.2  # of its examples, which the prior of the trial has not seen
SPEED = 1e10  # operations of the search in a second of two cores, for `seconds`
OVERHEAD = 0.001  # seconds of a step besides
USUAL = 10  # examples of a class, for the same
WHOLE = 0.1  # by which numbers of examples are off whole ones, in the mean, that nothing scaled


@dataclass(frozen=True)
class _Usual:
    """Means (K, d) and covariances (K, d, d) of the features of the attacker's own examples.

    By class; of one that it has not, those of all.
    """

    by_class: dict[int, tuple[Tensor, Tensor]]
    of_all: tuple[Tensor, Tensor]

    @classmethod
    def of(cls, features: Tensor, y: Tensor) -> _Usual:
        def both(f: Tensor) -> tuple[Tensor, Tensor]:
            return f.mean(0), f.T.cov()

        classes = [c for c in sorted(set(y.tolist())) if int((y == c).sum()) > 1]
        return cls({c: both(features[y == c]) for c in classes}, both(features))

    def means(self, classes: Sequence[int]) -> Tensor:
        return torch.stack([self.by_class.get(c, self.of_all)[0] for c in classes])

    def covariances(self, classes: Sequence[int]) -> Tensor:
        return torch.stack([self.by_class.get(c, self.of_all)[1] for c in classes])


class StatisticsInversion(Attack):
    """Solves for all examples of a class at once, from what CCVR's clients send of it.

    Mean, covariance and number of a class's features (Luo et al. 2021, Section 4.2) are the
    features themselves but for a rotation of the examples among each other; of one example nothing
    is left open. The server knows the extractor, so it seeks the inputs whose features have these
    statistics (``_statistics_search``), and which are likely of the class: a Gaussian of its own
    auxiliary examples. Noise on what was sent is allowed for, of whatever level; what was clipped
    is scaled back as the attacker's own examples have it, and numbers that were not sent are no
    data.

    Classes of more than ``most`` examples of a client are left out. It believes itself where the
    same search, of groups of the attacker's own examples that the prior has not seen, errs less
    than the class mean by a twentieth and by two standard errors, and leaves as little unexplained
    here as 1 % of the features' variance. On digits (LeNet, 48 features, 60 clients with Dirichlet
    .5) groups of up to eight images came back with 30 dB, all told from others of their class; of
    groups of 48 with 18 dB, more than half.
    """

    about: ClassVar[str] = "all inputs behind class means and covariances of features"
    paper: ClassVar[str] = "ours; of what Luo et al., NeurIPS 2021, send"
    metrics: ClassVar[tuple[Metric, ...]] = RECONSTRUCTION
    searches: ClassVar[bool] = True
    order: ClassVar[int] = 2
    left_out: ClassVar[str] = "each class of theirs is too large, or not finite"

    most: int = Field(50, ge=1, le=1000, description="examples of a class of a client, at most")
    clients: int = Field(20, ge=1, description="clients attacked in a stage, at most")
    starts: int = Field(4, ge=1, description="searches begun of each class; two are followed")
    steps: int = Field(200, ge=1, description="iterations of each search")

    @property
    def threat(self) -> ThreatModel:
        return ThreatModel(
            kinds=("features", "statistics", "labels", "model"),
            rounds="audited",
            knows=("aux_data", "method", "facts"),
            rung="public",
        )

    def obstacle(self, run: Outline) -> str:
        if why := super().obstacle(run):
            return why
        if not of_classes(run):
            return "clients send no covariances of their features"
        if why := unextracted(run):
            return why
        return unknown(run)

    def nothing_kept(self, run: Outline) -> str:
        return f"no class of any client has {self.most} examples or fewer, with finite statistics"

    def seconds(self, run: Outline) -> float:
        from torch.utils.flop_counter import FlopCounterMode

        module = run.module()
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            module(run.blank())
        step = OVERHEAD + 3 * min(self.most, USUAL) * counter.get_total_flops() / SPEED
        searches = GLANCE + FOLLOWED * self.steps
        groups = min(self.clients, run.facts.clients) * run.facts.classes / 2 + TRIED
        return 2 * groups * searches * step

    def run(self, view: View, rng: torch.Generator) -> list[Guess]:
        prior = InputPrior(view.know("aux_data"), view.facts.input_range)
        sent = self._sent(view, prior)
        trials: dict[tuple[object, ...], bool] = {}
        out = []
        for done, (m, lots) in enumerate(sent):
            view.progress(done / len(sent))
            out.append(self._inverted(view, m, lots, prior, trials, rng))
        return out

    def _inverted(
        self,
        view: View,
        m: Message,
        lots: list[Told],
        prior: InputPrior,
        trials: dict[tuple[object, ...], bool],
        rng: torch.Generator,
    ) -> Guess:
        extract = extractor(view, m, torch.float64)
        if isinstance(extract, str):
            return Guess(m.sender, m.round, failed=extract)
        usual = self._usual(extract, prior)
        if extract.name not in trials:
            sizes = sorted(told.n for told in lots)
            trials[extract.name] = self._tried(view, extract, sizes[len(sizes) // 2], rng)
        found = [self._search(extract, told, prior, usual, rng) for told in lots]
        x = torch.cat([one.x for one in found])
        if not bool(x.isfinite().all()):
            return Guess(m.sender, m.round, failed="the search's result is not finite")
        left = torch.tensor([one.off / usual for one in found])
        flags = () if float(left.mean()) <= UNEXPLAINED else ("loss_did_not_fall",)
        tensors = {
            "x": extract.lies.native(x).to(view.dtype),
            **_classes(lots),
            "unexplained": left,
        }
        accepted = trials[extract.name] and not flags
        return Guess(m.sender, m.round, tensors, accepted=accepted, flags=flags)

    def blind(self, view: View, rng: torch.Generator) -> list[Guess]:
        """The mean of the auxiliary inputs of each example's class."""
        aux, lies = view.know("aux_data"), view.facts.input_range
        prior, out = InputPrior(aux, lies), []
        for m, lots in self._sent(view, prior):
            labels = [label for told in lots for label in told.labels]
            x = lies.native(prior.means(labels)).to(view.dtype)
            out.append(Guess(m.sender, m.round, {"x": x, **_classes(lots)}))
        return out

    def _sent(self, view: View, prior: InputPrior) -> list[tuple[Message, list[Told]]]:
        """Each client's last means of this round, and what stands beside them of each class."""
        last = {m.sender: m for m in view.messages("features", round=view.round)}
        usual: dict[tuple[object, ...], _Usual] = {}
        out = []
        for m in last.values():
            labels, statistics = (
                view.messages(kind, sender=m.sender, round=m.round, phase=m.phase)
                for kind in ("labels", "statistics")
            )
            if m.sender == "server" or not labels or not statistics:
                continue
            extract, known = extractor(view, m, torch.float64), None
            if not isinstance(extract, str) and (
                view.covers("features") or view.covers("statistics")
            ):
                if extract.name not in usual:
                    usual[extract.name] = _Usual.of(_seen(extract, prior.x), prior.y)
                known = usual[extract.name]
            if lots := self._lots(m, labels[-1], statistics[-1], known):
                out.append((m, lots))
        return out[: self.clients]

    def _lots(
        self, m: Message, labels: Message, statistics: Message, known: _Usual | None
    ) -> list[Told]:
        """The classes of at most ``most`` examples, of statistics that are finite.

        Scaled back, where they were clipped: as what is ``known`` of the classes has it.
        """
        classes = [int(y) for y in labels.payload.tolist()]
        means, there = m.payload.double().cpu(), m.told()[""].cpu()
        told = {k: v.double().cpu() for k, v in statistics.payload.items()}
        sent = {k: v.cpu() for k, v in statistics.told().items()}
        if known is not None:
            means = means / _scale(means, known.means(classes), there)
            counts = told["count"]
            if float((counts - counts.round().clamp(min=1)).abs().mean()) > WHOLE:
                likely = known.covariances(classes)
                by = _scale(told["covariance"], likely, sent["covariance"])
                told = {k: v / by for k, v in told.items()}
        lots = []
        for i, (label, count) in enumerate(zip(classes, told["count"].tolist(), strict=True)):
            n = max(round(count), 1) if math.isfinite(count) else 0  # noised ones are not whole
            mean, covariance = means[i], told["covariance"][i]
            finite = bool(mean.isfinite().all()) and bool(covariance.isfinite().all())
            if 0 < n <= self.most and finite:
                beside = sent["covariance"][i]
                lots.append(Told.of(label, n, mean, covariance, there[i], beside))
        return lots

    def _search(
        self, extract: Extractor, told: Told, prior: InputPrior, usual: float, rng: torch.Generator
    ) -> Rebuilt:
        starts, steps = self.starts, self.steps
        through = _from_processor(extract)
        return search(through, told, prior, usual, starts=starts, steps=steps, dice=rng)

    def _usual(self, extract: Extractor, prior: InputPrior) -> float:
        """The variance of a feature over the attacker's own examples, the mean of all features."""
        return max(float(_seen(extract, prior.x).var(0).mean()), 1e-30)

    def _tried(self, view: View, extract: Extractor, n: int, rng: torch.Generator) -> bool:
        """Does the search beat the class mean, on groups of n of the attacker's own examples?"""
        aux = view.know("aux_data")
        order = torch.randperm(len(aux.y), generator=rng)
        held, rest = order[: int(HELD * len(order))], order[int(HELD * len(order)) :]
        prior = InputPrior(Examples(aux.x[rest], aux.y[rest]), extract.lies)
        own = InputPrior(Examples(aux.x[held], aux.y[held]), extract.lies)
        usual, errors, blind = self._usual(extract, prior), [], []
        for label in torch.randperm(view.facts.classes, generator=rng)[:TRIED].tolist():
            x = own.x[own.y == label][:n]
            if len(x):
                told = Told.by(label, _seen(extract, x))
                found = self._search(extract, told, prior, usual, rng).x
                errors.append(_nearest(found, x))
                blind.append((prior.of(label)[0] - x).square().flatten(1).mean(1))
        return bool(errors) and beats(torch.cat(errors), torch.cat(blind))


def _scale(sent: Tensor, usual: Tensor, there: Tensor) -> float:
    """By what clipping multiplied what was ``sent``, of which ``there`` says what was."""
    read = there & sent.isfinite()
    return clipped(sent[read], usual[read])


def _from_processor(extract: Extractor) -> Callable[[Tensor], Tensor]:
    """The same, wherever the network lies, of inputs on the processor."""
    device = next(iter(extract.net.weights.values())).device
    return lambda x: extract(x.to(device)).cpu()


def _seen(extract: Extractor, x: Tensor) -> Tensor:
    """The features (n, d) of inputs, without gradients."""
    through = _from_processor(extract)
    with torch.no_grad():
        return torch.cat([through(some) for some in torch.split(x, CHUNK)]).flatten(1)


def _classes(lots: list[Told]) -> dict[str, Tensor]:
    """Of which classes the examples are that a guess is about."""
    return {"statistics.classes": torch.tensor([y for told in lots for y in told.labels])}


def _nearest(found: Tensor, x: Tensor) -> Tensor:
    """(n,): the mean squared error of each of ``x`` (n, ...), each beside a guess of its own."""
    from scipy.optimize import linear_sum_assignment

    table = (x[:, None] - found[None]).square().flatten(2).mean(2)
    rows, columns = linear_sum_assignment(table.numpy())
    return table[rows, columns]
