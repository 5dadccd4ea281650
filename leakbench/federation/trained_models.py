"""The models of a federation, as its messages tell them: the newest of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from leakbench.base.lazy import torch
from leakbench.base.tree import Tree, row, tmap
from leakbench.federation.batches import Plan
from leakbench.federation.observer import Observer

if TYPE_CHECKING:
    from torch import Tensor


class Chosen(Protocol):
    """A federation, as far as it says who takes part in a round."""

    who: Sequence[int]


class TrainedModels(Observer[Chosen]):
    """The newest model that the server sent to all, and each client's own as it trained it.

    Of fused rounds, in which no client's model is made, the first alone.
    """

    def __init__(self) -> None:
        self.sent: dict[str, Tensor] = {}
        self.own: dict[int, dict[str, Tensor]] = {}
        self._rows: Tree | None = None  # of a model that each received for itself

    def down(
        self, fed: Chosen, kind: str, payload: Tree, *, each: bool, meant: Tree | None = None
    ) -> None:
        """The model that all received, or each for itself."""
        if kind != "model":
            return
        self._rows = tmap(torch.clone, payload) if each else None
        self.sent = self.sent if each else tmap(torch.clone, payload)

    def trained(self, fed: Chosen, name: str, each: Tree, todo: Plan, update: Tree) -> None:
        """What it became at each client."""
        for j, c in enumerate(fed.who if update else ()):
            begun = self.sent if self._rows is None else row(self._rows, j)
            self.own[c] = moved(begun, row(update, j))


def moved(model: Mapping[str, Tensor], update: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A model that was received, after an update."""
    return {k: v + update[k].to(v) if k in update else v for k, v in model.items()}
