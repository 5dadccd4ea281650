"""How long an inversion takes, before it is begun."""

from __future__ import annotations

from typing import Protocol

from attacks import _updates
from attacks._inversion import labels as class_labels
from attacks._inversion import priors
from attacks._inversion.engines import LONGER
from attacks._inversion.victims import Settings
from leakbench.attacking import Outline
from leakbench.base import torch

# Of a step besides its operations, how many times the net's operations it makes, and how many of
# these two cores make in a second.
OVERHEAD, GRADIENTS, SPEED = 0.004, 9, 4e10
ENGINES = {"auto": 5}  # searches of a start; of the others one


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


def seconds(run: Outline, how: CostSettings) -> float:
    """Of one update and its control, on two cores."""
    from torch.utils.flop_counter import FlopCounterMode

    taken = _updates.fewest(run, probe=False) if how.message == "update" else 1
    images = run.method.batch * taken if how.message == "update" else 1
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        run.module()(run.blank())
    once = taken * OVERHEAD + GRADIENTS * images * counter.get_total_flops() / SPEED
    signs = LONGER if taken == 1 and run.method.optimizer == "adam" else 0
    searches = (ENGINES.get(how.engine, 1) + signs) * how.restarts
    searches *= class_labels.TRIED if how.labels == "solved" else 1
    taught = 0.0
    if how.prior == "decoder":  # of simple gradients, a third of the operations each
        count = min(priors.COUNT, run.auxiliary)
        taught = len(priors.NEAR) * (count * once / 3 + priors.SOLVED)
    rounds = {t for t, _, _ in run.behind} if how.source == "pooled" else {run.rounds}
    together = min(len(rounds), _updates.TOGETHER)
    return 2 * searches * how.steps * once * together + taught
