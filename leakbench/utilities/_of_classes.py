"""What metrics of classification share: how well each test example fits each class."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from leakbench.base import torch
from leakbench.federation import TaskData, UtilityMetric, class_logits

if TYPE_CHECKING:
    from torch import Tensor


class OfClasses(UtilityMetric):
    """Of methods with class logits: their log-probabilities; else the clients' own fits."""

    def scores(self, answer: Tensor, data: TaskData, own: Tensor | None) -> Tensor:
        y = data.test.y[:, None]
        if own is not None:
            return self.score(answer, y == own)
        logits = class_logits(answer.double())
        classes = torch.arange(logits.shape[-1], device=y.device)
        return self.score(logits.log_softmax(-1), y == classes)

    @abstractmethod
    def score(self, fits: Tensor, right: Tensor) -> Tensor:
        """(n,) float64, from how well each test example fits each class, (n, K), and which is its.

        ``right``: (n, K) bool.
        """
