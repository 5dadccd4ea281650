"""AUROC: the area under the ROC curve of one class against the others, mean over classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from leakbench.base import Meaning, UsageError, torch
from leakbench.utilities._of_classes import OfClasses

if TYPE_CHECKING:
    from torch import Tensor


class Auroc(OfClasses):
    """Mean over classes of the area under the ROC curve of its own examples against all others.

    Area and influences are DeLong's placement values (DeLong et al. 1988): of a positive the share
    of negatives that fit worse, of a negative the share of positives that fit better, ties half.
    Classes without test examples are left out.

    Raises:
        UsageError: all test examples are of one class.
    """

    meaning: ClassVar[Meaning] = Meaning(
        name="auroc",
        direction="up",
        low=0.0,
        high=1.0,
        unit="test image",
        margin=0.02,
        title="AUROC",
        verb="has AUROC",
        about="Mean one-class area under the ROC curve: 0.5 is a coin, 1 is perfect.",
        decimals=3,
    )

    def score(self, fits: Tensor, right: Tensor) -> Tensor:
        fits, n = fits.double(), len(fits)
        out = torch.zeros(n, dtype=torch.float64, device=fits.device)
        areas, ranked = [], (right.any(0) & ~right.all(0)).nonzero().flatten().tolist()
        if not ranked:
            raise UsageError(
                "task.utility = 'auroc' ranks the test examples of a class among those of others,"
                " but all are of one. Take another utility metric."
            )
        for k in ranked:
            own, score = right[:, k], fits[:, k]
            positive, negative = score[own], score[~own]
            above = _below(positive, negative)  # (n_pos,) negatives below each positive
            # (n_neg,) positives above each negative
            under = len(positive) - _below(negative, positive)
            area = above.mean() / len(negative)
            areas.append(area)
            influence = torch.empty_like(out)
            influence[own] = (above / len(negative) - area) * n / len(positive)
            influence[~own] = (under / len(positive) - area) * n / len(negative)
            out += influence
        return (out + torch.stack(areas).sum()) / len(areas)

    def chance(self, classes: int) -> float:
        return 0.5


def _below(values: Tensor, others: Tensor) -> Tensor:
    """How many of ``others`` lie below each of ``values``, ties half."""
    line = others.sort().values
    left, right = (torch.searchsorted(line, values, right=side) for side in (False, True))
    return (left + right).double() / 2
