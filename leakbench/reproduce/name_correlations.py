"""FedAA's Figure 8 (and 9): distance correlation of images with label names and with noise.

The noise is Gaussian; beside each number stands what it is by chance.

No run is made: the numbers are of n training images drawn at random, and of what could be sent of
them.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING

from leakbench.base import registry
from leakbench.base.lazy import torch
from leakbench.base.spec import canonical
from leakbench.base.streams import Rng, shared
from leakbench.reproduce.recipe import Params, Setup

if TYPE_CHECKING:
    from torch import Tensor

    from leakbench.federation.task_data import Examples

RAW, ONE, ALL, OWN, GAUSS1, GAUSS2 = (
    "raw data",
    "1 shared name",
    "all shared names",
    "own names",
    "Gaussian 1",
    "Gaussian 2",
)
SETS = (RAW, ONE, ALL, OWN, GAUSS1, GAUSS2)
PERMUTATIONS = 200


def name_correlations(setup: Setup, params: Params, seed: int) -> dict[str, float]:
    """Distance correlation of two of ``SETS``, row by row, and of random pairings of the same rows.

    ``r2`` is the paper's estimator, R_n^2 of its Eq. 13: a ratio of means over all pairs of rows,
    with no root over it. ``r`` is its root, which Székely et al. call distance correlation and
    leakbench's columns `dcor`. Both are above 0 by bias alone, the more the fewer rows and the more
    dimensions. ``corrected`` is without that bias. ``_null``: the mean over ``PERMUTATIONS`` random
    pairings; ``corrected_high``: what 97.5 % of them stay below.

    Args:
        setup: whose task's training images are taken.
        params: ``x`` and ``y``, of ``SETS``; ``n``, how many images.
        seed: of the draw of rows, noise and pairings.

    Raises:
        ValueError: there are fewer than n images.
    """
    from leakbench.statistics import distance_correlation

    train = _train(setup.task, canonical(dict(setup.task_params)))
    n, dice = int(params["n"]), shared(seed, "reproduce/fedaa-figure8")
    if n > len(train):
        raise ValueError(
            f"expected at most the {len(train)} training images of {setup.task}, got n = {n}."
            " Take fewer."
        )
    rows = dice.permutation("rows", len(train))[:n]
    x, y = (_set(str(params[k]), train, rows, dice) for k in ("x", "y"))
    found = distance_correlation.correlations(x, y)
    generator = torch.Generator().manual_seed(seed)
    null = distance_correlation.permuted(x, y, generator=generator, permutations=PERMUTATIONS)
    corrected = null["dcor2_corrected"]
    return {
        "r2": found["dcor"] ** 2,
        "r2_null": float(null["dcor"].square().mean()),
        "r": found["dcor"],
        "corrected": found["dcor2_corrected"],
        "corrected_high": float(corrected.quantile(0.975)),
    }


@lru_cache(maxsize=2)
def _train(task: str, params: str) -> Examples:
    """The training images of a task, for all of its pairs."""
    made = registry.load_plugin("tasks", task).build(json.loads(params), f"task {task}")
    examples: Examples = made.load().train
    return examples


def _set(name: str, train: Examples, rows: Tensor, dice: Rng) -> Tensor:
    """(n, ...): what is paired, row i belonging to the i-th of ``rows``.

    It is the same for a name and a draw, whatever it is paired with.
    """
    n, shape = len(rows), train.stored.shape[1:]
    classes = int(train.y.max()) + 1
    names = torch.nn.functional.one_hot(train.y[rows], classes).double()
    if name == RAW:
        return train.images(rows).double()
    if name == ONE:
        return names[:1].expand(n, classes)
    if name == OWN:
        return names
    if name == ALL:
        return names[dice.permutation("shuffled", n)]
    mean, std = {GAUSS1: (0.0, 1.0), GAUSS2: (0.5, 0.5)}[name]
    return mean + std * dice.normal(name, n, *shape)
