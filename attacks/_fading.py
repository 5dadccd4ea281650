"""A mean that forgets: how far back it should reach, told by the messages themselves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor

# Messages after which a weight has halved; 0 is the newest message alone.
HALVES = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, math.inf)
CLIENTS, NEWEST = 128, 400  # as many, and of each as many messages, decide how far to reach


def faded(sent: Tensor, half: float) -> Tensor:
    """(dim,): the mean of ``sent`` (n, dim), oldest first.

    A message that is ``half`` messages older is half as heavy.
    """
    share = weights(ages(len(sent), sent.device), half)
    return ((share / share.sum()) @ sent.double()).to(sent.dtype)


def ages(n: int, device: torch.device) -> Tensor:
    """(n,) float64: how many messages came after each of ``n``, oldest first."""
    return torch.arange(n - 1, -1, -1, dtype=torch.float64, device=device)


def weights(age: Tensor, half: float) -> Tensor:
    """How heavy a message of each ``age`` is, from 1 for the newest down to 0."""
    return 0.5 ** (age / half) if half else (age == 0).double()


def reach(sent: Sequence[Tensor], *, cosine: bool) -> float:
    """One of ``HALVES``: with which the older messages of all clients best predict the next.

    Each of ``sent`` is a client's (n, dim), oldest first. Noise that is drawn afresh is as large in
    every prediction, so the best one is nearest to what does not change from a message to the next.
    The newer half of the messages is predicted, by direction where prototypes are compared by
    ``cosine``. Infinite where nobody sent two.
    """
    known = [s[-NEWEST:].double() for s in sent if len(s) > 1][:CLIENTS]
    if not known:
        return math.inf

    def missed(half: float) -> float:
        return sum(_error(s, half, cosine) for s in known)

    # Of equals the longest: of two messages the first predicts the second at any.
    return min(reversed(HALVES), key=missed)


def _error(sent: Tensor, half: float, cosine: bool) -> float:
    """Over the newer half of ``sent`` (n, dim): what the mean of those before each misses."""
    n, start = len(sent), len(sent) // 2
    at = torch.arange(n, dtype=torch.float64, device=sent.device)
    age = at[start - 1 : -1, None] - at[None]  # of each message when the next one came
    share = torch.where(age >= 0, weights(age.clamp(min=0), half), 0.0)
    known, came = (share / share.sum(1, keepdim=True)) @ sent, sent[start:]
    if cosine:
        unit = torch.nn.functional.normalize
        return -float((unit(known, dim=-1) * unit(came, dim=-1)).sum(-1).mean())
    return float((known - came).square().sum(-1).mean())
