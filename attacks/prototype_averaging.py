"""Averaging: noise that a method draws afresh each round cancels over the rounds.

What stays points to the prototype.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from leakbench import Attack, Guess, Metric, ThreatModel, View
from leakbench.metrics import P_LEAK, PROTOTYPE_COSINE


class PrototypeAveraging(Attack):
    """Takes the mean of each client's last ``window`` messages.

    Each has length 1 where prototypes are compared by cosine. FedGN and FedCS draw afresh in every
    round (FedHide, Eq. 5 and 6), so an attacker who keeps what it received does better than the
    paper's own, who looks at one message. A prototype still moves while it is trained: a window
    that is too long averages over that, too. FedHide mixes in neighbours, which do not cancel.
    """

    about: ClassVar[str] = "the mean of what a client sent over several rounds"
    paper: ClassVar[str] = "adaptive; not in FedHide"
    metrics: ClassVar[tuple[Metric, ...]] = (P_LEAK, PROTOTYPE_COSINE)
    over: ClassVar[Literal["stages", "all"]] = "all"

    window: int = Field(20, ge=1, description="newest messages of each client that are averaged")

    @property
    def threat(self) -> ThreatModel:
        return ThreatModel(
            kinds=("prototype",), knows=("method", "facts"), rounds="all", rung="method"
        )

    def run(self, view: View, rng: torch.Generator) -> list[Guess]:
        return [
            Guess(sender, view.round, {"prototype": self._mean(view, sent)})
            for sender, sent in self._sent(view).items()
        ]

    def blind(self, view: View, rng: torch.Generator) -> list[Guess]:
        def dice() -> Tensor:
            noise = torch.randn(view.facts.dim, generator=rng, dtype=torch.float64)
            return noise.to(view.device)

        return [Guess(s, view.round, {"prototype": dice()}) for s in self._sent(view)]

    def _sent(self, view: View) -> dict[str, list[Tensor]]:
        """Each client's messages, oldest first."""
        out: dict[str, list[Tensor]] = {}
        for m in view.messages("prototype"):
            if m.sender != "server":
                out.setdefault(m.sender, []).append(m.payload)
        return out

    def _mean(self, view: View, sent: list[Tensor]) -> Tensor:
        newest = torch.stack(sent[-self.window :])
        if view.method.distance == "cosine":
            newest = torch.nn.functional.normalize(newest, dim=-1)
        return newest.mean(0)
