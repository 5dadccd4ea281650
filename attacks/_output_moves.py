"""Which classes an update trained: those whose output moved, where those of others stood still."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from leakbench import models
from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor

APART = 30.0  # times: so much more than the next must the outputs of a client's classes move


def reads_classes(layer: torch.nn.Linear | None, classes: int) -> bool:
    """Has a last layer an output for each class, or one, the logit of the second of two?"""
    single = layer is not None and (layer.out_features, classes) == (1, 2)
    return single or (layer is not None and layer.out_features == classes)


def of_classes(t: Tensor) -> Tensor:
    """What an update did to the outputs (K, ...), by class.

    Of one output z, the logit of the second of two classes, what it did to (-z, z): its bias rises
    by the share of that class beyond what was predicted, and more of one is less of the other.
    """
    return torch.cat([-t, t]) if len(t) == 1 else t


def moved(update: Mapping[str, Tensor], layer: str, classes: int) -> Tensor:
    """Shares (K,) float64: even over the classes whose output moved, of sum 1.

    0 for all if none did, or not by a number.

    A class's output moves by the norm of what the update changes of its row of the last layer
    ``layer``: weights and bias, as far as they are sent. Sorted, the widest gap between one and the
    next parts those that moved from those that did not, if it is ``APART`` times or more; else all
    classes moved. An output that did not move at all is no client's class.
    """
    rows = [
        v.double().cpu().reshape(classes, -1)
        for v in models.of_layer(layer, update).values()
        if v.ndim and len(v) == classes
    ]
    if not rows:
        return torch.zeros(classes).double()
    length = torch.cat(rows, 1).norm(dim=1)
    if not bool(length.isfinite().all()):
        return torch.zeros(classes).double()
    order = length.sort(descending=True)
    at = order.values[order.values > 0]
    steps = at[:-1] / at[1:]
    if len(steps) and float(steps.max()) >= APART:
        at = at[: int(steps.argmax()) + 1]
    shares = torch.zeros(classes).double()
    shares[order.indices[: len(at)]] = 1 / max(1, len(at))
    return shares
