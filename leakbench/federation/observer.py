"""What a federation tells whoever looks on: the recorder, or nobody."""

from __future__ import annotations

from typing import Generic, TypeVar

from leakbench.base.tree import Tree
from leakbench.federation.batches import Plan

Fed = TypeVar("Fed", contravariant=True)  # the federation that tells


class Observer(Generic[Fed]):
    """Keeps nothing; also the list of what a recorder is told."""

    def down(
        self, fed: Fed, kind: str, payload: Tree, *, each: bool, meant: Tree | None = None
    ) -> None:
        """The server sent ``payload`` to the chosen clients.

        ``meant``: what its method would have sent to all, where it does not keep to it.
        """

    def up(self, fed: Fed, name: str, each: Tree, sent: Tree, draws: Tree) -> None:
        """The chosen clients, holding ``each`` before, ran ``name`` and sent ``sent`` (stacked).

        ``draws``: what they drew for it, stacked, or a list of each one's.
        """

    def training(self, fed: Fed, name: str, each: Tree, todo: Plan) -> None:
        """The chosen clients, holding ``each``, are about to train on ``todo``."""

    def trained(self, fed: Fed, name: str, each: Tree, todo: Plan, update: Tree) -> None:
        """They did; ``update``: what each sent, stacked, or {} where only the mean was made."""

    def summed(self, fed: Fed, kind: str, payload: Tree) -> None:
        """The aggregator sent the server the (weighted mean) sum of what it got."""

    def close(self, fed: Fed) -> None:
        """The round is over."""
