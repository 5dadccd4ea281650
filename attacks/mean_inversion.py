"""Mean inversion: the examples behind means of a few, which FedMix's and FedBR's clients send."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from attacks._input_prior import InputPrior, unknown
from attacks._shared_inputs import clipped
from attacks._statistics_search import Told, search
from leakbench.attacking import Attack, Guess, Metric, Outline, ThreatModel, View
from leakbench.base import torch
from leakbench.metrics import RECONSTRUCTION
from leakbench.record import Message

if TYPE_CHECKING:
    from torch import Tensor

ANY = -1  # the class of an example of which none was told
SECOND = 0.15  # of a mean, about


class MeanInversion(Attack):
    """Solves for all examples of a mean at once: the likeliest that have it.

    A mean of k examples is one equation for each number of them, so k - 1 of k numbers are the
    attacker's own prior: a Gaussian of its auxiliary examples of each class (``_input_prior``),
    within the range of images. Of the classes of a group the labels tell, whose mean is sent beside
    (FedMix); where none is sent (FedBR) each example is of any. Examples of one class in a mean
    cannot be told apart, so they are guessed alike. Noise on a mean is allowed for, of whatever
    level; means that were clipped are scaled back to where class means are, and numbers that were
    not sent are no data. It never believes itself: what it cannot know it takes from other people's
    data.
    """

    about: ClassVar[str] = "all inputs behind means of a few inputs"
    paper: ClassVar[str] = "ours; of what Yoon et al., ICLR 2021, send"
    metrics: ClassVar[tuple[Metric, ...]] = RECONSTRUCTION
    handed: ClassVar[Literal["", "rows", "banks"]] = "rows"
    order: ClassVar[int] = 2
    left_out: ClassVar[str] = "they send no mean, or one that is not finite"

    groups: int = Field(20, ge=1, description="means of a client that are read, at most")
    steps: int = Field(60, ge=1, description="iterations of each search")

    @property
    def threat(self) -> ThreatModel:
        return ThreatModel(
            kinds=("mean_data", "labels"),
            rounds="all",
            knows=("aux_data", "method", "facts"),
            rung="public",
        )

    def obstacle(self, run: Outline) -> str:
        if why := super().obstacle(run):
            return why
        if not hasattr(run.method, "size"):
            return "the method has no field `size`, so of how many inputs a mean is is not known"
        return unknown(run)

    def stages(self) -> tuple[str, ...]:
        """The last: what is sent once is the same in each."""
        return ("final",)

    def seconds(self, run: Outline) -> float:
        return 2 * run.facts.clients * self.groups * SECOND

    def run(self, view: View, rng: torch.Generator) -> list[Guess]:
        prior = InputPrior(view.know("aux_data"), view.facts.input_range)
        usual = max(float(prior.x.var(0).mean()), 1e-30)
        sent, out = self._sent(view, prior), []
        for done, (m, lots) in enumerate(sent):
            view.progress(done / len(sent))
            found = []
            for told in lots:
                one = search(lambda x: x, told, prior, usual, starts=1, steps=self.steps, dice=rng)
                found.append(one.x)
            out.append(self._guess(view, m, torch.cat(found)))
        return out

    def blind(self, view: View, rng: torch.Generator) -> list[Guess]:
        """The mean of the auxiliary inputs of each example's class, of all where none is told."""
        prior = InputPrior(view.know("aux_data"), view.facts.input_range)
        out = []
        for m, lots in self._sent(view, prior):
            means = [prior.means(told.labels) for told in lots]
            out.append(self._guess(view, m, torch.cat(means)))
        return out

    def _sent(self, view: View, prior: InputPrior) -> list[tuple[Message, list[Told]]]:
        """Each client's last means, scaled back where they were clipped, and what each tells."""
        last = {m.sender: m for m in view.of_others(view.messages("mean_data"))}
        size, lies, out = int(vars(view.method)["size"]), view.facts.input_range, []
        for m in last.values():
            beside = view.messages("labels", sender=m.sender, round=m.round, phase=m.phase)
            means, sent = m.payload.double().cpu()[: self.groups], m.told()[""].cpu()
            if not len(means) or not bool(means.isfinite().all()):
                continue
            labels = [[ANY] * size for _ in means]
            if beside:
                shares = _whole(beside[-1])[: len(means)]
                labels = [_labels(row, size) for row in shares]
            likely = torch.stack([prior.means(own).mean(0) for own in labels])
            here = sent[: len(means)]
            cut = view.covers("mean_data")
            scale = clipped(means[here], lies.native(likely)[here]) if cut else 1.0
            lots = []
            for own, mean, there in zip(labels, lies.unit(means / scale), here, strict=True):
                lots.append(Told.of_mean(own, mean, there))
            out.append((m, lots))
        return out

    def _guess(self, view: View, m: Message, x: Tensor) -> Guess:
        rows = torch.arange(len(x))
        tensors = {"x": view.facts.input_range.native(x).to(view.dtype)}
        tensors |= {"mean_data.rows": rows, "mean_data.among": rows}
        return Guess(m.sender, view.round, tensors)


def _whole(m: Message) -> Tensor:
    """Mean one-hot labels (groups, classes), 0 or more, of rows that sum to 1 where all was sent.

    They sum to less where a wrapper clipped the message, all alike.
    """
    shares = m.payload.double().cpu().nan_to_num(posinf=0.0, neginf=0.0).clamp(min=0)
    sums = shares.sum(1)
    return shares / (sums.max() if m.sparse else sums.median()).clamp(min=1e-30)


def _labels(shares: Tensor, size: int) -> list[int]:
    """The classes of ``size`` examples, ascending, of their mean one-hot labels (classes,).

    Where noise makes more of them, without those that are least likely.
    """
    shares = shares.clamp(max=1) * size
    counts = shares.round().long()
    for _ in range(int(counts.sum()) - size):
        over = torch.where(counts > 0, counts - shares, -torch.inf)
        counts[over.argmax()] -= 1
    named = torch.arange(len(counts)).repeat_interleave(counts).tolist()
    return named + [ANY] * (size - len(named))
