"""How was it mixed? Weight and number of neighbours, where nobody tells them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from attacks._unmixing import Found, Mixed, search

SAMPLE = 20  # messages that are tried
MOST = 40  # neighbours, at most
FACTOR = 0.8  # from one weight that is tried to the next
ENOUGH = 0.8  # share of messages that have a solution under the right settings


def neighbours(sample: Sequence[Mixed]) -> int:
    """The k under which most of ``sample`` have a solution."""
    most = min(MOST, sample[0].bank.rows.shape[0] - 1)
    shares = {k: _share([_solved(m, m.alpha, k) for m in sample]) for k in range(1, most + 1)}
    return max(shares, key=lambda k: shares[k])


def both(sample: Sequence[Mixed], ks: Sequence[int] = ()) -> tuple[float, int]:
    """Weight and k of ``sample``: the smallest weight under which nearly all have a solution.

    Under a smaller one than the true one most have none: the message is too far from any mean.
    Under a larger one they have, and wrong. Of those that have one, each says how small the weight
    may be; it is smallest where w is perpendicular to the message, as it nearly is in many
    dimensions.

    Args:
        sample: messages; their own alpha and k are not looked at.
        ks: the k to be tried; from 1 to ``MOST`` unless given.
    """
    left = list(ks) or list(range(1, min(MOST + 1, sample[0].bank.rows.shape[0])))
    alpha, best = 0.5, (0.5, left[0])
    while left and alpha > 1e-4:
        found = {k: [_solved(m, alpha, k) for m in sample] for k in left}
        left = [k for k in left if _share(found[k]) >= ENOUGH]
        if left:
            k = max(left, key=lambda k: _share(found[k]))
            best = max(f.least for f in found[k] if f.consistent), k
        alpha *= FACTOR
    return best


def _solved(message: Mixed, alpha: float, k: int) -> Found:
    return search(replace(message, alpha=alpha, k=k), steps=1)


def _share(found: Sequence[Found]) -> float:
    return sum(f.consistent for f in found) / len(found)
