"""Which clients take part in a round."""

from __future__ import annotations

from collections.abc import Sequence

from leakbench.base.streams import shared
from leakbench.federation.defense import Defense


def round_size(method: Defense, clients: int) -> int:
    """How many of ``clients`` are chosen in a round."""
    return max(1, round(method.fraction * clients))


def robin(clients: int, *, seed: int) -> list[int]:
    """The one shuffled order that a round robin goes through."""
    order: list[int] = shared(seed, "select").permutation("clients", clients).tolist()
    return order


def select(
    method: Defense, clients: int, *, seed: int, t: int, order: Sequence[int] = ()
) -> list[int]:
    """The clients of round t, ascending; round robin goes through one shuffled order.

    Drawn on the host: shapes depend on who takes part, and nobody may wait for a device. ``order``:
    that of ``robin``, where somebody keeps it; it is the same in every round.
    """
    size = round_size(method, clients)
    if size == clients:
        return list(range(clients))
    if method.select == "round_robin":
        order, first = order or robin(clients, seed=seed), (t - 1) * size
        return sorted(order[(first + i) % clients] for i in range(size))
    dice = shared(seed, "select", round=t)
    return sorted(dice.some("clients", clients, size).tolist())
