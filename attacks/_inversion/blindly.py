"""What an inversion is measured against: a guess of the images that reads no update."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

from attacks._inversion import labels as class_labels
from attacks._inversion.victims import prototype
from attacks._updates import Behind
from leakbench.attacking import Replay, View
from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor

ANY_CLASS = -1  # of an image whose label is not known


def guess(view: View, b: Behind, rng: torch.Generator, *, joint: bool) -> dict[str, Tensor]:
    """The mean auxiliary image of each label, ``x``; where labels are not given, of all.

    Beside it as many auxiliary images (``sample``), for what is matched; of an attack that infers
    labels the likeliest ones; where it solves for a prototype (``joint``) a random direction.
    """
    aux = view.know("aux_data")

    def of(y: int) -> Tensor:
        own: Tensor = aux.x[aux.y == y]
        return own if len(own) else aux.x

    y = torch.full((b.examples,), ANY_CLASS) if b.labels is None else b.labels
    of_label = {c: of(c) for c in set(y.tolist())}
    found = {"x": torch.stack([of_label[c].mean(0) for c in y.tolist()])}
    if len(y) > 1:
        found["sample"] = _some(of_label, y, rng)
    if joint:
        unknown = Replay(view, b.message, rng, rows=b.rows, phase=b.loss).unknown
        for k, v in prototype(unknown).items():
            found[k] = torch.randn(v.shape, generator=rng).to(v)
    guessed = class_labels.blind(view, b, rng) if b.labels is None else None
    return found if guessed is None else {**found, "labels": guessed}


def _some(of_label: dict[int, Tensor], labels: Tensor, rng: torch.Generator) -> Tensor:
    """An example of each of ``labels``, (B, ...).

    Of one label another each time, as long as there are others.
    """
    turns = {}
    for y, have in sorted(of_label.items()):
        order = torch.randperm(len(have), generator=rng).tolist()
        turns[y] = cycle(order)
    return torch.stack([of_label[y][next(turns[y])] for y in labels.tolist()])
