"""One step of the last layer, solved for the prototype behind it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from attacks import _last_layer, _last_layer_plane
from attacks._last_layer import LayerStep
from attacks._last_layer_cosine import of_many, of_one
from attacks._last_layer_fit import centre
from attacks._last_layer_plane import Plane
from leakbench.attacking import Replay, View
from leakbench.base import torch
from leakbench.federation import Training, trainings

if TYPE_CHECKING:
    from torch import Tensor

    from attacks._last_layer_cosine import Pull

KEY = "prototype"  # what methods call it among their private tensors
FORM, LOOSE = 0.01, 0.5  # a step that is off by less has the form of the loss, or nearly so
ROUNDED = 16.0  # or is off by less than so many roundings of what the client multiplied in
SOME, NOISE = 1e-3, 0.02  # so much of it is noise; more, and it hides the form
MIDDLE = 0.7  # of what a clipped step's length says
EDGE = 1e-6  # so near to 1 and -1 are cosines at which the loss is asked for its pull


@dataclass(frozen=True)
class SolvedStep:
    """A prototype (dim,); does the step have the form that the method's loss gives it?"""

    w: Tensor
    fits: bool  # so much of it as tells the plane
    sure: bool  # and as tells where in it


def solved(view: View, step: LayerStep, rng: torch.Generator) -> SolvedStep:
    """The prototype after a step that moved the last layer.

    The loss is replayed in the attacked round, what the server sent before a step being kept there.
    """
    m = step.message
    made = trainings(view.loss_method(), m.round, last=view.last)
    training = next(e for e in made if e.phase == m.phase)
    here = replace(m, round=view.round)
    replay = Replay(view, here, rng, phase=training.name, dtype=torch.float64)
    key = next(k for k in replay.unknown if k.rpartition("/")[2] == KEY)

    def pull(c: Tensor) -> Tensor:
        """How strongly the loss pulls an embedding of length 1 at cosines ``c`` to w, (k,)."""
        near = c.to(replay.device).clamp(-1 + EDGE, 1 - EDGE)
        axes = torch.eye(2, view.facts.dim, dtype=torch.float64, device=near.device)
        f = near[:, None] * axes[0] + (1 - near**2).sqrt()[:, None] * axes[1]
        return (_last_layer.pull(replay, key, axes[0], f) @ axes[0] / (1 - near**2)).to(c.device)

    rank, noise = _last_layer_plane.images(step.moved)
    if view.method.distance == "euclidean":
        w = centre(step, replay, key, rank, rng)
        return SolvedStep(w, fits=rank > 0 and noise < NOISE, sure=False)
    # All of the step's rank: what (W, b) reaches is everything, and nothing is left to solve.
    whole = rank <= min(step.start.shape) - 2
    basis = _last_layer_plane.inputs(step, rank if whole else 1)
    plane = _last_layer_plane.plane(step, basis)
    fits = whole and rank > 0 and noise < NOISE and plane.misfit < LOOSE
    t, sure = _place(plane, step, pull)
    form = max(FORM, ROUNDED * torch.finfo(view.products).eps)
    sure = sure and fits and plane.misfit < form and noise < SOME
    w = (1 - t * t) ** 0.5 * plane.across + t * plane.along
    return SolvedStep(_moved(view, replay, key, w, plane.along, training), fits, sure)


def _place(plane: Plane, step: LayerStep, pull: Pull) -> tuple[float, bool]:
    """Where in its plane the prototype is, and whether the whole step says so."""
    if step.clipped:  # shorter than it was: the prototype is further off than its length says
        one = of_one(plane, step.rate, pull)
        return (MIDDLE if one is None else one * MIDDLE), False
    many = of_many(plane, step.rate, pull) if plane.rank > 1 else None
    if many is not None:
        return many, True
    one = of_one(plane, step.rate, pull)
    return (0.0 if one is None else one), False  # of one image any step has the form


def _moved(
    view: View, replay: Replay, key: str, w: Tensor, outputs: Tensor, training: Training
) -> Tensor:
    """The prototype after the client's own steps on it, where it makes any.

    ``outputs`` (dim,) stands for its embeddings; the length that it is kept at is that of a start.
    """
    method = view.loss_method()
    if not key.startswith("own/") or method.optimizer != "sgd":
        return w
    # The steps of the network saw the prototype that they saw on average: half of its own are over.
    left = (training.steps + 1) / 2
    each = left / math.ceil(left) if left else 0.0
    own, rate = replay.unknown[key].norm() * w, method.own_lr * method.schedule(view.round)
    for _ in range(math.ceil(left)):
        own = own - each * rate * _last_layer.slope(replay, key, own, outputs)
    return own / own.norm()
