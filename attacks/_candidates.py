"""Of whom membership is asked, and what one guesses of them without any message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leakbench.attacking import Guess, Outline, View
from leakbench.base import torch
from leakbench.federation import Examples

if TYPE_CHECKING:
    from torch import Tensor


def clients_of(candidates: Examples) -> Tensor:
    """(n,) int64: of which client each is said to be."""
    if candidates.client is None:
        return torch.zeros(0, dtype=torch.int64)
    return candidates.client


def unasked(run: Outline) -> str:
    """Why membership is not asked of this run; empty where it is."""
    if run.holds("candidates"):
        return ""
    return (
        "the record has no candidates: no auxiliary example is of a class that a client holds (see"
        " the task's held_out), or an older version made it"
    )


def by_client(scores: Tensor, view: View) -> list[Guess]:
    """A guess of each client: the scores (n,) of its candidates."""
    of = clients_of(view.know("candidates")).cpu()
    each = {c: scores[of == c] for c in sorted({*of.tolist()})}
    return [Guess(f"client/{c}", view.round, {"membership": s}) for c, s in each.items()]


def by_inputs(view: View) -> list[Guess]:
    """How far each is from the nearest auxiliary example of its class, which is no message."""
    return by_client(far_off(view.know("candidates"), view.know("aux_data")), view)


def far_off(asked: Examples, aux: Examples) -> Tensor:
    """(n,) float64: how far each is from the nearest auxiliary example of its class.

    Of any class where there is none of its own; 0 where there are none at all.
    """
    if not len(aux):
        return torch.zeros(len(asked), dtype=torch.float64)
    far = torch.cdist(asked.x.flatten(1), aux.x.flatten(1))
    other = asked.y[:, None] != aux.y[None]
    far = torch.where(other & ~other.all(1, keepdim=True), torch.inf, far)
    return far.min(1).values.double().cpu()
