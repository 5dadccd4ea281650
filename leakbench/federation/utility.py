"""Utility metrics, as scores of test units whose mean is the metric, and how sure that mean is.

A metric that is no mean of its units (area under a curve; an equal error rate) is written as one: a
unit's score is the metric plus the unit's influence on it. The mean of these scores is the metric
exactly, and their spread is its delta-method spread, so intervals, pooling over seeds and the gate
treat every metric alike.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from leakbench.base import registry
from leakbench.base.lazy import torch
from leakbench.base.meaning import Meaning
from leakbench.base.spec import Spec
from leakbench.statistics.intervals import Estimate, Seed, estimate, pool

if TYPE_CHECKING:
    from torch import Tensor

    from leakbench.federation.defense import Defense
    from leakbench.federation.net import Net
    from leakbench.federation.parties import Client
    from leakbench.federation.task_data import TaskData


class UtilityMetric(Spec):
    """One score for each test unit, whose mean is the metric.

    Units are what is independent of each other: test images, or people of whom there are several.
    """

    meaning: ClassVar[Meaning]  # its direction is the better one
    asks: ClassVar[str] = "predict"  # the function of a method that ``ask`` calls; "": none

    def ask(self, method: Defense, net: Net, x: Tensor, me: Client) -> Tensor:
        """What a model says of test inputs ``x`` (n, ...): (n, ...).

        Or how well each fits one client, (n,): then all clients are asked, and ``scores`` gets
        their answers side by side, (n, C).
        """
        return method.predict(net, x, me)

    @abstractmethod
    def scores(self, answer: Tensor, data: TaskData, own: Tensor | None) -> Tensor:
        """(units,) float64, from what one model said of all test inputs.

        Args:
            answer: (n, ...), as ``ask`` gives it.
            data: the task's data.
            own: (C,) int64, the class that each column of ``answer`` (n, C) stands for, where the
                columns are clients; None where one model answered.
        """

    def together(self, each: Tensor, data: TaskData, own: Tensor | None) -> Tensor:
        """(units,) float64 of what several models said, ``each`` (models, n, ...).

        One for all clients, or one of each client where these keep parts of the model: the mean
        over them.
        """
        return torch.stack([self.scores(one, data, own) for one in each]).mean(0)

    @abstractmethod
    def chance(self, classes: int) -> float:
        """What the metric gives to someone who guesses, of a task of so many classes."""

    def untaught(self, data: TaskData) -> dict[str, float]:
        """What there is to be had on the test set without any training, by how.

        ``constant``: by the best answer that is the same for all inputs. ``raw``: by comparing the
        inputs themselves. A trained model that is not beyond these has learnt nothing.
        """
        return {}

    @property
    def share(self) -> bool:
        """Does a unit score 0 or 1 (ties between), so that the mean counts successes?"""
        return self.meaning.share

    def estimate(self, scores: Sequence[float], unit: str = "") -> Estimate:
        """The metric of one run, in [0, 1], with its interval."""
        unit = unit or self.meaning.unit
        units = [str(i) for i in range(len(scores))]
        # A perfect curve leaves Student without width.
        if self.share or max(scores) - min(scores) < 1e-9:
            shares = [min(max(s, 0.0), 1.0) for s in scores]
            return estimate(shares, units, share=True, low=0.0, high=1.0, unit=unit)
        found = estimate(scores, units, share=False, low=-math.inf, high=math.inf, unit=unit)
        return _clipped(found)

    def pooled(self, seeds: dict[int, Sequence[float]], unit: str = "") -> Estimate:
        """Over several seeds with the same test units, in the same order.

        Each unit is averaged over the seeds first. The interval goes from the lowest low to the
        highest high of Student over the units' means and that of ``pool``.
        """
        unit = unit or self.meaning.unit
        if len(seeds) == 1:
            [only] = seeds.values()
            return self.estimate(only, unit)
        means = [math.fsum(s) / len(s) for s in zip(*seeds.values(), strict=True)]
        units = [str(i) for i in range(len(means))]
        flat = max(means) - min(means) < 1e-9
        low, high = (0.0, 1.0) if self.share or flat else (-math.inf, math.inf)

        def within(scores: Sequence[float]) -> list[float]:
            return [min(max(v, low), high) for v in scores]

        parts: dict[int, Seed] = {s: (within(a), units, units) for s, a in seeds.items()}
        found = estimate(within(means), units, share=False, low=low, high=high, unit=unit)
        whole = pool(parts, share=self.share, low=low, high=high, unit=unit)
        wider = replace(found, low=min(found.low, whole.low), high=max(found.high, whole.high))
        return _clipped(wider)


def _clipped(e: Estimate) -> Estimate:
    value, low, high = (min(max(x, 0.0), 1.0) for x in (e.value, e.low, e.high))
    return replace(e, value=value, low=low, high=high)


@lru_cache(maxsize=64)
def _made(cls: type[UtilityMetric]) -> UtilityMetric:
    return cls()


class _Installed(Mapping[str, UtilityMetric]):
    """The utility metrics by name, found like every plugin."""

    def __getitem__(self, name: str) -> UtilityMetric:
        if name not in self:
            raise KeyError(name)
        cls: type[UtilityMetric] = registry.load_plugin("utilities", name)
        return _made(cls)

    def __contains__(self, name: object) -> bool:
        return name in registry.names("utilities")

    def __iter__(self) -> Iterator[str]:
        return iter(registry.names("utilities"))

    def __len__(self) -> int:
        return len(registry.names("utilities"))


METRICS: Mapping[str, UtilityMetric] = _Installed()


def meanings() -> dict[str, Meaning]:
    """What every installed utility metric means, by name."""
    return {name: metric.meaning for name, metric in METRICS.items()}
