"""FedAA's Figure 8 (and 9): distance correlation of images with label names and with noise.

The noise is Gaussian; beside each number stands what it is by chance.

No run is made: the numbers are of n training images drawn at random, and of what could be sent of
them.
"""

from __future__ import annotations

import json
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING

from leakbench.base import registry
from leakbench.base.lazy import torch
from leakbench.base.spec import canonical
from leakbench.base.streams import Rng, shared
from leakbench.reproduce.orders import Equals, Less
from leakbench.reproduce.recipe import SCALES, Case, Measure, Params, Recipe, Scale, Setup

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
MAPPED = 500  # n of the heat map
SAMPLES: dict[int, tuple[str, ...]] = {
    100: SCALES,
    MAPPED: SCALES,
    1000: ("smoke",),
    2000: ("small", "full"),
    4000: ("full",),
}


def correlation(setup: Setup, params: Params, seed: int) -> dict[str, float]:
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


def label(x: str, y: str, n: int) -> str:
    """A row of the table: a cell of the heat map at ``n``."""
    return f"{x} and {y}, n = {n:,}"


def _case(x: str, y: str, n: int) -> Case:
    ours = ""
    if OWN in (x, y):
        ours = "each image with the name that its client shared, over all clients of one class each"
    return Case(label(x, y, n), "", {"x": x, "y": y, "n": n}, ours, SAMPLES[n])


_PAIRS = [(RAW, y, n) for n in SAMPLES for y in SETS[1:]]
_PAIRS += [(x, y, MAPPED) for x, y in combinations(SETS[1:], 2)]


def _less(said: str, measure: str, low: tuple[str, ...], high: tuple[str, ...]) -> Less:
    """Images correlate less with each of ``low`` than with each of ``high``, at every n."""
    pairs = [(label(RAW, a, n), label(RAW, b, n)) for n in SAMPLES for a in low for b in high]
    return Less(said, measure, pairs=tuple(pairs))


def _setup(dataset: str, stand_in: str = "", needs: str = "") -> Setup:
    return Setup(dataset, needs or "digits", 0, stand_in=stand_in, needs=needs)


_CIFAR = (_setup("cifar10", needs="cifar10"), _setup("cifar100", needs="cifar100"))
RECIPE = Recipe(
    name="fedaa-figure8",
    paper="fedaa",
    about=(
        "FedAA, Figures 8 and 9: distance correlation of images, label names and Gaussian noise,"
        " with and without its bias."
    ),
    cases=tuple(_case(*pair) for pair in _PAIRS),
    measures=(
        Measure("r2", "R² (Eq. 13)", "dcor2"),
        Measure("r2_null", "R² of random pairs", "dcor2", printed=False),
        Measure("r", "R, its root", "dcor", printed=False),
        Measure("corrected", "corrected R²", "dcor2_corrected", printed=False),
        Measure("corrected_high", "97.5 % of random pairs below", "dcor2_corrected", printed=False),
    ),
    scales={
        "smoke": Scale(
            "half a minute on one core",
            (_setup("cifar10", "scikit-learn's 8x8 digits in place of CIFAR-10"),),
            seeds=(0, 1, 2, 3, 4),
        ),
        "small": Scale("4 minutes on one core", _CIFAR, seeds=(0, 1, 2)),
        "full": Scale("half an hour on one core", _CIFAR, seeds=(0, 1, 2, 3, 4)),
    },
    orders=(
        _less(
            "names correlate less with images than Gaussian noise does (R², as the paper has it)",
            "r2",
            (ONE, ALL),
            (GAUSS1, GAUSS2),
        ),
        _less(
            "so do even the images' own names (R², ours): then this comparison shows nothing",
            "r2",
            (OWN,),
            (GAUSS1, GAUSS2),
        ),
        _less(
            "without the bias noise correlates less with images than their own names do (ours)",
            "corrected",
            (GAUSS1, GAUSS2),
            (OWN,),
        ),
        Equals(
            "without the bias noise and shuffled names do not correlate with images at all (ours)",
            "corrected",
            values=tuple((label(RAW, y, n), 0.0) for n in SAMPLES for y in (ALL, GAUSS1, GAUSS2)),
            tolerance=0.005,
        ),
    ),
    figure="names",
    choices=(
        (
            "The paper does not say of how many images its heat map is, nor which Gaussians; ours"
            " are N(0, 1) and N(0.5, 0.25), of the images' shape: distance correlation feels"
            " neither shift nor scale, so the two are one to it."
        ),
        (
            "R_n² of Eq. 13 is a ratio without a root. With more dimensions than images it is far"
            " above 0 for whatever has nothing to do with the images, and the more so the more"
            " dimensions that has: so noise of the images' shape stands above names of a few"
            " numbers. Random pairs of the same rows say how much of it is that; the corrected R²"
            " (Székely and Rizzo 2013) has mean 0 there."
        ),
        (
            "1 shared name is constant within a client: R² is 0/0, by convention 0. That says"
            " nothing about what the name tells: over all clients it is the label of each image,"
            " which stands here as own names."
        ),
        (
            "Numbers are means over draws of the images, noise and shuffles, with Student's"
            " interval over draws."
        ),
    ),
    study=correlation,
)
