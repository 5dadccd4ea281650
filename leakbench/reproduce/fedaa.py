"""FedAA (Chen et al., MM 2023), image classification: Tables 1, 2, 3 and 5.

Its figures are in ``fedaa_variance`` and ``fedaa_names``.
"""

from __future__ import annotations

from collections.abc import Sequence

from leakbench.reproduce.fedaa_setups import (
    ABLATED,
    CIFAR10,
    CIFAR10_MOBILE,
    CIFAR100,
    CIFAR100_MOBILE,
    COMPARED,
    DIGITS,
    DIGITS_10,
    DIGITS_100,
    ISLANDS,
    MOBILE,
    NORMED,
    RECORD,
    TWICE,
    at,
    cases,
)
from leakbench.reproduce.orders import Less
from leakbench.reproduce.recipe import Measure, Recipe, Scale
from leakbench.reproduce.statements import Order

BEST = Measure("best", "best accuracy", statistic="best")
FINAL = Measure("final", "final accuracy", printed=False)
LAST10 = Measure("last10", "mean of the last ten", statistic="last10", printed=False)
ACCURACY = (BEST, FINAL, LAST10)

CHOICES = (
    (
        "The paper's number is the best of 100 rounds, chosen on the test set (\"the 95 %"
        ' confidence interval over the highest results"): it stands beside our best. The final'
        " round and the mean of the last ten say what a user would get."
    ),
    (
        "The paper does not say of how many runs its interval is; its CIFAR-100 means of Table 1"
        " are multiples of 1/30, as of three runs on 1,000 test images."
    ),
    (
        "Local epochs: 10 and 1 for FedAA, 11 for the others, of whom the paper is silent."
        " FedProx's µ is the best of 0.001, 0.01, 0.1 and 1, MOON's of 0.1, 1, 5 and 10, as their"
        " own papers tried them; MOON's temperature is 0.5."
    ),
    (
        "FedBN's network has a BatchNorm behind each convolution, the paper's none. Its accuracy is"
        " the mean over clients, each with its own."
    ),
    (
        "FedAA: 32 examples for a label, 10 full-batch steps of SGD for Eq. 5, at the clients'"
        " rate; more in `leakbench show fedaa`."
    ),
)
DRAWN = (
    "The ten classes of CIFAR-100 are drawn from a named stream: the paper does not name its own."
)
HELP = "the paper has this ablation with 100 clients alone"
_SMOKED = {c: ("small", "full") for c in ISLANDS if c != 1}


def beats(
    better: str,
    worse: str,
    fractions: Sequence[float],
    *,
    said: str = "",
    datasets: tuple[str, ...] = (),
) -> Less:
    """``better`` is above ``worse`` at every C."""
    text = said or f"{better} beats {worse}"
    return Less(
        text, BEST.key, datasets, pairs=tuple((at(worse, c), at(better, c)) for c in fractions)
    )


def _against(
    fractions: Sequence[float], others: Sequence[str] = ("FedAvg", "FedBN", "MOON")
) -> tuple[Order, ...]:
    return tuple(beats("FedAA", m, fractions) for m in others)


def _ablation(fractions: Sequence[float]) -> tuple[Order, ...]:
    return (
        beats("Non-I", "FedAvg", fractions, said="fine-tuning alone beats FedAvg (Non-I)"),
        beats("Non-F", "FedAvg", fractions, said="the identifier alone beats FedAvg (Non-F)"),
        beats(
            "FedAA",
            "Non-I",
            fractions,
            said="the identifier adds to fine-tuning (FedAA beats Non-I)",
        ),
        beats(
            "FedAA",
            "Non-F",
            fractions,
            said="fine-tuning adds to the identifier (FedAA beats Non-F)",
        ),
        beats(
            "FedAA",
            "Neither",
            fractions,
            said="both together beat two averages a round alone (FedAA beats Neither, ours)",
        ),
    )


def islands(smoke: str, small: str, full: str) -> dict[str, Scale]:
    """Ten clients, of Table 1 and Figure 5; about how long each scale takes."""
    return {
        "smoke": Scale(smoke, (DIGITS,), seeds=(0, 1, 2), record=RECORD),
        "small": Scale(small, (CIFAR100.smaller,), record=RECORD),
        "full": Scale(full, (CIFAR10.full, CIFAR100.full), seeds=(0, 1, 2), record=RECORD),
    }


TABLE1 = Recipe(
    name="fedaa-table1",
    paper="fedaa",
    about="FedAA, Table 1: accuracy on data islands, 10 clients with one class each.",
    cases=(
        *cases(COMPARED, ISLANDS, scales=_SMOKED),
        *cases(ABLATED, ISLANDS, HELP, scales=_SMOKED),
        *cases(("Neither",), ISLANDS, TWICE, scales=_SMOKED),
        *cases(("FedAvg+BN",), ISLANDS, NORMED, scales=_SMOKED),
    ),
    measures=ACCURACY,
    scales=islands(
        "7 minutes on two cores",
        "two to five minutes a run and core, 27 runs",
        "some hours on one GPU, never tried",
    ),
    orders=(
        *_against(ISLANDS),
        beats("FedAA", "FedProx", ISLANDS, datasets=("cifar100",)),
        beats(
            "FedAA",
            "FedProx",
            ISLANDS[:2],
            datasets=("cifar10",),
            said="FedAA beats FedProx, but at C = 1",
        ),
        beats(
            "FedProx",
            "FedAA",
            ISLANDS[2:],
            datasets=("cifar10",),
            said="FedProx beats FedAA at C = 1 (the paper's own exception)",
        ),
        *_ablation(ISLANDS),
        beats(
            "FedBN",
            "FedAvg+BN",
            ISLANDS,
            said="what stays with the client gains something (FedBN beats FedAvg+BN, ours)",
        ),
    ),
    figure="fractions",
    choices=(*CHOICES, DRAWN),
)
TABLE2 = Recipe(
    name="fedaa-table2",
    paper="fedaa",
    about=(
        "FedAA, Table 2: accuracy on mobile terminals, 100 clients with one class-sorted shard"
        " each."
    ),
    cases=tuple(cases(COMPARED, MOBILE)),
    measures=ACCURACY,
    scales={
        "smoke": Scale("3 minutes on two cores", (DIGITS_10,), record=RECORD),
        "small": Scale(
            "about three hours on two cores, never tried",
            (CIFAR10_MOBILE.smaller, CIFAR100_MOBILE.smaller),
            record=RECORD,
        ),
        "full": Scale(
            "some hours on one GPU, never tried",
            (CIFAR10_MOBILE.full, CIFAR100_MOBILE.full),
            seeds=(0, 1, 2),
            record=RECORD,
        ),
    },
    orders=_against(MOBILE, ("FedAvg", "FedProx", "FedBN", "MOON")),
    figure="fractions",
    choices=CHOICES,
)


def _hundred(times: Sequence[str]) -> dict[str, Scale]:
    """CIFAR-100 with 100 clients, of Tables 3 and 5."""
    smoke, small, full = times
    return {
        "smoke": Scale(smoke, (DIGITS_100,), record=RECORD),
        "small": Scale(small, (CIFAR100_MOBILE.smaller,), record=RECORD),
        "full": Scale(full, (CIFAR100_MOBILE.full,), seeds=(0, 1, 2), record=RECORD),
    }


TABLE3 = Recipe(
    name="fedaa-table3",
    paper="fedaa",
    about=(
        "FedAA, Table 3: accuracy without identifiers (Non-I) and without fine-tuning (Non-F), 100"
        " clients."
    ),
    cases=(*cases((*ABLATED, "FedAvg", "FedAA"), MOBILE), *cases(("Neither",), MOBILE, TWICE)),
    measures=ACCURACY,
    scales=_hundred(
        (
            "4 minutes on two cores",
            "an hour and a half on two cores, never tried",
            "some hours on one GPU, never tried",
        )
    ),
    orders=_ablation(MOBILE),
    figure="fractions",
    choices=(*CHOICES, "FedAA's own numbers are those of Table 2."),
)
TABLE5 = Recipe(
    name="fedaa-table5",
    paper="fedaa",
    about=(
        "FedAA, Table 5: accuracy of FedProx with and without adversarial examples and identifiers,"
        " 100 clients, C = 0.3."
    ),
    cases=tuple(cases(("FedAvg", "FedAA", "FedProx", "FedProxAA"), MOBILE[2:])),
    measures=ACCURACY,
    scales=_hundred(
        (
            "2 minutes on two cores",
            "half an hour on two cores, too little to learn from",
            "an hour on one GPU, never tried",
        )
    ),
    orders=(
        beats("FedAA", "FedAvg", MOBILE[2:]),
        beats(
            "FedProxAA",
            "FedProx",
            MOBILE[2:],
            said="what is added helps FedProx, too (FedProxAA beats FedProx)",
        ),
        beats(
            "FedProxAA",
            "FedAA",
            MOBILE[2:],
            said="the better method stays better (FedProxAA beats FedAA)",
        ),
    ),
    figure="fractions",
    choices=CHOICES,
)

RECIPES = (TABLE1, TABLE2, TABLE3, TABLE5)
