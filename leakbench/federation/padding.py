"""Batches of several sizes side by side: the shorter ones repeat an example, which counts nothing.

Exact where a loss says a number for each example which no other example of the batch changes.
Whether one does is not believed but tried.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from leakbench.base.lazy import torch
from leakbench.base.tree import Tree
from leakbench.federation.parties import Batch

if TYPE_CHECKING:
    from torch import Tensor

# Clients (m) and their batches x (m, B, ...) -> "values" (m, B), or (m,) of a loss that is one
# number, and "draws", (m, ...) each.
Tried: TypeAlias = "Callable[[list[int], Batch], Tree]"


def own_mean(values: Tensor, sizes: list[int]) -> Tensor:
    """The mean of the first ``sizes`` (m) of ``values`` (m, B), (m,); (m,) stays as it is."""
    if values.dim() == 1:
        return values
    if min(sizes) == values.shape[1]:
        return values.mean(1)
    own = _own(values, sizes)
    return torch.where(own, values, 0.0).sum(1) / own.sum(1)


def paddable(
    tried: Tried,
    some: list[int],
    sizes: list[int],
    batch: Batch,
    alone: Batch,
    classes: int,
    precision: torch.dtype,
) -> bool:
    """Do the clients ``some``, of ``sizes`` each, train on the padded ``batch`` as on their own?

    What stands in the padding must leave every number of theirs the same to the last bit: else
    examples meet, in BatchNorm or in the loss. And who has least must see, draw and say what it
    does ``alone`` (1, least, ...): else something depends on how long a batch is.
    """
    said = tried(some, batch)
    values: Tensor = said["values"]
    if values.dim() == 1:
        return False
    own = _own(values, sizes)
    other = tried(some, _otherwise(batch, own, classes))["values"]
    if not torch.equal(values[own], other[own]):
        return False
    least = min(sizes)
    j = sizes.index(least)
    was = tried([some[j]], alone)
    seen, drawn = (
        (batch.x, alone.x),
        zip(said["draws"].values(), was["draws"].values(), strict=True),
    )
    if not all(_begins(t[j], o[0]) for t, o in [seen, *drawn]):
        return False
    apart = (values[j, :least] - was["values"][0]).abs().max()
    # Products of other sizes round otherwise.
    return bool(apart <= torch.finfo(precision).eps ** 0.5 * was["values"].abs().max())


def _begins(padded: Tensor, alone: Tensor) -> bool:
    """Is the one the beginning of the other?"""
    if padded.dim() == 0 or padded.shape[1:] != alone.shape[1:]:
        return torch.equal(padded, alone)
    return torch.equal(padded[: len(alone)], alone)


def _own(values: Tensor, sizes: list[int]) -> Tensor:
    """(m, B) bool, which of ``values`` (m, B) are no padding."""
    counts = torch.tensor(sizes, device=values.device)
    return torch.arange(values.shape[1], device=values.device) < counts[:, None]


def _otherwise(batch: Batch, own: Tensor, classes: int) -> Batch:
    """The same with something else in the padding."""

    def other(was: Tensor, now: Tensor) -> Tensor:
        return torch.where(own.view(*own.shape, *[1] * (was.dim() - 2)), was, now)

    x, y = other(batch.x, batch.x + 1), other(batch.y, (batch.y + 1) % max(classes, 1))
    texts = batch.targets
    return replace(batch, x=x, y=y, targets=texts if texts is None else other(texts, texts.roll(1)))
