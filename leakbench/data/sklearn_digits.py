"""scikit-learn's handwritten digits (UCI, 1,797 images of 8x8), split once: a class has a test, an
auxiliary and a train part.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from leakbench.base.streams import shared

TEST, AUX = 40, 30  # of each class; the rest, 104 to 113, is for training


@cache
def split() -> dict[str, tuple[Tensor, Tensor]]:
    """{"train" | "test" | "aux": (x (n, 1, 8, 8) float64 in [0, 1], y (n,) int64)}, sorted by
    class.
    """
    from sklearn.datasets import load_digits

    data = load_digits()
    x, y = torch.tensor(data.images / 16.0)[:, None], torch.tensor(data.target, dtype=torch.int64)
    parts: dict[str, list[Tensor]] = {"train": [], "test": [], "aux": []}
    for c in range(10):
        rows = (y == c).nonzero().flatten()
        rows = rows[shared(0, "task/digits/split").permutation(str(c), len(rows))]
        for name, part in zip(
            ("test", "aux", "train"),
            (rows[:TEST], rows[TEST : TEST + AUX], rows[TEST + AUX :]),
            strict=True,
        ):
            parts[name].append(part)
    return {name: (x[torch.cat(p)], y[torch.cat(p)]) for name, p in parts.items()}
