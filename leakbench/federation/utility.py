"""Utility metrics, as scores of test units whose mean is the metric, and how sure that mean is.

A metric that is no mean of its units (area under a curve; an equal error rate) is written as one: a
unit's score is the metric plus the unit's influence on it. The mean of these scores is the metric
exactly, and their spread is its delta-method spread, so intervals, pooling over seeds and the gate
treat every metric alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from leakbench.base.lazy import torch
from leakbench.base.meaning import Meaning
from leakbench.statistics.intervals import Estimate, Seed, estimate, pool

if TYPE_CHECKING:
    from torch import Tensor

UNIT = "test image"


@dataclass(frozen=True)
class UtilityMetric:
    """One score for each test unit, whose mean is the metric."""

    meaning: Meaning  # its direction is the better one
    # (fits (n, K) how well each test unit fits each class, right (n, K) bool) -> (n,) float64
    score: Callable[[Tensor, Tensor], Tensor]

    @property
    def share(self) -> bool:
        """Does a unit score 0 or 1 (ties between), so that the mean counts successes?"""
        return self.meaning.share

    def estimate(self, scores: Sequence[float], unit: str = UNIT) -> Estimate:
        """The metric of one run, in [0, 1], with its interval."""
        units = [str(i) for i in range(len(scores))]
        # A perfect curve leaves Student without width.
        if self.share or max(scores) - min(scores) < 1e-9:
            shares = [min(max(s, 0.0), 1.0) for s in scores]
            return estimate(shares, units, share=True, low=0.0, high=1.0, unit=unit)
        found = estimate(scores, units, share=False, low=-math.inf, high=math.inf, unit=unit)
        return _clipped(found)

    def pooled(self, seeds: dict[int, Sequence[float]], unit: str = UNIT) -> Estimate:
        """Over several seeds with the same test units, in the same order.

        Each unit is averaged over the seeds first. The interval goes from the lowest low to the
        highest high of Student over the units' means and that of ``pool``.
        """
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


def _accuracy(fits: Tensor, right: Tensor) -> Tensor:
    """1 where the best-fitting class is the right one, ties shared."""
    best = fits >= fits.max(1, keepdim=True).values
    return (best & right).sum(1).double() / best.sum(1)


def _auroc(fits: Tensor, right: Tensor) -> Tensor:
    """Mean over classes of the area under the ROC curve of its own examples against all others.

    Area and influences are DeLong's placement values (DeLong et al. 1988): of a positive the share
    of negatives that fit worse, of a negative the share of positives that fit better, ties half.
    Classes without test examples are left out.
    """
    fits, n = fits.double(), len(fits)
    out = torch.zeros(n, dtype=torch.float64, device=fits.device)
    areas = []
    for k in (right.any(0) & ~right.all(0)).nonzero().flatten().tolist():
        own, score = right[:, k], fits[:, k]
        positive, negative = score[own], score[~own]
        above = _below(positive, negative)  # (n_pos,) negatives below each positive
        under = len(positive) - _below(negative, positive)  # (n_neg,) positives above each negative
        area = above.mean() / len(negative)
        areas.append(area)
        influence = torch.empty_like(out)
        influence[own] = (above / len(negative) - area) * n / len(positive)
        influence[~own] = (under / len(positive) - area) * n / len(negative)
        out += influence
    return (out + torch.stack(areas).sum()) / len(areas)


def _below(values: Tensor, others: Tensor) -> Tensor:
    """How many of ``others`` lie below each of ``values``, ties half."""
    line = others.sort().values
    left, right = (torch.searchsorted(line, values, right=side) for side in (False, True))
    return (left + right).double() / 2


ACCURACY = Meaning(
    name="accuracy",
    direction="up",
    low=0.0,
    high=1.0,
    unit=UNIT,
    share=True,
    margin=0.02,
    verb="has accuracy",
    about="Share of test examples classified correctly.",
    decimals=3,
)
AUROC = Meaning(
    name="auroc",
    direction="up",
    low=0.0,
    high=1.0,
    unit=UNIT,
    margin=0.02,
    title="AUROC",
    verb="has AUROC",
    about="Mean one-class area under the ROC curve: 0.5 is a coin, 1 is perfect.",
    decimals=3,
)
# Of what no task here measures yet: a run from elsewhere may.
EER = Meaning(
    name="eer",
    direction="down",
    low=0.0,
    high=1.0,
    unit="test unit",
    margin=0.02,
    title="equal error rate",
    verb="has equal error rate",
    about="Error where false accepts equal false rejects: lower is better.",
    decimals=3,
)
BLEU4 = Meaning(
    name="bleu4",
    direction="up",
    low=0.0,
    high=1.0,
    unit="test unit",
    margin=0.005,
    title="BLEU-4",
    verb="has BLEU-4",
    about="Overlap of four-word sequences with the reference text: 1 is the same text.",
    decimals=3,
)
MEANINGS = {m.name: m for m in (ACCURACY, AUROC, EER, BLEU4)}
METRICS = {
    m.meaning.name: m for m in (UtilityMetric(ACCURACY, _accuracy), UtilityMetric(AUROC, _auroc))
}
