"""Decoding a binary linear code from bits of which each is more or less sure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor


CERTAIN = 1e6  # of a bit that is known, where the others are at most 1 sure
_BINS = 512  # steps in which a deficit is counted


@dataclass(frozen=True)
class Word:
    """A codeword, and how far it is from what was observed."""

    bits: Tensor  # (length,) bool
    deficit: float  # the sum of how sure the bits were that it contradicts
    # How many codewords that begin with the known bits would be as near to a coin's throws, at
    # most: far below 1 says that this one is no accident.
    by_chance: float


def decoded(generator: Tensor, observed: Tensor, known: Tensor) -> Word:
    """The codeword nearest to ``observed`` or to its opposite, of those that begin with ``known``.

    Ordered statistics decoding (Fossorier and Lin 1995): the most certain bits that determine a
    word are taken as they are, then with one and with two of them wrong; the best of these counts.

    Args:
        generator: (message, length) of 0 and 1: a codeword is message @ generator, modulo 2.
        observed: (length,), above 0 for a 1; the larger the size, the surer.
        known: (k,) of 0 and 1: the first bits of the word, which say which of the two signs it is.
    """
    size = observed.abs().max().clamp(min=1e-300)
    found = [_nearest(generator, sign * observed / size, known) for sign in (1, -1)]
    bits, deficit = min(found, key=lambda word: word[1])
    below = _within(observed.abs() / size, deficit)
    words = 2.0 ** (1 + len(generator) - len(known) - len(observed))  # 1: of both signs
    return Word(bits, deficit, below * words)


def _nearest(generator: Tensor, observed: Tensor, known: Tensor) -> tuple[Tensor, float]:
    """The best word found for one sign, and its deficit."""
    trusted = observed.clone()
    trusted[: len(known)] = CERTAIN * (2 * known.to(observed) - 1)
    order = trusted.abs().argsort(descending=True, stable=True)
    rows, free = _systematic(generator.bool()[:, order])
    sure = trusted[order]
    start = (rows & (sure[free] > 0)[:, None]).sum(0) % 2 == 1
    words = _flipped(rows, start)
    # The agreement of each; what is known outweighs all else.
    best = (2 * words.to(sure) - 1) @ sure
    bits = torch.empty_like(start)
    bits[order] = words[best.argmax()]
    return bits, float(observed[bits != (observed > 0)].abs().sum())


def _systematic(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Rows (message, length) that generate the same code, and the columns of their unit matrix.

    The columns are the first that are independent.
    """
    rows = rows.clone()
    free: list[int] = []
    for column in range(rows.shape[1]):
        at = len(free)
        ones = rows[at:, column].nonzero().flatten()
        if not len(ones):
            continue
        swap = at + int(ones[0])
        if swap != at:
            rows[[at, swap]] = rows[[swap, at]]
        others = rows[:, column].clone()
        others[at] = False
        rows[others] ^= rows[at]
        free.append(column)
        if len(free) == len(rows):
            break
    return rows, torch.tensor(free)


def _flipped(rows: Tensor, start: Tensor) -> Tensor:
    """(n, length): ``start``, and with up to two of the bits that determine it wrong."""
    words = [start[None], start ^ rows]
    if len(rows) > 1:
        pairs = torch.combinations(torch.arange(len(rows)))
        words.append(start ^ rows[pairs[:, 0]] ^ rows[pairs[:, 1]])
    return torch.cat(words)


def _within(sizes: Tensor, deficit: float) -> float:
    """How many of the 2^length patterns contradict bits of these sizes by ``deficit`` at most.

    Sizes are rounded down to steps, so rather too many.
    """
    step = max(deficit, 1e-300) / _BINS
    steps = (sizes / step).floor().clamp(max=_BINS + 1).long().tolist()
    count = torch.zeros(_BINS + 1, dtype=torch.float64)
    count[0] = 1
    for width in steps:
        if width <= _BINS:
            more = torch.zeros_like(count)
            more[width:] = count[: _BINS + 1 - width]
            count = count + more
    return float(count.sum())
