"""Accuracy: the share of test examples whose best-fitting class is the right one."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from leakbench.base import Meaning
from leakbench.utilities._of_classes import OfClasses

if TYPE_CHECKING:
    from torch import Tensor

    from leakbench.federation import TaskData


class Accuracy(OfClasses):
    """1 where the best-fitting class is the right one, ties shared."""

    meaning: ClassVar[Meaning] = Meaning(
        name="accuracy",
        direction="up",
        low=0.0,
        high=1.0,
        unit="test image",
        share=True,
        margin=0.02,
        verb="has accuracy",
        about="Share of test examples classified correctly.",
        decimals=3,
    )

    def score(self, fits: Tensor, right: Tensor) -> Tensor:
        best = fits >= fits.max(1, keepdim=True).values
        return (best & right).sum(1).double() / best.sum(1)

    def untaught(self, data: TaskData) -> dict[str, float]:
        """The share of the test set's most frequent class."""
        return {"constant": int(data.test.y.bincount().max()) / len(data.test)}

    def chance(self, classes: int) -> float:
        return 1 / classes
