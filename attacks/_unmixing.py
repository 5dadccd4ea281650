"""Solves one mixed message for the true prototype behind it.

A message is unit(a w + (1 - a) m), where m is the unit sum of the k rows of a known bank that are
nearest to w. Each set of k rows gives m; then |w| = 1 leaves two lengths of the sum that was
normalised, and so two w. A set is right where it is the nearest rows of its own w; that is searched
for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from leakbench import unit
from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor

STRENGTHS = (-8, 2, 16)  # of the ridges a search starts from: 16 of 1e-8 to 1e2
WIDTH, STEPS, SWAPS = 16, 40, 4  # sets expanded at once, how often, rows exchanged for how many
KEPT = 20 * WIDTH  # sets that wait to be expanded
TIE = 1e-12  # nearest rows may be as near as others, up to rounding
SAME = 0.99  # cosine above which two solutions are one answer


class Preimage(NamedTuple):
    """What a search found."""

    prototype: Tensor  # (dim,), of length 1
    consistent: bool  # is a set the nearest rows of its own w?
    agree: bool  # do all such w found have a cosine above ``SAME`` to ``prototype``?
    least: float  # the smallest alpha at which its set could have given the message
    twin: Tensor | None = None  # (dim,): one that explains the message as well, where that is far


@dataclass(frozen=True)
class Bank:
    """The rows that clients mixed with in one round, (clients, dim) float64."""

    rows: Tensor

    @cached_property
    def spectrum(self) -> tuple[Tensor, Tensor]:
        """Eigenvalues (dim,) and eigenvectors (dim, dim) of rows' rows."""
        values, vectors = torch.linalg.eigh(self.rows.T @ self.rows)
        return values, vectors

    @cached_property
    def middle(self) -> Tensor:
        """(dim,): the mean row."""
        return self.rows.mean(0)


class Tried(NamedTuple):
    """Sets of rows with what follows from each."""

    sets: Tensor  # (n, k), ascending
    gap: Tensor  # (n, 2): how much nearer its w's nearest rows are than its own; 0: none are
    near: Tensor  # (n, clients): the rows' nearness to the better w
    w: Tensor  # (n, 2, dim)
    least: Tensor  # (n,): the smallest alpha at which the w are real

    def some(self, rows: Tensor) -> Tried:
        """Only ``rows``."""
        return Tried(*(x[rows] for x in self))

    def with_(self, more: Tried) -> Tried:
        """These and ``more``."""
        return Tried(*(torch.cat(x) for x in zip(self, more, strict=True)))


@dataclass(frozen=True)
class Mixed:
    """A message, and what is known of how it was made."""

    bank: Bank
    own: int  # the sender's row, which it does not mix with
    message: Tensor  # (dim,) float64, of any length
    alpha: float  # weight of the true prototype, above 0
    k: int

    @cached_property
    def sent(self) -> Tensor:
        """The message at length 1."""
        return unit(self.message)

    def solutions(self, sets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(n, 2, dim) the two w of each of ``sets`` (n, k), and (n, 2) whether they are real.

        Where they are not, what leads from the mean to its nearest multiple of the message stands
        in. And (n,) the smallest alpha at which they are.
        """
        m, rest = unit(self.bank.rows[sets].sum(1)), 1 - self.alpha
        along = m @ self.sent
        under = self.alpha**2 - rest**2 * (1 - along.square())
        root = under.clamp(min=0).sqrt()
        length = torch.stack([rest * along + root, rest * along - root], -1)
        w = unit(length[..., None] * self.sent - rest * m[:, None])
        sine = (1 - along.square()).clamp(min=0).sqrt()
        return w, (under >= 0)[:, None] & (length > 0), sine / (1 + sine)

    def nearness(self, w: Tensor) -> Tensor:
        """(..., clients): of the bank's rows to ``w`` (..., dim); the own row is out of reach."""
        near = w @ self.bank.rows.T
        near[..., self.own] = -torch.inf
        return near

    def nearest(self, near: Tensor) -> Tensor:
        """(..., k): the rows with the largest ``near`` (..., clients), ascending."""
        return near.topk(self.k, -1).indices.sort(-1).values

    def judged(self, sets: Tensor) -> Tried:
        """``sets`` (n, k) with their solutions and how far these are from agreeing with them."""
        w, real, least = self.solutions(sets)
        near = self.nearness(w)
        best = near.topk(self.k, -1).values.sum(-1)
        mine = near.gather(-1, sets[:, None].expand(-1, 2, -1)).sum(-1)
        gap = (best - mine).clamp(min=0) + torch.where(real, 0.0, float(self.k))
        better = gap.argmin(1)
        return Tried(sets, gap, near[torch.arange(len(sets)), better], w, least)

    def starts(self) -> Tensor:
        """(n, k): by the weights of ridge regressions of the message on the other rows.

        The message lies near the span of the right rows. And the nearest rows, as they are and
        without the mean row.
        """
        (values, axes), middle = self.bank.spectrum, self.bank.middle
        own, sent = axes.T @ self.bank.rows[self.own], axes.T @ self.sent
        strengths = torch.logspace(*STRENGTHS, dtype=torch.float64, device=values.device)
        damped = 1 / (values + strengths[:, None])  # (strengths, dim)
        solved = damped * sent
        # The own row is taken out again by Sherman and Morrison's formula.
        share = (solved @ own) / (1 - (damped * own) @ own).clamp(min=1e-12)
        solved = solved + share[:, None] * damped * own
        ridges = solved @ axes.T @ self.bank.rows.T
        centred = unit(self.bank.rows - middle) @ unit(self.sent - middle)
        near = torch.cat([ridges, (self.bank.rows @ self.sent)[None], centred[None]])
        near[:, self.own] = -torch.inf
        return self.nearest(near)

    def exchanged(self, front: Tried) -> Tensor:
        """(n', k): each set with one of its farthest rows exchanged for one of the nearest others.

        And the nearest rows of the sets' own solutions.
        """
        n, swaps = len(front.sets), min(SWAPS, self.k, self.bank.rows.shape[0] - 1 - self.k)
        again = self.nearest(self.nearness(front.w)).flatten(0, 1)
        if not swaps:
            return again
        leave = front.near.gather(1, front.sets).topk(swaps, largest=False).indices
        join = front.near.scatter(1, front.sets, -torch.inf).topk(swaps).indices
        sets = front.sets[:, None, None].expand(n, swaps, swaps, self.k).clone()
        at = leave[:, :, None, None].expand(n, swaps, swaps, 1)
        sets.scatter_(3, at, join[:, None, :, None].expand(n, swaps, swaps, 1))
        return torch.cat([again, sets.flatten(0, 2).sort(-1).values])


def search(mixed: Mixed, more: Iterable[Tensor] = (), steps: int = STEPS) -> Preimage:
    """The w whose nearest rows are those that give it, or the one that comes nearest to that.

    Args:
        mixed: the message.
        more: guesses of w, (dim,) each, whose nearest rows are starts, too.
        steps: at most so many times the best sets are exchanged.
    """
    guesses = [mixed.nearest(mixed.nearness(w)) for w in more]
    new = torch.cat([torch.stack(guesses), mixed.starts()]) if guesses else mixed.starts()
    seen: set[tuple[int, ...]] = set()
    pool: Tried | None = None
    best: tuple[float, Tensor] = torch.inf, mixed.sent
    for _ in range(steps + 1):
        fresh = sorted({tuple(row) for row in new.tolist()} - seen)
        seen.update(fresh)
        if fresh:
            judged = mixed.judged(torch.tensor(fresh, device=mixed.sent.device))
            if bool((fine := judged.gap <= TIE).any()):
                return _answer(judged, fine)
            low = judged.gap.min()
            if float(low) < best[0]:
                best = float(low), judged.w[judged.gap == low][0]
            pool = judged if pool is None else pool.with_(judged)
        if pool is None or not len(pool.sets):
            break
        order = pool.gap.amin(1).argsort(stable=True)
        new = mixed.exchanged(pool.some(order[:WIDTH]))
        pool = pool.some(order[WIDTH : WIDTH + KEPT])
    return Preimage(best[1], False, False, torch.inf)


def _answer(judged: Tried, fine: Tensor) -> Preimage:
    """The w that are ``fine`` (n, 2): the middle where that is near each, else the first.

    The first has the larger share of the message: banks are mixtures of the true prototypes.
    """
    w, least = judged.w[fine], float(judged.least[fine.any(1)].max())
    middle = unit(w.mean(0))
    if bool((w @ middle > SAME).all()):
        return Preimage(middle, True, True, least)
    return Preimage(w[0], True, False, least, w[int((w @ w[0]).argmin())])
