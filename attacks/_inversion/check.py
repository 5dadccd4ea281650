"""Which candidate an attack keeps, and whether it believes it: without the truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from attacks._inversion.signed_adam import FALL
from attacks._inversion.variation import weight
from attacks._inversion.victims import Candidate, Settings, Victim

MATCHED = 1e-3  # mismatch above which nothing is believed
AGREE = 0.01  # mean squared difference (20 dB) up to which two searches found the same image
FELL = 0.5  # a mismatch above says that the search never got off the ground


@dataclass(frozen=True)
class Kept:
    """What is kept of a victim's candidates."""

    best: Candidate
    accepted: bool
    flags: tuple[str, ...] = ()


def judge(victim: Victim, candidates: Sequence[Candidate], how: Settings) -> Kept:
    """The candidate of the least objective; believed where another start led to the same images.

    The objective is the mismatch and, so that of images that match alike the likelier is kept, a
    trace of the total variation. A match alone says nothing: of a batch a small net's gradient
    holds less than the images do, and noise matches it as well.
    """
    trace = FALL**2 * weight(how.total_variation, victim.view.facts.shape)
    best = min(candidates, key=lambda c: c.mismatch + trace * c.variation)
    signal = victim.view.facts.signal
    others = [c for c in candidates if c.restart != best.restart or c.engine != best.engine]
    rivals = [c for c in others if c.mismatch < 10 * best.mismatch + 1e-8]
    independent = [c for c in rivals if _started_elsewhere(c, best)]
    agree = [c for c in independent if apart(best.x, c.x, signal=signal) < AGREE]
    flags = ["loss_did_not_fall"] if best.mismatch > FELL else []
    if independent and not agree:
        flags.append("restarts_disagree")
    return Kept(best, bool(agree) and best.mismatch < MATCHED, tuple(flags))


def _started_elsewhere(one: Candidate, other: Candidate) -> bool:
    """A polished candidate is no witness for the one that it was polished from."""
    same = {one.engine, other.engine} == {"polished", "signed_adam"}
    return not (same and one.restart == other.restart)


def apart(a: Tensor, b: Tensor, *, signal: bool) -> float:
    """Mean squared difference of two batches (B, ...) that may be in another order."""
    if not signal:
        a, b = a.clamp(0, 1), b.clamp(0, 1)
    table = (a[:, None] - b[None]).square().flatten(2).mean(2)
    rows, columns = linear_sum_assignment(torch.nan_to_num(table, nan=1e9).cpu().numpy())
    return float(table[rows, columns].mean())
