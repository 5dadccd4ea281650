"""Was this person's data trained on at all? By the models that all receive, of all rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from attacks import _shadow_federations as shadow
from attacks._candidates import clients_of, far_off
from attacks._membership_signals import beyond_usual
from leakbench.attacking import Attack, Guess, Metric, Outline, ThreatModel, View
from leakbench.base import torch
from leakbench.federation import Examples
from leakbench.metrics import USER_AUC
from leakbench.record import Message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

AUXILIARY = 1000  # examples, at most
SECONDS = 1e-4  # of an example, a model
ALIKE = "no model says anything finite of its examples"


class UserMembership(Attack):
    """Adds up how much likelier the models of all rounds find a person's examples than before.

    Who attacks has examples of people, half of whom are clients (the task's ``absent``: the others
    were dealt data as these were, and never trained), and auxiliary data. Of each example is read
    how much likelier its class is by a later model than by the first, less what is usual of
    auxiliary examples of the class; a person's score is the mean over its examples and models.
    After the loss-across-rounds attack of Suri, Kanani, Marathe and Peterson (2022, "Subject
    Membership Inference Attacks in Federated Learning"), in which losses of the rounds are
    compared with a threshold; here people are ranked.

    It needs the models alone, so whoever receives them can make it, and it does not matter whether
    updates are summed. Models that the server sends to each client apart are averaged. Where a
    network ends in an embedding, cosines to the means of auxiliary examples, which are kept apart,
    stand for logits (ours).

    Floor: how far a person's examples are from the nearest auxiliary ones of their classes.
    """

    about: ClassVar[str] = "whether a person took part at all, by the models of all rounds"
    paper: ClassVar[str] = "after Suri et al. (2022)"
    metrics: ClassVar[tuple[Metric, ...]] = (USER_AUC,)
    over: ClassVar[Literal["stages", "all"]] = "all"

    rounds: int = Field(
        50, ge=1, description="models that are held against the first, at most, evenly over the run"
    )

    @property
    def threat(self) -> ThreatModel:
        knows = ("aux_data", "users", "method", "facts")
        return ThreatModel(kinds=("model",), rounds="all", knows=knows, rung="public")

    def attacks(self, run: Outline) -> tuple[str, ...]:
        return ()

    def obstacle(self, run: Outline) -> str:
        if why := super().obstacle(run):
            return why
        if not run.holds("users"):
            return (
                "nobody was dealt data and stayed away, of whom it could be asked: train with"
                " -s task.absent=10"
            )
        return shadow.silent(run)

    def nothing_kept(self, run: Outline) -> str:
        return "no models that the server sent in two rounds were kept"

    def seconds(self, run: Outline) -> float:
        return 2 + min(self.rounds, run.rounds) * SECONDS * (AUXILIARY + 50 * run.facts.clients)

    def run(self, view: View, rng: torch.Generator) -> list[Guess]:
        users, pool = view.know("users"), _pool(view, rng)
        models = self._models(view)
        if len(models) < 2:
            return []
        y, known = (pool.examples.y[rows].cpu() for rows in _parts(pool))
        before = shadow.said(view, pool, models[0])
        told = torch.zeros(pool.asked, dtype=torch.float64)
        for i, weights in enumerate(models[1:]):
            view.progress(i / len(models))
            rose = shadow.said(view, pool, weights) - before
            if bool(rose.isfinite().all()):
                told += beyond_usual(rose, y, known)
        return _of_each(view, users, told)

    def _models(self, view: View) -> list[dict[str, Tensor]]:
        """The first that was received, and some of the later ones, the newest among them."""
        sent: dict[tuple[int, int], list[Message]] = {}
        for m in view.messages("model", sender="server"):
            sent.setdefault((m.round, m.phase), []).append(m)
        times = sorted(sent)
        first, later = times[:1], times[1:]
        step = max(1.0, len(later) / self.rounds)
        chosen = range(min(self.rounds, len(later)))
        newest = [later[-1 - int(i * step)] for i in chosen]
        return [_mean(sent[t]) for t in [*first, *newest[::-1]]]

    def blind(self, view: View, rng: torch.Generator) -> list[Guess]:
        users = view.know("users")
        return _of_each(view, users, far_off(users, view.know("aux_data")))


def _mean(sent: Sequence[Message]) -> dict[str, Tensor]:
    """Of models that were sent to each receiver apart the mean; one that all received, as it is."""
    first: dict[str, Tensor] = dict(sent[0].payload)
    if len(sent) == 1:
        return first
    out = {}
    for name, v in first.items():
        out[name] = torch.stack([m.payload[name] for m in sent]).double().mean(0).to(v)
    return out


def _pool(view: View, rng: torch.Generator) -> shadow.Pool:
    """People's examples, then auxiliary ones."""
    users, aux = view.know("users"), view.know("aux_data")
    order = torch.randperm(len(aux), generator=rng)
    apart = order[: len(order) // 2 if view.method.outputs == "embedding" else 0]
    some = aux.some(order[len(apart) :][:AUXILIARY].to(aux.y.device))
    x = torch.cat([users.x, some.x])
    both = Examples(x, torch.cat([users.y, some.y]), x.dtype)
    nobody = torch.full((len(some),), -1)
    client = torch.cat([clients_of(users).cpu(), nobody])
    return shadow.Pool(both, client, len(users), aux.some(apart.to(aux.y.device)))


def _parts(pool: shadow.Pool) -> tuple[slice, slice]:
    return slice(None, pool.asked), slice(pool.asked, None)


def _of_each(view: View, users: Examples, told: Tensor) -> list[Guess]:
    """A guess of each person: the mean over its examples, of whom (n,) says."""
    whose = clients_of(users).cpu()
    out = []
    for k in sorted({*whose.tolist()}):
        score = told[whose == k].mean()
        sound = bool(score.isfinite()) and bool(told.any())
        found = {"user": score} if sound else {}
        out.append(Guess(f"user/{k}", view.round, found, failed="" if found else ALIKE))
    return out
