"""Prototypes from updates: the last layer's step tells what the loss pulled embeddings to."""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from attacks import _last_layer, _last_layer_cosine, _last_layer_plane
from attacks._last_layer import Step
from leakbench.attacking import Attack, Guess, Metric, Outline, Replay, ThreatModel, View
from leakbench.federation import trainings
from leakbench.metrics import P_LEAK, PROTOTYPE_COSINE

KEY = "prototype"  # what methods call it among their private tensors
FORM = 0.02  # a step that is off by less has the form that the loss gives it


class PrototypeFromUpdate(Attack):
    """Solves the last layer's step for the prototype that the loss compares embeddings with.

    From one update of a real batch: no proxy, no auxiliary data. The step tells a plane that the
    prototype lies in, exactly and however many images the batch has (``_last_layer_plane``), and
    the moments of the images' cosines tell where in it (``_last_layer_cosine``). Without a form
    that fits (noise was added, many local steps, another optimiser) the batch is taken for one
    image. What the client's own step then did to the prototype is replayed.

    A guess is accepted where the step has the form that the loss gives it; noise has not. An image
    and its prototype more than 120 degrees apart would be taken for nearer ones.
    """

    about: ClassVar[str] = "the prototype that a client's update was pulled to"
    paper: ClassVar[str] = "adaptive; not in FedHide"
    metrics: ClassVar[tuple[Metric, ...]] = (P_LEAK, PROTOTYPE_COSINE)

    observer: str = Field(
        "server",
        pattern=r"^(server|client/\d+)$",
        description="who attacks; a client receives no single updates",
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
        if self.observer != "server":
            return "clients receive no other client's update"
        why = super().obstacle(run)
        if not why and _last_layer.last(run.module())[1] is None:
            return "the network does not end in a linear layer"
        return why

    def run(self, view: View, rng: torch.Generator) -> list[Guess]:
        found = {
            s.message.sender: (s, *solved(view, s, rng)) for s in _last_layer.steps(view, view.round)
        }
        doubted = {c for c, (_, w, sure) in found.items() if w is not None and not sure}
        older = self._older(view, doubted, rng)
        out = []
        for client, (_, w, sure) in found.items():
            if w is None:
                out.append(Guess(client, view.round, failed="the last layer did not move"))
                continue
            for weight, before in older.get(client, ()):
                w = w + weight * before
            out.append(Guess(client, view.round, {KEY: w.to(view.dtype)}, accepted=sure))
        return out

    def _older(
        self, view: View, clients: set[str], rng: torch.Generator
    ) -> dict[str, list[tuple[float, Tensor]]]:
        """What the updates of earlier rounds say of ``clients``, with what it weighs.

        Half for each round whose update is newer: a prototype moves meanwhile.
        """
        out: dict[str, list[tuple[float, Tensor]]] = {}
        rounds = {m.round for m in view.messages("update") if m.sender in clients}
        for t in sorted(rounds - {view.round}, reverse=True):
            for step in _last_layer.steps(view, t):
                client = step.message.sender
                w = solved(view, step, rng)[0] if client in clients else None
                if w is not None:
                    seen = out.setdefault(client, [])
                    seen.append((0.5 ** (len(seen) + 1), w))
        return out

    def blind(self, view: View, rng: torch.Generator) -> list[Guess]:
        def dice() -> Tensor:
            noise = torch.randn(view.facts.dim, generator=rng, dtype=torch.float64)
            return noise.to(view.device)

        found = _last_layer.steps(view, view.round)
        return [Guess(s.message.sender, view.round, {KEY: dice()}) for s in found]


def solved(view: View, step: Step, rng: torch.Generator) -> tuple[Tensor | None, bool]:
    """The prototype (dim,) after a step, and whether the step has the form of the loss."""
    if not bool(step.moved.any()):
        return None, False
    m = step.message
    names = [e.name for e in trainings(view.loss_method(), m.round, last=view.last)]
    replay = Replay(view, m, rng, phase=names[0], dtype=torch.float64)
    key = next(k for k in replay.unknown if k.rpartition("/")[2] == KEY)

    def pull(c: Tensor) -> Tensor:
        """How strongly the loss pulls an embedding of length 1 at cosines ``c`` to w, (k,)."""
        near = c.clamp(-1 + 1e-6, 1 - 1e-6)
        axes = torch.eye(2, view.facts.dim, dtype=torch.float64, device=c.device)
        f = near[:, None] * axes[0] + (1 - near**2).sqrt()[:, None] * axes[1]
        return _last_layer.pull(replay, key, axes[0], f) @ axes[0] / (1 - near**2)

    rank = _last_layer_plane.images(step.moved)
    most = min(len(step.start), step.start.shape[1]) - 2
    fine = 0 < rank <= most
    used = min(rank, 1) if not fine else rank
    plane = _last_layer_plane.plane(step, _last_layer_plane.inputs(step, used))
    t = _last_layer_cosine.of_many(plane, step.rate, pull) if plane.rank > 1 else None
    if t is None:
        t = _last_layer_cosine.of_one(plane, step.rate, pull)
    sure = fine and t is not None and plane.misfit < FORM
    t = t or 0.0
    w = (1 - t * t) ** 0.5 * plane.across + t * plane.along
    return _moved(replay, key, w, plane.along, view), sure


def _moved(replay: Replay, key: str, w: Tensor, outputs: Tensor, view: View) -> Tensor:
    """The prototype after the client's own steps on it, where it makes any.

    ``outputs`` (dim,) stands for its embeddings; the length that it is kept at is that of a start.
    """
    method, t = view.loss_method(), replay.message.round
    if not key.startswith("own/") or method.optimizer != "sgd":
        return w
    made = [e for e in trainings(method, t, last=view.last) if e.phase == replay.message.phase]
    own = replay.unknown[key].norm() * w
    for _ in range(made[0].steps):
        own = own - method.own_lr * method.schedule(t) * _last_layer.slope(replay, key, own, outputs)
    return own / own.norm()
