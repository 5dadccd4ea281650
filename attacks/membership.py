"""Membership inference: was a client trained on this example? By its updates of all rounds."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from attacks import _membership_signals as signals
from attacks._candidate_gradients import heard, turned
from attacks._candidates import by_inputs, unasked
from leakbench.attacking import Attack, Guess, Metric, Outline, ThreatModel, View
from leakbench.base import torch
from leakbench.metrics import MEMBERSHIP_AUC, MEMBERSHIP_TPR, MEMBERSHIP_TPR_LOW

if TYPE_CHECKING:
    from torch import Tensor

SIGNALS: dict[str, signals.Signal] = {
    "cosine": signals.cosine,
    "loss": signals.loss,
    "span": signals.span,
    "likelihood": signals.likelihood,
}
MANY = 1000  # updates of a client: who reads fewer has not heard all that it sent
ALIKE = "its updates say the same of every candidate"
# Seconds of a gradient: of any, and of each weight. Of about so many examples.
SECONDS, OF_A_WEIGHT, EXAMPLES = 4e-4, 5e-8, 200


class Membership(Attack):
    """Four ways to tell members from others by a client's updates, added up over rounds.

    Who attacks is given candidates of each client: half of them it trained on, half it never saw,
    alike in class (``leakbench.record.candidates``); and auxiliary data, which show what is usual
    of an example that nobody trains on. Each kept update of each round says of each candidate of
    its sender how much it speaks for it; over rounds that is added up, for ``span`` the round
    counts that says most. A candidate's score is ranked among those of the same client.

    "cosine": the cosine of the candidate's gradient, at the model of the round, and the update: the
    signal of Li et al. (ICLR 2023) and of FedMIA (Zhu et al. 2024), and what papers report.
    Of a sum of many gradients that is little.

    "loss": how much further the client's own training took the candidate's loss down than that of
    the others of the round, who began at the same model (FedMIA's out-world).

    "span": whether what a linear layer reads of the candidate lies in the row space of that layer's
    update (ours; after the observation that such an update is a sum of outer products, Geiping et
    al. 2020). It is exact where a step has fewer examples than the layer inputs and outputs.

    "likelihood": the update as a sum of gradients whose coefficients are sought together, for all
    candidates and auxiliary examples, and how much likelier each is that of a member (ours): a
    whitened cosine, of which what other examples explain is taken off.

    Gradients are those of the method's own loss on the example alone, in evaluation mode; private
    inputs are what the method's start makes of a client that has the candidates. A loss that
    compares the examples of a batch is another one there.

    Where a wrapper turned the sign of updates, which then go up where their candidates' loss goes
    down, they are turned back.

    Of updates that are summed before the server has them, and of those of which a client that
    attacks reads the mean off two models (Melis et al., S&P 2019), it is asked whether a candidate
    is in anybody's data: all candidates are held against the sum alike, and whose each is said to
    be only parts them into units.

    Floor: how far the candidate is from the nearest auxiliary example of its class, which is no
    message at all. Where that, or any classifier of the inputs, parts the candidates, the question
    is refused (``leakbench.metrics.membership``).
    """

    about: ClassVar[str] = (
        "whether a client was trained on an example, from what its updates of all rounds say of it"
    )
    paper: ClassVar[str] = "after Li et al. (ICLR 2023) and FedMIA (Zhu et al. 2024)"
    metrics: ClassVar[tuple[Metric, ...]] = (MEMBERSHIP_AUC, MEMBERSHIP_TPR, MEMBERSHIP_TPR_LOW)
    over: ClassVar[Literal["stages", "all"]] = "all"
    left_out: ClassVar[str] = "no whole update of theirs was kept"
    variants: ClassVar[tuple[dict[str, Any], ...]] = tuple({"signal": name} for name in SIGNALS)

    signal: Literal["cosine", "loss", "span", "likelihood"] = Field(
        "likelihood",
        description=(
            "what speaks for a candidate: its gradient's cosine with the update, how its loss fell,"
            " whether a layer's update spans what it reads, or the likelihood of the update"
        ),
    )

    updates: int = Field(
        MANY, ge=1, description="of each client that are read, at most, evenly over the rounds"
    )

    @property
    def threat(self) -> ThreatModel:
        kinds: tuple[str, ...] = (
            *("update", "model", "prototype", "statistics", "features", "labels", "mean_data"),
            *("data", "generator", "identifier", "variate", "sum"),
        )
        return ThreatModel(
            kinds=kinds,
            rounds="all",
            knows=("aux_data", "candidates", "method", "facts"),
            rung="paper" if self.signal == "cosine" else "public",
        )

    @property
    def pools(self) -> bool:
        return self.updates >= MANY

    def obstacle(self, run: Outline) -> str:
        return super().obstacle(run) or unasked(run)

    def seconds(self, run: Outline) -> float:
        return 1 + self.updates * self._of_an_update(run)

    def within(self, run: Outline, seconds: float) -> dict[str, Any]:
        fewer = int((seconds - 1) / self._of_an_update(run))
        return {"updates": fewer} if 1 <= fewer < self.updates else {}

    def _of_an_update(self, run: Outline) -> float:
        """Of each client, predicted, of as many as were kept."""
        weights = sum(p.numel() for p in run.module().parameters())
        # A sum is held against the candidates of all clients.
        kept = run.updates / max(run.facts.clients, 1) + len(run.traffic("sum"))
        clients = run.facts.clients * min(1.0, kept / self.updates)
        return clients * EXAMPLES * (SECONDS + weights * OF_A_WEIGHT)

    def run(self, view: View, rng: torch.Generator) -> list[Guess]:
        told: dict[int, list[Tensor]] = {}
        updates, other_way = heard(view, rng, self.updates), turned(view)
        for (t, _), of_round in groupby(updates, key=lambda h: (h.message.round, h.message.phase)):
            view.progress(t / max(view.last, 1))
            together = [h.back() if other_way else h for h in of_round]
            for h, values in zip(together, SIGNALS[self.signal](together), strict=True):
                for client in sorted({*h.clients.tolist()}):
                    told.setdefault(client, []).append(values[h.clients == client])
        out = []
        for client, rounds in told.items():
            each = torch.stack(rounds)
            score = each.max(0).values if self.signal == "span" else each.sum(0)
            found = {"membership": score} if float(score.std()) > 0 else {}
            out.append(Guess(f"client/{client}", view.round, found, failed="" if found else ALIKE))
        return out

    def blind(self, view: View, rng: torch.Generator) -> list[Guess]:
        return by_inputs(view)
