"""Which classes an update trained: those whose output moved, where those of others stood still."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from leakbench import models
from leakbench.base import torch
from leakbench.record import Message

if TYPE_CHECKING:
    from torch import Tensor

FEW = 0.5  # of the outputs: of fewer an update tells too little to acquit anybody
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


def both_classes(told: Tensor) -> Tensor:
    """Which of ``of_classes`` were sent, bool, of which outputs (K, ...) were."""
    return torch.cat([told, told]) if len(told) == 1 else told


def doubts(messages: Sequence[Message], layer: str) -> tuple[str, ...]:
    """The flags of a guess that was read off ``layer``: is there more than was sent?

    So it is where of half of the outputs and more no message tells anything.
    """
    told: list[Tensor] = []
    for m in messages if all(m.sparse for m in messages) else ():
        own = models.of_layer(layer, m.told()).values()
        told += [t.flatten(1).any(1) if t.dim() > 1 else t for t in own]
    few = bool(told) and float(torch.stack(told).any(0).double().mean()) < FEW
    return ("gradient_vanished",) if few else ()


def bias_of(m: Message, layer: str) -> tuple[Tensor, Tensor]:
    """How the output bias of ``layer`` moved, (K,) float64, and of which outputs that is told.

    Both on the processor; the message holds it, of a ``sparse`` one perhaps in part (``filled``).
    """
    names = models.tensor_of(layer, "bias"), models.tensor_of(layer, "weight")
    told = {k: v.cpu() for k, v in m.told().items() if k in names}
    bias, known = m.payload[names[0]].double().cpu(), told[names[0]]
    if bool(known.all()) or names[1] not in told:
        return bias, known
    rows = m.payload[names[1]].double().cpu()
    return filled(rows.flatten(1), bias, told[names[1]].flatten(1), known)


def filled(
    rows: Tensor, bias: Tensor, told: Tensor, known: Tensor, usual: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The moves (K,) of output biases, and of which outputs they are told, (K,) bool.

    Where a bias was not sent, by its row: that is about the same move times the examples' mean
    features, which the outputs tell whose bias was sent; ``usual``, or all alike, if none was.

    Args:
        rows: (K, d), the moves of the weights.
        bias: (K,), those of the biases.
        told: (K, d) bool, which of ``rows`` were sent.
        known: (K,) bool, which of ``bias`` were.
        usual: (d,), the usual features.
    """
    both = (told & known[:, None]).to(rows)
    sizes = bias.square() @ both
    seen = sizes > 0
    features = torch.ones_like(rows[0]) if usual is None else usual.to(rows)
    if bool(seen.any()):
        own = bias @ (rows * both) / sizes.clamp(min=1e-300)
        features = torch.where(seen, own, own[seen].mean())
    weight = told.to(rows)
    read = (rows * weight) @ features / (weight @ features.square()).clamp(min=1e-300)
    return torch.where(known, bias, read), known | told.any(1)


def moved(
    update: Mapping[str, Tensor], layer: str, classes: int, told: Mapping[str, Tensor] | None = None
) -> Tensor:
    """Shares (K,) float64: even over the classes whose output moved, of sum 1.

    0 for all if none did, or not by a number.

    A class's output moves by the norm of what the update changes of its row of the last layer
    ``layer``: weights and bias, as far as they are sent. Sorted, the widest gap between one and the
    next parts those that moved from those that did not, if it is ``APART`` times or more; else all
    classes moved. An output that did not move at all is no client's class. Of ``told`` numbers
    alone (all, if None) it is their root mean square; an output of which none is told is not named,
    for it is not known to have moved, nor to stand still.
    """
    own = {k: v for k, v in models.of_layer(layer, update).items() if v.ndim and len(v) == classes}
    if not own:
        return torch.zeros(classes).double()
    length = torch.cat([v.double().cpu().reshape(classes, -1) for v in own.values()], 1).norm(dim=1)
    if told is not None:
        sent = torch.cat([told[k].cpu().reshape(classes, -1) for k in own], 1)
        length = length / sent.sum(1).clamp(min=1).sqrt()
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
