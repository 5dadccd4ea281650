"""Spheres: a shown centre lies at a known distance from the true one, in every round anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from pydantic import Field

from attacks._fading import reach
from attacks._proxies import FromProxies, banks
from attacks._spheres import common_point, trust
from leakbench.attacking import Guess, Metric, Outline, View
from leakbench.base import torch
from leakbench.federation import party
from leakbench.metrics import CENTRE_ERROR, P_LEAK, PROTOTYPE_COSINE

if TYPE_CHECKING:
    from torch import Tensor


class ShownSpheres(NamedTuple):
    """What one client showed, oldest first."""

    centres: list[Tensor]  # each (dim,)
    margins: list[Tensor]  # each ()

    def add(self, centre: Tensor, margin: Tensor) -> None:
        """One message more."""
        self.centres.append(centre)
        self.margins.append(margin)


class PrototypeSpheres(FromProxies):
    """Solves for the point that lies at the known distance from all centres that a client showed.

    FedMetric shows A at distance s R from the true centre C, and M = (1 + s) R, and s is public: so
    each message says |A - C| = M s / (1 + s). The direction is drawn afresh in every round, so the
    mean of several A points to C; the known distances say where on the way it lies. As many
    messages as dimensions would give C exactly if it stood still. It moves as the model does: older
    messages weigh less, and how far the distances are trusted against the mean is what best
    predicts messages that were left out.
    """

    about: ClassVar[str] = "the centre at the known distance from all that a client showed"
    paper: ClassVar[str] = "adaptive; not in FedMetric"
    metrics: ClassVar[tuple[Metric, ...]] = (P_LEAK, PROTOTYPE_COSINE, CENTRE_ERROR)
    kinds: ClassVar[tuple[str, ...]] = ("prototype", "statistics")
    over: ClassVar[Literal["stages", "all"]] = "all"
    order: ClassVar[int] = 2

    window: int = Field(200, ge=1, description="newest messages of each client that are used")

    def obstacle(self, run: Outline) -> str:
        if why := super().obstacle(run):
            return why
        if not hasattr(run.method, "distance_shown"):
            return "clients do not show at which distance a prototype lies"
        return ""

    def run(self, view: View, rng: torch.Generator) -> list[Guess]:
        far = view.method.distance_shown  # type: ignore[attr-defined]
        sent = self._shown(view)
        shown = {w: torch.stack(held.centres[-self.window :]) for w, held in sent.items()}
        known = {w: far(torch.stack(held.margins[-self.window :])) for w, held in sent.items()}
        if not any(bool(d.any()) for d in known.values()):  # the true centre is what is shown
            return [Guess(w, view.round, _found(centres[-1])) for w, centres in shown.items()]
        half = reach([*shown.values()], cosine=False)
        ridge = trust([*shown.values()], [*known.values()], half)
        found = {w: common_point(shown[w], known[w], half, ridge) for w in shown}
        return [Guess(w, view.round, _found(point)) for w, point in found.items()]

    def blind(self, view: View, rng: torch.Generator) -> list[Guess]:
        guesses = super().blind(view, rng)
        return [Guess(g.unit, g.round, _found(g.tensors["prototype"])) for g in guesses]

    def _shown(self, view: View) -> dict[str, ShownSpheres]:
        """{"client/3": its centres with their margins}, of everybody but the observer."""
        out = self._in_banks(view) if view.observers else self._in_messages(view)
        there = {who: held for who, held in out.items() if party(who) in view.others}
        return {who: held for who, held in there.items() if held.centres}

    def _in_messages(self, view: View) -> dict[str, ShownSpheres]:
        margins = {(m.sender, m.round): m.payload for m in view.messages("statistics")}
        out: dict[str, ShownSpheres] = {}
        for who, proxies in self.sent(view).items():
            held = out.setdefault(who, ShownSpheres([], []))
            for proxy in proxies:
                margin = margins.get((who, proxy.round))
                if margin is not None:
                    held.add(proxy.vector, margin.reshape(()))
        return out

    def _in_banks(self, view: View) -> dict[str, ShownSpheres]:
        margins = {m.round: m.payload for m in view.messages("statistics", sender="server")}
        out: dict[str, ShownSpheres] = {}
        for bank in banks(view):
            if bank.round not in margins:
                continue
            for i, margin in enumerate(margins[bank.round].reshape(-1)):
                held = out.setdefault(f"client/{i}", ShownSpheres([], []))
                old = held.centres and torch.equal(held.centres[-1], bank.vector[i])
                if not old and float(margin) > 0:  # 0 before a client's first upload
                    held.add(bank.vector[i], margin)
        return out


def _found(point: Tensor) -> dict[str, Tensor]:
    return {"prototype": point, "centre": point}
