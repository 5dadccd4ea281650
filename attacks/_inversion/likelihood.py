"""Images behind an update that was noised: the likeliest, not the best match.

An exact match of a noised gradient matches the noise. What is sent is c g(x) + noise, of a Gaussian
of any level and a scale c that clipping changes; with both profiled out, minus the log-likelihood
of images x is P/2 log(1 - cos²) of P numbers; of several updates by the same images, their sum, in
which noise cancels that was drawn anew for each. The prior is Gaussian, about the class mean of the
auxiliary images (``_input_prior``). So a search begins about the blind guess, and leaves it as far
as the update speaks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from attacks._input_prior import InputPrior
from attacks._inversion.check import OPEN, Kept, apart, faint
from attacks._inversion.ends import measured
from attacks._inversion.stack import Stack
from attacks._inversion.victims import Candidate, Settings, Victim
from attacks._lbfgs import minimise
from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor

NEAR = 0.1  # of the prior's spread: images of a class that begin as one remain one
MEMORY = 50  # pairs of L-BFGS
ENGINE = "likelihood"
ROUNDING = 1e-14  # of 1 - cos², below which nothing is left


def searched(
    victims: Sequence[Victim],
    prior: InputPrior,
    how: Settings,
    dice: torch.Generator,
    tell: Callable[[float], None],
) -> list[list[Candidate]]:
    """``search`` for each of several; ``tell``: called with the share of the work that is done."""
    found = []
    for done, victim in enumerate(victims):
        tell(done / len(victims))
        found.append(search(victim, prior, how.steps, how.restarts, dice))
    return found


def search(
    victim: Victim, prior: InputPrior, steps: int, restarts: int, dice: torch.Generator
) -> list[Candidate]:
    """Where searches end, the likeliest first: from about the class mean, then from further off.

    Args:
        victim: whose update is attacked.
        prior: which images are likely.
        steps: of each search, at most.
        restarts: searches.
        dice: of the draws.
    """
    stack, labels = Stack([victim], torch.float64), victim.labels.tolist()
    counts = stack.numbers[0]
    size, device = prior.size(labels), stack.first.device

    def unlikely(z: Tensor) -> Tensor:
        z = z.view(len(labels), size)
        x = prior.inputs(labels, z)
        off = stack.mismatches(x[None], {})[0]
        missed = (off * (2 - off)).clamp(min=ROUNDING)  # 1 - cos²
        return (prior.unlikely(x, z) + 0.5 * (counts * missed.log()).sum()) / counts.sum()

    found = []
    for r in range(restarts):
        drawn = torch.randn(len(labels) * size, generator=dice, dtype=torch.float64)
        start = (drawn if r else NEAR * drawn).to(device)
        z = minimise(unlikely, start, steps=steps, memory=MEMORY).x.detach()
        private = {k: victim.private[k].double() for k in victim.free}
        x = prior.inputs(labels, z.view(len(labels), size))
        found.append((float(unlikely(z)), r, measured(victim, x, private, ENGINE, r)))
    return [made for _, _, made in sorted(found, key=lambda one: one[:2])]


def judge(victim: Victim, found: Sequence[Candidate]) -> Kept:
    """The likeliest; open where the next one is elsewhere. It is never believed for its match."""
    best, signal = found[0], victim.view.facts.signal
    flags = ["gradient_vanished"] if faint(victim) else []
    shown = best.x if signal else best.x.clamp(0, 1)
    spread = float(shown.flatten(1).var(1, correction=0).mean())
    if len(found) < 2 or apart(best.x, found[1].x, signal=signal) > OPEN * spread:
        flags.append("restarts_disagree")
    return Kept(best, accepted=False, flags=tuple(flags))
