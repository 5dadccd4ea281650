"""P_leak (FedHide, Eq. 17): whose true prototype does a client's newest message resemble most?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from attacks._proxies import proxies
from leakbench.attacking import Attack, Guess, Metric, Outline, ThreatModel, View
from leakbench.base import torch
from leakbench.federation import Net
from leakbench.metrics import P_LEAK, P_LEAK_PUBLIC, PROTOTYPE_COSINE, likeness
from leakbench.record import Message

if TYPE_CHECKING:
    from torch import Tensor


class PrototypeLeakage(Attack):
    """Takes each client's newest message for its prototype.

    ``candidates`` = "true": as the paper measures it, scored against every client's true prototype;
    the attack itself only reads the messages, the candidates belong to scoring. "public": no
    oracle; the attacker makes the candidates itself, the mean embedding of each class of auxiliary
    data through the global model, and names the client of the nearest one.
    """

    about: ClassVar[str] = "whose prototype does a client's message resemble most?"
    paper: ClassVar[str] = "Park and Yun, ECCV 2024, Eq. 17"
    metrics: ClassVar[tuple[Metric, ...]] = (P_LEAK, P_LEAK_PUBLIC, PROTOTYPE_COSINE)
    curve: ClassVar[bool] = True
    handed: ClassVar[Literal["", "rows", "banks"]] = "banks"
    variants: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"candidates": "public"})

    candidates: Literal["true", "public"] = Field(
        "true", description="true prototypes (at scoring), or made from auxiliary data"
    )

    @property
    def threat(self) -> ThreatModel:
        if self.candidates == "true":
            return ThreatModel(kinds=("prototype",), rounds="last", rung="paper")
        return ThreatModel(
            kinds=("prototype", "model"),
            rounds="last",
            knows=("aux_data", "facts", "method"),
            rung="public",
        )

    def obstacle(self, run: Outline) -> str:
        why = super().obstacle(run)
        if why or self.candidates == "true":
            return why
        if run.facts.clients != run.facts.classes:
            return "clients do not stand for one class each"
        if run.shown < run.facts.classes:
            return "the auxiliary data do not show every client's class"
        return ""

    def run(self, view: View, rng: torch.Generator) -> list[Guess]:
        if self.candidates == "true":
            return [Guess(who, view.round, {"prototype": v}) for who, v in self._sent(view).items()]
        models = view.messages("model", sender="server")
        if not models:  # no global model was recorded up to this round
            return []
        found, out = self._candidates(view, models[-1]), []
        for who, vector in self._sent(view).items():
            alike = likeness(vector, found, view.method.distance)
            out.append(Guess(who, view.round, {"likeness": alike}))
        return out

    def blind(self, view: View, rng: torch.Generator) -> list[Guess]:
        key = "prototype" if self.candidates == "true" else "likeness"

        def guess(vector: Tensor) -> Tensor:
            size = vector.numel() if self.candidates == "true" else view.facts.clients
            return torch.randn(size, generator=rng, dtype=torch.float64).to(view.device, view.dtype)

        sent = self._sent(view)
        return [Guess(who, view.round, {key: guess(vector)}) for who, vector in sent.items()]

    def _sent(self, view: View) -> dict[str, Tensor]:
        """The newest prototype of each client, as it was sent or stands in the newest bank."""
        return {who: held[-1].vector for who, held in proxies(view).items()}

    def _candidates(self, view: View, model: Message) -> Tensor:
        """(classes, dim): the class means of the auxiliary embeddings."""
        aux, net = view.know("aux_data"), Net(view.module, model.payload)
        with torch.no_grad():
            f = net(aux.x)
        if view.method.distance == "cosine":
            f = torch.nn.functional.normalize(f, dim=-1)
        return torch.stack([f[aux.y == c].mean(0) for c in range(view.facts.classes)])
