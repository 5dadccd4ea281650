"""How was it mixed? Weight and number of neighbours, where nobody tells them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from attacks._unmixing import Mixed, Preimage, search

SAMPLE = 10  # messages that are tried
MOST = 40  # neighbours, at most
LEAST = 0.002  # the smallest weight that is tried
FACTOR = 1.2  # from one weight that is tried to the next
ENOUGH = 0.8  # share of messages that have a solution under the right settings


def neighbours(sample: Sequence[Mixed]) -> int:
    """The k under which most of ``sample`` have a solution."""

    def share(k: int) -> float:
        return _share([_solved(m, m.alpha, k) for m in sample])

    return max(_tried(sample), key=share)


def both(sample: Sequence[Mixed], ks: Sequence[int] = ()) -> tuple[float, int]:
    """Weight and k of ``sample``: the smallest weight under which nearly all have a solution.

    Under one below the true one most have none: the message is too far from any mean. Of those
    that have one, each says how small the weight may be; that is the true one where w is
    perpendicular to the message, as it nearly is in many dimensions.

    Args:
        sample: messages; their own alpha and k are not looked at.
        ks: the k to be tried; unless given, from 1 to ``MOST`` or half of the others.
    """
    shares: dict[tuple[float, int], float] = {}
    alpha = LEAST
    while alpha < 1:
        for k in ks or _tried(sample):
            found = [_solved(m, alpha, k) for m in sample]
            shares[alpha, k] = _share(found)
            if shares[alpha, k] >= ENOUGH:
                return max(f.least for f in found if f.consistent), k
        alpha *= FACTOR
    return max(shares, key=lambda setting: shares[setting])


def _tried(sample: Sequence[Mixed]) -> range:
    """A set of nearly all rows is the nearest to whatever w: that would say nothing."""
    others = sample[0].bank.rows.shape[0] - 1
    return range(1, max(1, min(MOST, others // 2)) + 1)


def _solved(message: Mixed, alpha: float, k: int) -> Preimage:
    return search(replace(message, alpha=alpha, k=k), steps=1)


def _share(found: Sequence[Preimage]) -> float:
    return sum(f.consistent for f in found) / len(found)
