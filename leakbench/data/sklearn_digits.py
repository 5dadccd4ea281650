"""scikit-learn's handwritten digits (UCI, 1,797 images of 8x8), split once."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from leakbench.base.lazy import torch
from leakbench.base.streams import shared
from leakbench.data import official

if TYPE_CHECKING:
    from torch import Tensor

TEST, AUX = 40, 30  # of each class; the rest, 104 to 113, is for training


@cache
def unofficial() -> str:
    """Why these are not the digits that are known, a clause; empty where they are."""
    from sklearn.datasets import load_digits

    data = load_digits()
    return official.unlike_digits(torch.tensor(data.images), torch.tensor(data.target))


@cache
def split() -> dict[str, tuple[Tensor, Tensor]]:
    """{"train", "test", "aux": (images, classes)}, sorted by class.

    Images (n, 1, 8, 8) float64 in [0, 1], classes (n,) int64.
    """
    from sklearn.datasets import load_digits

    data = load_digits()
    x, y = torch.tensor(data.images / 16.0)[:, None], torch.tensor(data.target, dtype=torch.int64)
    parts: dict[str, list[Tensor]] = {"train": [], "test": [], "aux": []}
    for c in range(10):
        rows = (y == c).nonzero().flatten()
        rows = rows[shared(0, "task/digits/split").permutation(str(c), len(rows))]
        parts["test"].append(rows[:TEST])
        parts["aux"].append(rows[TEST : TEST + AUX])
        parts["train"].append(rows[TEST + AUX :])
    return {name: (x[torch.cat(p)], y[torch.cat(p)]) for name, p in parts.items()}
