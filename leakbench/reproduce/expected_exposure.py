"""What exposure to expect of a buffer rebuilt each round, when clients are drawn at random."""

from __future__ import annotations

import torch


def expected(clients: int, chosen: int, round: int, *, undirected: bool = False) -> float:
    """Expected exposure at the end of ``round`` (0 to 1).

    A round brings its clients what those of the round before sent.

    ``chosen`` = m of ``clients`` = K are drawn uniformly without replacement, independently in each
    round (FLea, Section 3.4). That client i got from another client j by round T means: in some
    round t <= T, i is chosen and j was in t - 1. Given whether j was chosen in the round before,
    the chances that this does not happen now are a 2 x 2 matrix; its powers give the expectation
    exactly. Were clients drawn independently of each other, it would be 1 - (1 - (m/K)^2)^(T - 1):
    38.9 % at round 50 for a tenth, which is what the paper's "at most 40 %" fits. ``undirected``: i
    got from j or j from i (about 59 % there), which is how the paper's text reads; 4 x 4 by whether
    i and j were chosen.

    The paper divides by K^2 and so counts pairs of a client with itself; here and in the metric
    only others count. With K = 100 that moves the ratio by less than 1/K.

    Raises:
        ValueError: not 2 <= K, not 1 <= m <= K, or a negative round.
    """
    if not (clients >= 2 and 1 <= chosen <= clients and round >= 0):
        raise ValueError(
            "needs at least 2 clients, 1 to that many of them in a round, and a round from 0 on;"
            f" got {clients}, {chosen}, {round}"
        )
    both = chosen * (chosen - 1) / (clients * (clients - 1))
    one = chosen / clients - both
    # Chances of (is i chosen?, is j chosen?), in the order (no, no), (no, yes), (yes, no), (yes,
    # yes).
    chance = torch.tensor([1 - 2 * one - both, one, one, both], dtype=torch.float64)
    i, j = torch.tensor([False, False, True, True]), torch.tensor([False, True, False, True])
    happens = j[:, None] & i[None, :]
    if undirected:
        happens = happens | (i[:, None] & j[None, :])
    step = torch.where(happens, 0.0, chance[None, :])  # [state before, state now]
    never = chance
    for _ in range(round - 1):
        never = never @ step
    return float(1 - never.sum()) if round >= 1 else 0.0
