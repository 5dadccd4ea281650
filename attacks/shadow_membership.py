"""Membership inference by a trained model, held against models of which the training is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from attacks import _shadow_federations as shadow
from attacks._candidates import by_inputs, unasked
from leakbench.attacking import Attack, Guess, Metric, Outline, ThreatModel, View
from leakbench.base import torch
from leakbench.federation import moved, trainings
from leakbench.metrics import MEMBERSHIP_AUC, MEMBERSHIP_TPR, MEMBERSHIP_TPR_LOW

if TYPE_CHECKING:
    from torch import Tensor

# Seconds of a local step besides its operations, how many times those of a pass it makes, and how
# many of these two cores make in a second.
STEP, PASSES, SPEED = 0.0015, 6, 2e10
FEWEST = 4  # shadows: two with an example, two without it
AUXILIARY = 20  # examples, at least; half of them may be candidates
ALIKE = "the model says the same of every candidate, or nothing finite"


class ShadowMembership(Attack):
    """Trains shadow federations, each on half of what may have been trained on, and compares.

    Who attacks is given candidates of each client (``leakbench.record.candidates``) and auxiliary
    data. A shadow is trained as the attacked federation was, from its first round to its last, with
    the same method, wrappers and number of clients, on other dice; each example is in the training
    data of half of the shadows, auxiliary ones at a client where their class is at home. Of each
    candidate is read which share p of its prediction the attacked model gives to its class, and
    what the shadows give to it that had it, and that did not. All variants are of the same shadows.

    "lira": the likelihood-ratio attack, online (Carlini et al. 2022, Algorithm 1, Equation 4), of
    log p / (1 - p), with one variance of all examples, as there for few shadows (Section VI-B).

    "rmia": Zarifzadeh et al. (2024, Equation 5, online): how many of the auxiliary examples z there
    are of which p(x) / mean of the shadows' p(x) is more than ``gamma`` times the same of z. That
    is 1, as in its authors' code; with the paper's 2 fewer are told from each other (ties).

    ``model``: "global", the newest that the server sent to all, or each "client"'s own, after the
    training whose update is the newest that was kept; in a shadow, after its newest.

    Different from the papers: no query is made of an example that is changed (mirrored, moved);
    p is of a softmax; a shadow has at most as many examples as there are candidates and auxiliary
    ones, by half, so less than the attacked federation; where a network ends in an embedding,
    cosines to the means of auxiliary examples, which are kept apart, stand for logits (ours).

    Floor: how far the candidate is from the nearest auxiliary example of its class. Control: what
    clients would have sent undefended; the model that they received stays what it was.
    """

    about: ClassVar[str] = (
        "whether a client was trained on an example, by what the trained model says of it and what"
        " models say that were trained for comparison"
    )
    paper: ClassVar[str] = "Carlini et al. (S&P 2022); Zarifzadeh et al. (ICML 2024)"
    metrics: ClassVar[tuple[Metric, ...]] = (MEMBERSHIP_AUC, MEMBERSHIP_TPR, MEMBERSHIP_TPR_LOW)
    over: ClassVar[Literal["stages", "all"]] = "all"
    variants: ClassVar[tuple[dict[str, Any], ...]] = (
        {"test": "lira"},
        {"test": "rmia"},
        {"test": "lira", "model": "client"},
        {"test": "rmia", "model": "client"},
    )

    test: Literal["lira", "rmia"] = Field(
        "lira", description="how the model is held against the shadows'"
    )
    model: Literal["global", "client"] = Field(
        "global", description="the model that all received, or each client's own after training"
    )
    shadows: int = Field(16, ge=FEWEST, multiple_of=2, description="federations that are trained")
    gamma: float = Field(1.0, ge=1, description="of rmia, how much likelier than of others")

    @property
    def threat(self) -> ThreatModel:
        kinds = ("model",) if self.model == "global" else ("update", "model")
        knows = ("aux_data", "candidates", "method", "facts")
        return ThreatModel(kinds=kinds, rounds="all", knows=knows, rung="public")

    def attacks(self, run: Outline) -> tuple[str, ...]:
        return ("update",) if self.model == "client" else ()

    def obstacle(self, run: Outline) -> str:
        why = super().obstacle(run) or unasked(run) or shadow.silent(run)
        if why:
            return why
        if ("model", "client/*") not in {(line["kind"], line["receiver"]) for line in run.sent}:
            return "the server sends no model to all"
        if not run.trainable:
            return "nobody said how the whole federation trained, so no other one can be"
        if self.model == "client" and run.method.tells:
            return "what clients send bends their updates, which are not how their models moved"
        if run.auxiliary < AUXILIARY:
            return f"{run.auxiliary} auxiliary examples are too few to train others on: {AUXILIARY}"
        return ""

    def nothing_kept(self, run: Outline) -> str:
        return "no model that the server sent to all was kept"

    def seconds(self, run: Outline) -> float:
        return 5 + self.shadows * self._of_a_shadow(run)

    def within(self, run: Outline, seconds: float) -> dict[str, Any]:
        fewer = int((seconds - 5) / self._of_a_shadow(run)) // 2 * 2
        return {"shadows": fewer} if FEWEST <= fewer < self.shadows else {}

    def _of_a_shadow(self, run: Outline) -> float:
        from torch.utils.flop_counter import FlopCounterMode

        with FlopCounterMode(display=False) as counter, torch.no_grad():
            run.module()(run.blank())
        method = run.method
        steps = float(method.local_steps(torch.tensor(max(1, run.auxiliary // run.facts.clients))))
        steps *= max(len(trainings(method, 1)), 1) * run.facts.clients * method.fraction
        work = PASSES * method.batch * counter.get_total_flops() / SPEED
        return run.rounds * steps * (STEP + work)

    def run(self, view: View, rng: torch.Generator) -> list[Guess]:
        own = self.model == "client"
        pool = shadow.pool(view, rng)
        attacked = self._attacked(view)
        if not attacked:
            return []
        shadows = shadow.train(view, pool, self.shadows, rng)
        told = {c: shadow.said(view, pool, m) for c, m in attacked.items()}
        score = lira if self.test == "lira" else self._rmia
        out, asked = [], pool.client[: pool.asked]
        for c in sorted({*asked.tolist()} & told.keys() if own else {*asked.tolist()}):
            place = 1 + c if own else 0
            mine = score(told[c if own else -1], shadows, place, pool.asked)[asked == c]
            found = {"membership": mine} if bool(mine.isfinite().all()) else {}
            failed = "" if found and (len(mine) < 2 or float(mine.std()) > 0) else ALIKE
            out.append(Guess(f"client/{c}", view.round, {} if failed else found, failed=failed))
        return out

    def _attacked(self, view: View) -> dict[int, dict[str, Tensor]]:
        """{client: its model}; of -1 that of all."""
        sent = [m for m in view.messages("model") if m.sender == "server"]
        if self.model == "global":
            to_all = [m for m in sent if m.receiver == "client/*"]
            return {-1: dict(to_all[-1].payload)} if to_all else {}
        out = {}
        for m in view.messages("update", probe=False):
            before = [e for e in sent if e.round == m.round and e.phase < m.phase]
            before = [e for e in before if e.receiver in ("client/*", m.sender)]
            if before:
                client = int(m.sender.removeprefix("client/"))
                out[client] = moved(before[-1].payload, m.payload)
        return out

    def _rmia(self, told: Tensor, shadows: shadow.Shadows, place: int, asked: int) -> Tensor:
        """(asked,): the share of the others that are so much less likely than in general."""
        usual = shadows.says[:, place].exp().mean(0).clamp(min=1e-300).log()
        ratio = told - usual
        more = ratio[:asked, None] - ratio[None, asked:]
        return (more > torch.tensor(self.gamma).log()).double().mean(1)

    def blind(self, view: View, rng: torch.Generator) -> list[Guess]:
        return by_inputs(view)


def lira(told: Tensor, shadows: shadow.Shadows, place: int, asked: int) -> Tensor:
    """(asked,): log of how much likelier what the model says is of a member than of another."""
    says, held = _logit(shadows.says[:, place, :asked]), shadows.held[:, :asked]
    odds = torch.zeros(asked, dtype=torch.float64)
    for mine, sign in ((held, 1.0), (~held, -1.0)):
        middle = (says * mine).sum(0) / mine.sum(0).clamp(min=1)
        left = torch.where(mine, says - middle, 0.0).square().sum() / mine.sum().clamp(min=1)
        left = left.clamp(min=1e-12)
        odds += sign * (-(_logit(told[:asked]) - middle).square() / left - left.log()) / 2
    return odds


def _logit(log: Tensor) -> Tensor:
    """Log p / (1 - p) of log p."""
    return log - (-torch.expm1(log.clamp(max=-1e-15))).log()
