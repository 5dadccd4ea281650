"""Averaging: noise that a method draws afresh each round cancels over the rounds.

What stays points to the prototype.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

from attacks._fading import faded, reach
from attacks._proxies import FromMeans, Proxy
from leakbench import Guess, Metric, View
from leakbench.base import torch
from leakbench.metrics import CENTRE_ERROR, P_LEAK, PROTOTYPE_COSINE

if TYPE_CHECKING:
    from torch import Tensor


class PrototypeAveraging(FromMeans):
    """Takes a mean of each client's messages, each of length 1 where cosines are compared.

    FedGN and FedCS draw afresh in every round (FedHide, Eq. 5 and 6), so an attacker who keeps what
    it received does better than the paper's own, who looks at one message. A prototype still moves
    while it is trained: a mean that reaches back too far averages over that, too. How far is told
    by how well the older messages predict the newer ones; an older message weighs less. Where the
    newest alone predicts best nothing is drawn afresh. What is mixed in, as FedHide's neighbours,
    then changes slowly and cancels over the whole run, if at all: all messages count alike.
    """

    about: ClassVar[str] = "the mean of what a client sent over several rounds"
    paper: ClassVar[str] = "adaptive; not in FedHide"
    metrics: ClassVar[tuple[Metric, ...]] = (P_LEAK, PROTOTYPE_COSINE, CENTRE_ERROR)
    # The second is what stood here alone before: never a weaker attacker than that.
    variants: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"window": 20})

    def run(self, view: View, rng: torch.Generator) -> list[Guess]:
        cosine = view.method.distance == "cosine"
        sent = {who: vectors(held, cosine=cosine) for who, held in self.sent(view).items()}
        half = math.inf
        if not self.window:
            half = reach([*sent.values()], cosine=cosine)
            if half <= 1 and view.method.hides():
                half = math.inf
        found = {who: faded(held[-self.window :], half) for who, held in sent.items()}
        return [Guess(who, view.round, named(view, mean)) for who, mean in found.items()]

    def blind(self, view: View, rng: torch.Generator) -> list[Guess]:
        dice = super().blind(view, rng)
        return [Guess(g.unit, g.round, named(view, g.tensors["prototype"])) for g in dice]


def vectors(sent: list[Proxy], *, cosine: bool) -> Tensor:
    """(n, dim): what one client sent, oldest first, at length 1 where cosines are compared."""
    held = torch.stack([p.vector for p in sent])
    return torch.nn.functional.normalize(held, dim=-1) if cosine else held


def named(view: View, found: Tensor) -> dict[str, Tensor]:
    """A guess's tensors: where points are compared by distance, a centre, too."""
    told = {"prototype": found}
    return {**told, "centre": found} if view.method.distance == "euclidean" else told
