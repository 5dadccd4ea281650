"""Prototypes from updates: the last layer's step tells what the loss pulled embeddings to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from attacks import _disaggregation, _last_layer, _last_layer_pooled, _output_moves
from attacks._last_layer import LayerStep
from attacks._last_layer_solved import KEY, solved
from leakbench import models
from leakbench.attacking import Attack, Guess, Metric, Outline, ThreatModel, View
from leakbench.base import torch
from leakbench.metrics import P_LEAK, PROTOTYPE_COSINE, RECOVERED, RECOVERY_PRECISION
from leakbench.record import Message

if TYPE_CHECKING:
    from torch import Tensor


FAINT = 1e-3  # an update of less weight is not asked


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

    With ``source`` = "pooled" it listens to every round, where a wrapper covers updates: what a
    client's noised updates add up to, or sums over changing cohorts (``_disaggregation``), is its
    mean step, and is solved as one; nothing of it is accepted. A single update that has the form
    is taken instead, as where nothing is hidden.
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

    says_server: ClassVar[bool] = True
    variants: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"source": "pooled"})

    source: Literal["update", "pooled"] = Field(
        "update", description="what is read: single updates, or all of a client and sums together"
    )

    @property
    def threat(self) -> ThreatModel:
        kinds: tuple[str, ...] = ("update", "model", "prototype", "statistics")
        if self.pools:
            kinds = tuple(dict.fromkeys((*kinds, *_disaggregation.KINDS)))
        return ThreatModel(kinds=kinds, knows=("method", "facts"), rounds="all", rung="method")

    @property
    def pools(self) -> bool:
        return self.source == "pooled"

    def obstacle(self, run: Outline) -> str:
        if not run.method.distance:
            return "its loss compares embeddings with no prototype"
        why = super().obstacle(run)
        if not why and models.last_layer(run.module(), run.facts.shape)[1] is None:
            return "the network does not end in a linear layer"
        return why or (self._unpooled(run) if self.pools else "")

    def _unpooled(self, run: Outline) -> str:
        """Why no prototype is in what updates add up to."""
        if run.method.distance != "cosine":
            return (
                "its loss compares distances, of which an update tells where a prototype is by what"
                " other clients' terms add to it: no such step is a mean of many"
            )
        return _disaggregation.uncovered(run)

    def seconds(self, run: Outline) -> float:
        size = sum(p.numel() for p in run.module().parameters())
        once = 0.3 * len(run.stages) * run.facts.clients * max(size / 50_000, 1)
        return once + (_last_layer_pooled.seconds(run) if self.pools else 0.0)

    def run(self, view: View, rng: torch.Generator) -> list[Guess]:
        if self.pools:
            return self._pooled(view, rng)
        sent: dict[str, list[Message]] = {}
        for m in _last_layer.sent(view):
            sent.setdefault(m.sender, []).append(m)
        return [self._guess(view, client, held, rng) for client, held in sent.items()]

    def blind(self, view: View, rng: torch.Generator) -> list[Guess]:
        def dice() -> Tensor:
            noise = torch.randn(view.facts.dim, generator=rng, dtype=torch.float64)
            return noise.to(view.device)

        clients = dict.fromkeys(m.sender for m in _last_layer.sent(view))
        if self.pools:
            clients = dict.fromkeys(f"client/{c}" for c in _disaggregation.heard(view))
        return [Guess(c, view.round, {KEY: dice()}) for c in clients]

    def _pooled(self, view: View, rng: torch.Generator) -> list[Guess]:
        newest = {m.sender: m for m in _last_layer.sent(view)}
        means = _last_layer_pooled.means(view)
        out = []
        for c in _disaggregation.heard(view):
            client = f"client/{c}"
            m, mean = newest.get(client), means.get(client)
            alone = None if m is None else _last_layer.step(view, m)
            out.append(self._told(view, client, alone, None if mean is None else mean.step, rng))
        return out

    def _told(
        self,
        view: View,
        client: str,
        alone: LayerStep | None,
        pooled: LayerStep | None,
        rng: torch.Generator,
    ) -> Guess:
        """By its newest update ``alone`` where that has the form; else by what all add up to."""
        if alone is not None and bool(alone.moved.any()):
            found = solved(view, alone, rng)
            if found.fits:
                return Guess(client, view.round, {KEY: found.w.to(view.dtype)}, found.sure)
        if pooled is None or not bool(pooled.moved.any()):
            return Guess(client, view.round, failed=_disaggregation.NOTHING)
        return Guess(client, view.round, {KEY: solved(view, pooled, rng).w.to(view.dtype)})

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
            if found.fits or weight < FAINT:
                break
        if weight == 1:
            why = "no update moved the last layer, or none's model was kept"
            return Guess(client, view.round, failed=why)
        doubts = _output_moves.doubts(read, models.last_layer(view.module, view.facts.shape)[0])
        told = {KEY: guess.to(view.dtype)}
        return Guess(client, view.round, told, accepted=sure and not doubts, flags=doubts)
