"""Looking several times at growing data, at one level: each look has its share of it.

Group-sequential with a union bound (alpha spending): the chance that any of the looks errs is at
most the sum of the shares, whatever the looks have in common. It costs some power and assumes
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

LOOKS = (3, 5, 8, 12, 20)  # seeds


def level_shares(looks: Sequence[int]) -> tuple[float, ...]:
    """Of the level, for each look: half for the first, which is the only one as a rule.

    The later ones have the other half, the i-th of L of them i / (1 + ... + L) of it.
    """
    later = len(looks) - 1
    if later < 1:
        return (1.0,) * len(looks)
    whole = later * (later + 1) / 2
    return (0.5, *(0.5 * i / whole for i in range(1, later + 1)))


def reached(looks: Sequence[int], seeds: int) -> tuple[tuple[int, float], ...]:
    """(seeds used, share of the level) of every look that ``seeds`` seeds have reached, in order.

    Fewer than the first look's are looked at all the same, at its share.
    """
    each = tuple(zip(looks, level_shares(looks), strict=True))
    return tuple(look for look in each if look[0] <= seeds) or ((seeds, each[0][1]),)


class InterimLook(NamedTuple):
    """What ``seeds`` seeds are looked at where ``first`` were planned, and nobody said how often.

    Each further look has up to twice as many seeds as the one before, and half of its share.
    """

    first: int
    seeds: int

    @property
    def share(self) -> float:
        """Of the level: a half, a quarter of the next look, and so on.

        Where nobody knows how many seeds there are (0), that of the first.
        """
        if self.seeds <= self.first:
            return 0.5
        return 0.5 ** (1 + math.ceil(math.log2(self.seeds / self.first)))

    def later(self) -> Iterator[InterimLook]:
        """The looks with more seeds, without an end."""
        count = self.first
        while True:
            if count > self.seeds:
                yield InterimLook(self.first, count)
            count *= 2
