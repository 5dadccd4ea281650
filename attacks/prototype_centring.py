"""Centring: what all proxies have in common says nothing of whose they are, so it is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from attacks._fading import CLIENTS, faded, reach
from attacks._proxies import FromMeans
from attacks.prototype_averaging import vectors
from leakbench.attacking import Guess, Metric, Outline, View
from leakbench.base import torch
from leakbench.metrics import P_LEAK

if TYPE_CHECKING:
    from torch import Tensor

LEAST = 10.0  # messages over which a mean reaches at least


class PrototypeCentring(FromMeans):
    """Takes the mean of each client's messages, less the mean of all clients'.

    Where prototypes lie close together, every proxy points nearly the same way, and the nearest
    true prototype is the same one for all: a run looks private because it collapsed. The
    deviations from the common direction d are small and still differ. The guess is the deviation
    alone. Scored by cosine against true prototypes of length 1 it names whose own deviation it
    meets: what these have in common adds the same number to each cosine, so candidates that are
    not centred are no other test than candidates that are.
    """

    about: ClassVar[str] = "how a client's messages differ from everybody's"
    paper: ClassVar[str] = "adaptive; not in FedHide"
    metrics: ClassVar[tuple[Metric, ...]] = (P_LEAK,)
    order: ClassVar[int] = 1

    def obstacle(self, run: Outline) -> str:
        if why := super().obstacle(run):
            return why
        if run.method.distance != "cosine":
            return "distances stay what they are when what all have in common is left out"
        return ""

    def run(self, view: View, rng: torch.Generator) -> list[Guess]:
        sent = {who: vectors(held, cosine=True) for who, held in self.sent(view).items()}
        if len(sent) < 2:
            why = "only one client sent a prototype, so there is nothing to compare it with"
            return [Guess(who, view.round, failed=why) for who in sent]
        half = torch.inf
        if not self.window:
            half = max(LEAST, reach(deviations([*sent.values()]), cosine=True))
        means = torch.stack([faded(held[-self.window :], half) for held in sent.values()])
        own = means - means.mean(0)
        return [Guess(w, view.round, {"prototype": d}) for w, d in zip(sent, own, strict=True)]


def deviations(sent: list[Tensor]) -> list[Tensor]:
    """What clients sent, each (n, dim), less the mean of what others sent as many messages ago."""
    some = [s for s in sent if len(s) > 1][:CLIENTS]
    if not some:
        return []
    longest = max(map(len, some))
    total = torch.zeros_like(some[0][:1]).expand(longest, -1).clone()
    count = torch.zeros(longest, 1, dtype=total.dtype, device=total.device)
    for s in some:
        total[longest - len(s) :] += s
        count[longest - len(s) :] += 1
    return [s - (total / count)[longest - len(s) :] for s in some]
