"""Which clients take part in a round."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leakbench.base.lazy import torch
from leakbench.base.streams import shared
from leakbench.federation.defense import Defense

if TYPE_CHECKING:
    from torch import Tensor


def round_size(method: Defense, clients: int) -> int:
    """How many of ``clients`` are chosen in a round."""
    return max(1, round(method.fraction * clients))


def robin(clients: int, *, seed: int, device: torch.device | str) -> Tensor:
    """The one shuffled order that a round robin goes through, (clients,)."""
    return shared(seed, "select", device=device).permutation("clients", clients)


def select(
    method: Defense,
    clients: int,
    *,
    seed: int,
    t: int,
    device: torch.device | str,
    order: Tensor | None = None,
) -> Tensor:
    """The clients of round t (M,), ascending; round robin goes through one shuffled order.

    ``order``: that of ``robin``, where somebody keeps it; it is the same in every round.
    """
    size = round_size(method, clients)
    if method.select == "round_robin":
        order = robin(clients, seed=seed, device=device) if order is None else order
        turn = torch.arange(size, device=device) + (t - 1) * size
        return order[turn % clients].sort().values
    dice = shared(seed, "select", round=t, device=device)
    return dice.some("clients", clients, size).sort().values
