"""Which clients take part in a round."""

from __future__ import annotations

from leakbench.base.streams import shared
from leakbench.federation.defense import Defense


def round_size(method: Defense, clients: int) -> int:
    """How many of ``clients`` are chosen in a round."""
    return max(1, round(method.fraction * clients))


def select(method: Defense, clients: int, *, seed: int, t: int) -> list[int]:
    """The clients of round t, ascending; round robin goes through one shuffled order.

    Drawn on the host: shapes depend on who takes part, and nobody may wait for a device.
    """
    size = round_size(method, clients)
    if size == clients:
        return list(range(clients))
    robin = method.select == "round_robin"
    dice = shared(seed, "select") if robin else shared(seed, "select", round=t)
    order: list[int] = dice.permutation("clients", clients).tolist()
    first = (t - 1) * size if robin else 0
    return sorted(order[(first + i) % clients] for i in range(size))
