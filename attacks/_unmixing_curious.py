"""A curious client un-mixes the banks of its own rounds: who sent when, and so with which bank.

A row that changed from one bank to the next was sent in between. Those who take part in the same
rounds as the observer mixed with the very bank that it received. Where rounds go through one
unchanging order, everybody else sent so many rounds later, with a bank some of whose rows were
new: with each group that is recognised, the next one's bank is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from attacks._unmixing import Bank, Mixed, search
from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor

STEPS = 3  # of a look whether a bank fits a message


@dataclass(frozen=True)
class Turns:
    """The banks of the observer's rounds, and how the others' messages were made."""

    banks: Sequence[Tensor]  # (clients, dim) float64 each, oldest first
    observer: int
    alpha: float
    k: int

    def first(self) -> dict[int, list[Mixed]]:
        """Everybody's messages, as if sent in the observer's own rounds."""
        return self._messages([c for c in range(len(self.banks[0])) if c != self.observer], [])

    def ordered(self, size: int) -> tuple[dict[int, list[Mixed]], set[int]]:
        """The same with the bank of each one's turn: ``size`` clients a round, in one order.

        And whose turn is sure: of them and all before, nearly every message has a solution with the
        bank of the turn, and hardly any of those who come later.
        """
        left = [c for c in range(len(self.banks[0])) if c != self.observer]
        out: dict[int, list[Mixed]] = {}
        sure: set[int] = set()
        came, many, clear = [self.observer], size - 1, True
        while left:
            messages = self._messages(left, came if out else [])
            fit = {c: _fit(of) for c, of in messages.items()}
            turn = sorted(messages, key=lambda c: (-fit[c], c))[: max(many, 1)]
            out |= {c: messages[c] for c in turn}
            left = [c for c in messages if c not in turn]
            steps = len(self.banks) - 1
            later = max((fit[c] for c in left), default=0.0)
            clear = clear and min(map(fit.__getitem__, turn), default=0) > later + steps / 2
            sure |= set(turn) if clear else set()
            came, many = [*came, *turn], size
        return out, sure

    def _messages(self, clients: Sequence[int], came: Sequence[int]) -> dict[int, list[Mixed]]:
        """{client: its messages}, mixed when the rows that ``came`` were new; oldest first."""
        out: dict[int, list[Mixed]] = {c: [] for c in clients}
        rows = torch.tensor(came, dtype=torch.long, device=self.banks[0].device)
        for old, new in pairwise(self.banks):
            bank = Bank(old.index_copy(0, rows, new[rows]))
            for c in clients:
                if not torch.equal(old[c], new[c]):
                    out[c].append(Mixed(bank, c, new[c], self.alpha, self.k))
        return {c: of for c, of in out.items() if of}


def _fit(messages: Sequence[Mixed]) -> float:
    """How well the banks fit: messages with a solution, and how like one another these are."""
    found = [search(m, steps=STEPS) for m in messages]
    solved = [f.prototype for f in found if f.consistent]
    alike = [float(a @ b) for a, b in pairwise(solved)]
    return len(solved) + sum(alike) / max(len(alike), 1)
