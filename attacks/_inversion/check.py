"""Which candidate an attack keeps, and whether it believes it: without the truth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attacks._inversion.stack import Stack, length
from attacks._inversion.variation import weight
from attacks._inversion.victims import Candidate, Settings, Victim
from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor

# Measured by benchmarks/inversion_check.py, see results/inversion-check.md.
OPEN = 0.2  # the share of the images that may be open, for a guess to be believed
SHARED = 2  # times the error that is seen: what two searches have in common is not
ALIKE = 10  # a witness matches at most so many times worse
EQUAL = 2  # times as much mismatch, and as rough: such results must all agree, none is likelier
EXACT = 1e-8  # mismatch that single precision's rounding explains
FELL = 0.5  # of what a blank matches: a mismatch above says that the search found nothing
# Of the whole gradient what pictures explain: below it the prior is stronger than they are, and
# what agrees may be the prior; unless it agrees to far more than a prior could bring about.
HARDLY, SAME = 0.01, 0.001
BLANK = 0.02  # standard deviation of an image that shows nothing
FAINT = 10  # times the rounding of the weights: below it an update's direction is noise


@dataclass(frozen=True)
class Support:
    """What is known of a candidate without the truth.

    A match alone says nothing: of a batch a small net's gradient holds less than the images do, and
    noise matches it as well. And two searches that agree say nothing where neither matches: both
    follow the same prior.
    """

    mismatch: float  # of the gradients, in [0, 2]
    blank: float  # that of grey images: what the labels match by themselves
    # Mean squared difference to the farthest result that matches as well; where none does, to the
    # nearest that comes near; inf where there is no witness.
    apart: float
    spread: float  # mean variance of the images
    least: float  # the least standard deviation of an image
    witnesses: int = 0  # results from other starts that match about as well

    @property
    def open(self) -> float:
        """The share of the images' variance that is not settled, 0 and up.

        What of the gradient is not explained, of all that pictures explain in it; or how far the
        nearest witness is away, of the pictures' own variance.
        """
        unmatched = self.mismatch / max(self.blank, 1e-12)
        return max(unmatched, self.apart / max(self.spread, 1e-12))

    @property
    def error(self) -> float:
        """The mean squared error to be expected."""
        return SHARED * self.open * self.spread

    @property
    def accepted(self) -> bool:
        """Are the images believed?"""
        return self.below(OPEN)

    def below(self, limit: float) -> bool:
        """Would they be, if this much might be open?"""
        told = not self.hidden or self.apart < SAME * self.spread
        return told and self.open < limit and self.least > BLANK

    @property
    def hidden(self) -> bool:
        """Does the gradient hardly depend on the images?"""
        return self.blank < HARDLY


@dataclass(frozen=True)
class Kept:
    """What is kept of a victim's candidates."""

    best: Candidate
    accepted: bool
    flags: tuple[str, ...] = ()
    error: float = math.inf  # the mean squared error that is expected of it


def objective(victim: Victim, one: Candidate, how: Settings) -> float:
    """What speaks against a candidate: its mismatch, and what is left of the prior (``fading``).

    Of a batch that which matches best is often not that which is nearest to the images.
    """
    left = victim.fading.choice * weight(how.total_variation, victim.view.facts.shape)
    return one.mismatch + left * one.variation


def judge(victim: Victim, candidates: Sequence[Candidate], how: Settings) -> Kept:
    """The candidate of the least objective; believed where matched, and found from another start.

    Of several engines all results are witnesses for each other.
    """
    best = min(candidates, key=lambda c: objective(victim, c, how))
    seen = support(victim, best, candidates)
    return Kept(best, seen.accepted, _flags(victim, seen), seen.error)


def support(victim: Victim, best: Candidate, candidates: Sequence[Candidate]) -> Support:
    """What speaks for ``best``, of ``candidates``."""
    signal = victim.view.facts.signal
    elsewhere = [c for c in candidates if _started_elsewhere(c, best)]
    witnesses = [c for c in elsewhere if c.mismatch < ALIKE * best.mismatch + EXACT]
    equal = [c for c in witnesses if _as_likely(c, best)]
    far = [apart(best.x, c.x, signal=signal) for c in equal or witnesses]
    near = max(far) if equal else min(far, default=math.inf)
    stack = Stack([victim], torch.float64)
    blank = torch.full_like(best.x, 0.0 if signal else 0.5)[None]
    with torch.no_grad():
        alone = float(stack.mismatch(blank, {k: v[None] for k, v in best.private.items()}))
    shown = (best.x if signal else best.x.clamp(0, 1)).flatten(1)
    spread = shown.var(1, correction=0)
    least = float(spread.min().sqrt())
    return Support(best.mismatch, alone, near, float(spread.mean()), least, len(witnesses))


def _flags(victim: Victim, seen: Support) -> tuple[str, ...]:
    """What a reader should know of the search.

    One without a witness is as open as one whose results differ: at a small budget, or from a
    single start, the loss falls by half and what is found is far from what a longer search finds.
    """
    found = {
        "loss_did_not_fall": not seen.mismatch <= FELL * seen.blank,
        "gradient_vanished": faint(victim) or (seen.hidden and not seen.accepted),
        "below_class_mean": seen.least <= BLANK,
        "restarts_disagree": seen.witnesses == 0 or seen.apart > OPEN * seen.spread,
    }
    return tuple(flag for flag, there in found.items() if there)


def faint(victim: Victim) -> bool:
    """Is the update so small beside the weights that what is left of it is their rounding?"""
    replay = victim.replay(torch.float64)
    told = replay.message.told()
    sent = {k: v.double()[None] for k, v in replay.message.payload.items()}
    received = {k: v for k, v in replay.inbox["model"].items() if k in sent}
    model = {k: (v.double() * told[k])[None] for k, v in received.items()}
    rounding = torch.finfo(victim.view.dtype).eps * length(model)
    return bool(length(sent) < FAINT * rounding)


def _started_elsewhere(one: Candidate, other: Candidate) -> bool:
    """Did their searches start from images of their own?

    What was polished, or begun at a decoder's guess, is no witness for what it began at. L-BFGS
    draws starts of its own.
    """
    return one.restart != other.restart or (one.engine == "lbfgs") != (other.engine == "lbfgs")


def _as_likely(one: Candidate, best: Candidate) -> bool:
    """Does it match as well, and is it no rougher? Noise that matches is not a likely picture."""
    matches = one.mismatch < EQUAL * best.mismatch + EXACT
    return matches and one.variation <= EQUAL * best.variation


def apart(a: Tensor, b: Tensor, *, signal: bool) -> float:
    """Mean squared difference of two batches (B, ...) that may be in another order."""
    from scipy.optimize import linear_sum_assignment

    if not signal:
        a, b = a.clamp(0, 1), b.clamp(0, 1)
    table = (a[:, None] - b[None]).square().flatten(2).mean(2)
    rows, columns = linear_sum_assignment(torch.nan_to_num(table, nan=1e9).cpu().numpy())
    return float(table[rows, columns].mean())
