"""Batches of several sizes side by side: the shorter ones repeat an example, which counts nothing.

Exact where a loss reads its batch by ``Batch.mean`` alone, of numbers that no other example
changes. That a loss does, its method says (``by_example``), of its very own class: a class that is
derived from it may have another loss. That a network lets no examples meet is tried.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from leakbench.base.lazy import torch
from leakbench.base.tree import Tree, flat
from leakbench.federation.defense import Defense
from leakbench.federation.parties import Batch

if TYPE_CHECKING:
    from torch import Tensor


# A padded batch x (m, B, ...) of m clients -> all that a step makes of it.
Tried: TypeAlias = "Callable[[Batch], Tree]"


def declares_loss(method: Defense, loss: str) -> bool:
    """Does the method's own class name this loss in ``by_example``?"""
    return loss in vars(type(method)).get("by_example", ())


def paddable(tried: Tried, batch: Batch, classes: int) -> bool:
    """Does whatever stands in the padding leave all that a step makes the same to the last bit?

    Losses, gradients and what layers write down for later (BatchNorm's statistics).
    """
    made = flat(tried(batch))
    try:
        again = flat(tried(_otherwise(batch, classes)))
    except IndexError:  # the inputs are looked up, and there is no other of such a number
        return False
    return all(torch.equal(v, again[name]) for name, v in made.items())


def _otherwise(batch: Batch, classes: int) -> Batch:
    """The same with something else in the padding."""
    own = batch.own
    if own is None:
        return batch

    def other(was: Tensor, now: Tensor) -> Tensor:
        return torch.where(own.view(*own.shape, *[1] * (was.dim() - 2)), was, now)

    x, y = other(batch.x, batch.x + 1), other(batch.y, (batch.y + 1) % max(classes, 1))
    texts = batch.targets
    return replace(batch, x=x, y=y, targets=texts if texts is None else other(texts, texts.roll(1)))
