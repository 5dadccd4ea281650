"""Prototypes from updates: the last layer's step tells what the loss pulled embeddings to."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from attacks import _last_layer, _output_moves
from attacks._last_layer_solved import KEY, solved
from leakbench import models
from leakbench.attacking import Attack, Guess, Metric, Outline, ThreatModel, View
from leakbench.base import torch
from leakbench.metrics import P_LEAK, PROTOTYPE_COSINE, RECOVERED, RECOVERY_PRECISION
from leakbench.record import Message

if TYPE_CHECKING:
    from torch import Tensor


class PrototypeFromUpdate(Attack):
    """Solves the last layer's step for the prototype that the loss compares embeddings with.

    From one update of a real batch: no proxy, no auxiliary data. The step tells a plane that the
    prototype lies in, exactly and however many images the batch has (``_last_layer_plane``), and
    the moments of the images' cosines tell where in it (``_last_layer_cosine``). Without a form
    that fits (noise was added, another optimiser) the batch is taken for one image, and the updates
    of earlier rounds are asked, too: each weighs half as much as the next newer one, since a
    prototype moves meanwhile. What the client's own step then did to the prototype is replayed.

    A guess is accepted where the step has the form that the loss gives it; noise has not. Of whom
    the update is, its form does not tell. Images more than 120 degrees away from their prototype
    would be taken for nearer ones.
    """

    about: ClassVar[str] = "the prototype that a client's update was pulled to"
    left_out: ClassVar[str] = "the last layer of their newest update was not kept"
    paper: ClassVar[str] = "adaptive; not in FedHide"
    metrics: ClassVar[tuple[Metric, ...]] = (
        P_LEAK,
        PROTOTYPE_COSINE,
        RECOVERED,
        RECOVERY_PRECISION,
    )

    observer: str = Field(
        "server",
        pattern=r"^(server|client/(0|[1-9]\d{0,8}))$",
        description="who attacks: server, or client/9, which receives no single update",
    )

    @property
    def threat(self) -> ThreatModel:
        return ThreatModel(
            observer=self.observer,
            kinds=("update", "model", "prototype", "statistics"),
            knows=("method", "facts"),
            rounds="all",
            rung="method",
        )

    def obstacle(self, run: Outline) -> str:
        if not run.method.distance:
            return "its loss compares embeddings with no prototype"
        why = super().obstacle(run)
        if not why and models.last_layer(run.module(), run.facts.shape)[1] is None:
            return "the network does not end in a linear layer"
        return why

    def seconds(self, run: Outline) -> float:
        size = sum(p.numel() for p in run.module().parameters())
        return 0.3 * len(run.stages) * run.facts.clients * max(size / 50_000, 1)

    def run(self, view: View, rng: torch.Generator) -> list[Guess]:
        sent: dict[str, list[Message]] = {}
        for m in _last_layer.sent(view):
            sent.setdefault(m.sender, []).append(m)
        return [self._guess(view, client, held, rng) for client, held in sent.items()]

    def blind(self, view: View, rng: torch.Generator) -> list[Guess]:
        def dice() -> Tensor:
            noise = torch.randn(view.facts.dim, generator=rng, dtype=torch.float64)
            return noise.to(view.device)

        clients = dict.fromkeys(m.sender for m in _last_layer.sent(view))
        return [Guess(c, view.round, {KEY: dice()}) for c in clients]

    def _guess(self, view: View, client: str, sent: list[Message], rng: torch.Generator) -> Guess:
        """``sent``: its updates, oldest first."""
        guess, weight, sure = torch.zeros(()), 1.0, False
        read: list[Message] = []
        for m in reversed(sent):
            step = _last_layer.step(view, m)
            if step is None or not bool(step.moved.any()):
                continue
            read.append(m)
            found = solved(view, step, rng)
            guess, sure = guess + weight * found.w, found.sure and weight == 1
            weight /= 2
            if found.fits:
                break
        if weight == 1:
            why = "no update moved the last layer, or none's model was kept"
            return Guess(client, view.round, failed=why)
        doubts = _output_moves.doubts(read, models.last_layer(view.module, view.facts.shape)[0])
        told = {KEY: guess.to(view.dtype)}
        return Guess(client, view.round, told, accepted=sure and not doubts, flags=doubts)
