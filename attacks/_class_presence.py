"""Which classes a client has, by shares that are known up to an error.

An empirical Bayes estimate: a client's counts of each class are a Dirichlet-multinomial draw, as
the field's splits are, of the concentration under which the shares of all clients are likeliest. So
where clients hold few classes a small share is taken for none, and where they hold most it is not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor

BIAS = 0.005  # error of a share that no equation shows, for an update is no exact mixture
# Of what the shares differ by, that one which was held at 0 or more errs by at most, however little
# an equation told of it.
HELD = 0.5
CONCENTRATIONS = (0.02, 50.0, 14)  # of the Dirichlet prior: least, most, how many are compared
CLOSE = 2.0  # below the largest log-likelihood: what shares do not speak against
EXAMPLES = 500  # counts that are told apart, at most: a finer share is known to nobody
COMPARED = 100  # the same, and clients, where concentrations are


def named_shares(shares: Tensor, errors: Tensor, sizes: Sequence[int]) -> Tensor:
    """(N, K) of sum 1: the shares, 0 of classes that a client is not named, and of others not 0.

    Named is the set whose expected overlap with the true one (intersection over union) is largest.

    Args:
        shares: (N, K), 0 or more, of sum 1; a 0 may stand for less.
        errors: (N, K), their standard errors, as if they could be of any sign.
        sizes: how many examples each client has.
    """
    most = max(HELD * float(shares.std(correction=0)), BIAS)
    errors = 1 / (1 / errors.nan_to_num(nan=math.inf).square() + 1 / most**2)
    errors = (errors + BIAS**2).sqrt()
    alpha = _concentration(shares, errors, sizes)
    out = torch.zeros_like(shares)
    for i, size in enumerate(sizes):
        n = min(max(int(size), 1), EXAMPLES)
        there = 1 - _likelihood(shares[i], errors[i], n, alpha).softmax(-1)[:, 0]
        named = _named(there)
        out[i, named] = shares[i][named].clamp(min=1 / n)
    return out / out.sum(1, keepdim=True)


def _concentration(shares: Tensor, errors: Tensor, sizes: Sequence[int]) -> float:
    """That of the symmetric Dirichlet prior under which the shares are likeliest, or nearly so.

    Of those that come ``CLOSE`` the largest: a class is denied by who knows. Classes count as if
    they were independent; clients as if all were of the middle size.
    """
    if shares.shape[1] == 1:
        return 1.0
    n = min(max(int(sorted(sizes)[len(sizes) // 2]), 1), COMPARED)
    some = torch.linspace(0, len(shares) - 1, min(len(shares), COMPARED)).long()
    low, high, many = CONCENTRATIONS
    tried = [low * (high / low) ** (i / (many - 1)) for i in range(many)]

    def likely(alpha: float) -> float:
        return float(_likelihood(shares[some], errors[some], n, alpha).logsumexp(-1).sum())

    found = {alpha: likely(alpha) for alpha in tried}
    return max(alpha for alpha in tried if found[alpha] >= max(found.values()) - CLOSE)


def _likelihood(shares: Tensor, errors: Tensor, n: int, alpha: float) -> Tensor:
    """Log (..., K, n + 1): that none, one, ... of n examples are of the class, and its share so."""
    k, counts = shares.shape[-1], torch.arange(n + 1, dtype=torch.float64)
    rest = torch.tensor(max((k - 1) * alpha, 1e-6), dtype=torch.float64)
    one = torch.tensor(alpha, dtype=torch.float64)
    prior = counts.add(1).lgamma().neg() - (n - counts + 1).lgamma()
    prior = prior + (counts + one).lgamma() + (n - counts + rest).lgamma()
    off = (shares[..., None] - counts / n) / errors[..., None]
    seen = -0.5 * off.square() - (errors[..., None] * math.sqrt(2 * math.pi)).log()
    # A share of 0 was 0 or would have been less.
    seen = torch.where(shares[..., None] > 0, seen, torch.special.log_ndtr(off))
    return prior.log_softmax(0) + seen


def _named(there: Tensor) -> Tensor:
    """The classes, of probability ``there`` (K,), that are best named."""
    order = there.argsort(descending=True, stable=True)
    inside = there[order].cumsum(0)
    size = torch.arange(1, len(there) + 1, dtype=there.dtype)
    best = int((inside / (size + there.sum() - inside)).argmax())
    return order[: best + 1]
