"""Images behind an update that was noised: the likeliest, not the best match.

An exact match of a noised gradient matches the noise. What is sent is c g(x) + noise, of a Gaussian
of any level and a scale c that clipping changes; with both profiled out, minus the log-likelihood
of images x is P/2 log(1 - cos²) of P numbers; of several updates by the same images, their sum, in
which noise cancels that was drawn anew for each. The prior is Gaussian: around the class mean of
the auxiliary images, along their principal components within classes. So a search begins at the
blind guess, and leaves it as far as the update speaks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from attacks._inversion.check import OPEN, Kept, apart, faint
from attacks._inversion.ends import measured
from attacks._inversion.stack import Stack
from attacks._inversion.victims import Candidate, Settings, Victim
from attacks._lbfgs import minimise
from leakbench.base import torch
from leakbench.federation import Examples

if TYPE_CHECKING:
    from torch import Tensor

COMPONENTS = 64  # principal ones, at most
MEMORY = 50  # pairs of L-BFGS
ENGINE = "likelihood"
ROUNDING = 1e-14  # of 1 - cos², below which nothing is left
LEAST = 20  # auxiliary examples below which there are no components


def searched(
    victims: Sequence[Victim],
    aux: Examples,
    how: Settings,
    dice: torch.Generator,
    tell: Callable[[float], None],
) -> list[list[Candidate]]:
    """``search`` for each of several; ``tell``: called with the share of the work that is done."""
    found = []
    for done, victim in enumerate(victims):
        tell(done / len(victims))
        found.append(search(victim, aux, how.steps, how.restarts, dice))
    return found


def search(
    victim: Victim, aux: Examples, steps: int, restarts: int, dice: torch.Generator
) -> list[Candidate]:
    """Where searches end, the likeliest first: from the class mean, and from draws of the prior.

    Args:
        victim: whose update is attacked.
        aux: the attacker's own examples, ``LEAST`` or more.
        steps: of each search, at most.
        restarts: searches.
        dice: of the draws.
    """
    stack = Stack([victim], torch.float64)
    mean, ways = (t.to(stack.first.device) for t in components(victim, aux))
    counts = [_numbers(one) for one in (stack, *stack.beside)]

    def images(z: Tensor) -> Tensor:
        return mean + (z.view(len(mean), -1) @ ways.flatten(1)).view_as(mean)

    def unlikely(z: Tensor) -> Tensor:
        told = z.new_zeros(())
        for count, off in zip(counts, stack.mismatches(images(z)[None], {}), strict=True):
            missed = (off[0] * (2 - off[0])).clamp(min=ROUNDING)  # 1 - cos²
            told = told + 0.5 * count * missed.log()
        return (told + 0.5 * z.square().sum()) / sum(counts)

    found = []
    for r in range(restarts):
        drawn = torch.randn(len(mean) * len(ways), generator=dice, dtype=torch.float64)
        start = drawn.to(mean) if r else torch.zeros_like(drawn).to(mean)
        z = minimise(unlikely, start, steps=steps, memory=MEMORY).x.detach()
        private = {k: victim.private[k].double() for k in victim.free}
        found.append((float(unlikely(z)), r, measured(victim, images(z), private, ENGINE, r)))
    return [made for _, _, made in sorted(found, key=lambda one: one[:2])]


def _numbers(stack: Stack) -> int:
    """How many numbers its victims' updates tell."""
    return sum(int((t != 0).sum()) for t in stack.target.values())


def judge(victim: Victim, found: Sequence[Candidate]) -> Kept:
    """The likeliest; open where the next one is elsewhere. It is never believed for its match."""
    best, signal = found[0], victim.view.facts.signal
    flags = ["gradient_vanished"] if faint(victim) else []
    shown = best.x if signal else best.x.clamp(0, 1)
    spread = float(shown.flatten(1).var(1, correction=0).mean())
    if len(found) < 2 or apart(best.x, found[1].x, signal=signal) > OPEN * spread:
        flags.append("restarts_disagree")
    return Kept(best, accepted=False, flags=tuple(flags))


def components(victim: Victim, aux: Examples) -> tuple[Tensor, Tensor]:
    """The class means (B, *shape) of a victim's labels, and principal components (D, *shape).

    On [0, 1], float64; the components as long as images within a class vary along them.
    """
    lies = victim.view.facts.input_range
    x, y = lies.unit(aux.x.double().cpu()), aux.y.cpu()
    whole, rest = x.mean(0), x.clone()
    means = {}
    for c in sorted(set(y.tolist())):
        means[c] = x[y == c].mean(0)
        rest[y == c] -= means[c]
    own = torch.stack([means.get(int(c), whole) for c in victim.labels.tolist()])
    _, scale, ways = torch.linalg.svd(rest.flatten(1), full_matrices=False)
    many = min(COMPONENTS, len(scale))
    long = ways[:many] * (scale[:many] / max(len(x) - 1, 1) ** 0.5)[:, None]
    return own, long.view(many, *x.shape[1:])
