"""scikit-learn's handwritten digits (UCI, 1,797 images of 8x8), split once."""

from __future__ import annotations

import gzip
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from leakbench.base.lazy import torch
from leakbench.base.streams import shared
from leakbench.data import official

if TYPE_CHECKING:
    from torch import Tensor

TEST, AUX = 40, 30  # of each class; the rest, 104 to 113, is for training


@cache
def _numbers() -> tuple[np.ndarray, np.ndarray]:
    """The images, 0 to 16, and their classes: what `load_digits` says.

    Read from the package's file. Importing scikit-learn takes longer than a short training, and
    each process that trains on digits would.
    """
    found = find_spec("sklearn")
    places = found.submodule_search_locations if found else None
    for place in places or ():
        path = Path(place) / "datasets" / "data" / "digits.csv.gz"
        if path.is_file():
            with gzip.open(path, "rt", encoding="utf-8") as file:
                table = np.loadtxt(file, delimiter=",")
            return table[:, :-1].reshape(-1, 8, 8), table[:, -1].astype(np.int64)
    from sklearn.datasets import load_digits

    data = load_digits()  # in whatever file a later version keeps them
    return data.images, data.target


@cache
def unofficial() -> str:
    """Why these are not the digits that are known, a clause; empty where they are."""
    images, classes = _numbers()
    return official.unlike_digits(torch.tensor(images), torch.tensor(classes))


@cache
def split() -> dict[str, tuple[Tensor, Tensor]]:
    """{"train", "test", "aux": (images, classes)}, sorted by class.

    Images (n, 1, 8, 8) float64 in [0, 1], classes (n,) int64.
    """
    images, classes = _numbers()
    x, y = torch.tensor(images / 16.0)[:, None], torch.tensor(classes, dtype=torch.int64)
    parts: dict[str, list[Tensor]] = {"train": [], "test": [], "aux": []}
    for c in range(10):
        rows = (y == c).nonzero().flatten()
        rows = rows[shared(0, "task/digits/split").permutation(str(c), len(rows))]
        parts["test"].append(rows[:TEST])
        parts["aux"].append(rows[TEST : TEST + AUX])
        parts["train"].append(rows[TEST + AUX :])
    return {name: (x[torch.cat(p)], y[torch.cat(p)]) for name, p in parts.items()}
