"""The package `breaching` as a cross-check: another's search, of the same gradient and loss.

Each victim's loss is the method's own, replayed in the mode that the victim had (BatchNorm by the
batch's statistics, in training), so any method is attacked that our own engines attack. Private
inputs are taken as they are. Where the searches end is measured by our own stack.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from attacks._inversion import first_layer, package
from attacks._inversion.ends import measured
from attacks._inversion.signed_adam import patterned
from attacks._inversion.variation import weight
from attacks._inversion.victims import Candidate, Settings, Victim
from leakbench import models
from leakbench.attacking import Outline
from leakbench.base import UsageError, torch

if TYPE_CHECKING:
    from torch import Tensor

ANALYTIC = "analytic"
PATTERNED = ("modern",)  # those that start from a pattern
# Of `total_variation`, which at its default of 0.3 makes the package's own weights, to the end.
SHARES = {"invertinggradients": 2 / 3, "modern": 1 / 3}


class PackageSettings(Settings, Protocol):
    """What of the attack's fields is read here."""

    @property
    def package(self) -> str: ...


def search(
    victims: Sequence[Victim],
    how: PackageSettings,
    rng: torch.Generator,
    tell: Callable[[float], None] = lambda _: None,
) -> list[list[Candidate]]:
    """Each victim's candidates, one for every restart; one after another, in single precision.

    ``analytic`` has two at most: every other unit of the layer tells the image anew.
    """
    if how.package == ANALYTIC and any(v.behind.message.sparse for v in victims):
        raise UsageError(
            "analytic divides whole rows of slopes, and of these updates a part was not sent: use"
            " package=modern, or engine=auto."
        )
    seeds = torch.randint(2**62, (len(victims), how.restarts), generator=rng).tolist()
    if how.package == ANALYTIC:
        return [_all_measured(v, _divided(v, how)) for v in victims]
    done, all_of_it = [0], max(len(victims) * how.restarts * how.steps, 1)

    def count() -> None:
        done[0] += 1
        tell(min(done[0] / all_of_it, 1.0))

    found = []
    for victim, own in zip(victims, seeds, strict=True):
        dice = [torch.Generator().manual_seed(s) for s in own]
        found.append(_all_measured(victim, [_searched(victim, how, d, count) for d in dice]))
    return found


def refusal(run: Outline, how: PackageSettings, *, probe: bool) -> str:
    """Why the package cannot attack this run's updates; empty if it can."""
    if len(run.facts.shape) != 3:
        return f"breaching takes images (C, H, W), and inputs are {tuple(run.facts.shape)}"
    if run.method.optimizer != "sgd":
        return "breaching matches gradients, and a step of Adam is none"
    if how.package != ANALYTIC:
        return ""
    if not probe and run.method.batch > 1:
        return f"analytic tells one image from an update, and a batch has {run.method.batch}"
    if not models.first_linear(run.module(), run.facts.shape):
        return "analytic needs a net whose first layer is linear with a bias"
    return ""


def _searched(
    victim: Victim, how: PackageSettings, dice: torch.Generator, count: Callable[[], None]
) -> Tensor:
    """Where one search of one victim ends, (B, C, H, W)."""
    from attacks._inversion.packaged import VictimLoss, told

    shape, device = victim.shape, victim.replay(torch.float32).device
    if how.package in PATTERNED:
        start = patterned(shape, dice)
    else:
        start = torch.randn(*shape, generator=dice)
    tv = SHARES.get(how.package, 0.0) * weight(how.total_variation, shape[1:])
    config = package.configured(how.package, steps=how.steps, variation=tv, channels=shape[1])
    features = told(victim) if how.package == "modern" else None
    loss = VictimLoss(victim, torch.float32)
    try:
        return package.solve(
            loss,
            loss.gradient,
            start.to(device),
            config,
            generator=dice,
            features=features,
            progress=count,
        )
    finally:
        if features is not None:
            features.hook.remove()


def _divided(victim: Victim, how: PackageSettings) -> list[Tensor]:
    """The one image that the first layer read, by the package's own division."""
    found = first_layer.images(victim, min(how.restarts, 2), package.divided)
    if not found:
        raise UsageError(
            f"analytic tells one image, of a net whose first layer is linear with a bias; this"
            f" update is of {len(victim.labels)}. Take package=modern."
        )
    return found


def _all_measured(victim: Victim, ends: Sequence[Tensor]) -> list[Candidate]:
    return [measured(victim, x, {}, "breaching", r) for r, x in enumerate(ends)]
