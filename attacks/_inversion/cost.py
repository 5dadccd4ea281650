"""How long an inversion takes, before it is begun."""

from __future__ import annotations

from typing import Protocol

from attacks import _updates
from attacks._inversion import labels as class_labels
from attacks._inversion import priors
from attacks._inversion.engines import LONGER
from attacks._inversion.stack import MOST
from attacks._inversion.victims import ROUGH, Settings
from leakbench.attacking import Outline
from leakbench.base import torch

# Of a step besides its operations, how many times the net's operations it makes, and how many of
# these two cores make in a second.
OVERHEAD, GRADIENTS, SPEED = 0.004, 9, 4e10
SMALL, ABREAST = MOST["cpu"][0][0], 8  # weights up to which eight rounds take as long as one more
POLISHED = 4  # searches by L-BFGS, one victim at a time, of "auto" where a net has no kinks


class CostSettings(Settings, Protocol):
    """What of the attack's fields is read here."""

    @property
    def engine(self) -> str: ...
    @property
    def labels(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def prior(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def targets(self) -> int: ...
    @property
    def together(self) -> int: ...


def seconds(run: Outline, how: CostSettings) -> float:
    """Of one update and its control, on two cores."""
    from torch.utils.flop_counter import FlopCounterMode

    taken = _updates.fewest(run, probe=False) if how.message == "update" else 1
    images = run.method.batch * taken if how.message == "update" else 1
    module = run.module()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        module(run.blank())
    weights = sum(p.numel() for p in module.parameters())
    each = len(run.behind) / run.facts.clients if how.source == "pooled" else 1  # of a client's
    many = min(max(each, 1), how.together)
    size = next((count for most, count in MOST["cpu"] if weights <= most), 1)
    size = min(size, max(how.targets * how.restarts, 1))
    images_too = GRADIENTS * images * many * counter.get_total_flops() / SPEED

    def once(victims: int) -> float:  # of one of so many that are searched side by side
        rows = victims * many
        at_once = 1 + rows / ABREAST if rows > 1 and weights <= SMALL else rows
        return taken * OVERHEAD * at_once / victims + images_too

    rough = tuple(getattr(torch.nn, name) for name in ROUGH)
    kinks = any(isinstance(m, rough) for m in module.modules())
    auto = how.engine == "auto" and how.prior != "principal"
    alone = POLISHED if auto and not kinks else int(how.engine in ("lbfgs", "breaching"))
    beside = 0 if alone == 1 else 1
    beside += LONGER if taken == 1 and run.method.optimizer == "adam" else 0
    step = alone * once(1) + beside * once(size)
    step *= how.restarts * (class_labels.TRIED if how.labels == "solved" else 1)
    taught = 0.0
    if how.prior == "decoder":  # of simple gradients, a third of the operations each
        count = min(priors.COUNT, run.auxiliary)
        taught = len(priors.NEAR) * (count * once(1) / 3 + priors.SOLVED)
    return 2 * how.steps * step + taught
