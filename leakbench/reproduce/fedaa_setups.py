"""FedAA's methods and setups: data islands and mobile terminals at three scales.

The recipes of its tables and figures are made of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from leakbench.record.policy import Policy
from leakbench.reproduce.recipe import BY_HAND, SCALES, Case, Params, Setup

# What a user would change to make it smaller or larger.
SMOKE_ROUNDS, SMOKE_MOBILE_ROUNDS, SMOKE_MOBILE_LR = 30, 20, 0.02
SMALL_ROUNDS, SMALL_WIDTH, SMALL_IMAGES = 40, 8, 50
SMALL_ISLANDS_ROUNDS, SMALL_ISLANDS_IMAGES, SMALL_LR, SMALL_EXAMPLES = 40, 100, 0.01, 8
ISLANDS, MOBILE = (0.5, 0.8, 1.0), (0.1, 0.2, 0.3)

# For methods whose own values are other papers'.
LOCAL = {"average": "weighted", "steps": 0, "epochs": 11}
METHODS: dict[str, tuple[str, Params]] = {
    "FedAvg": ("fedavg", LOCAL),
    "FedProx": ("fedprox", {**LOCAL, "mu": 0.01}),
    "FedBN": ("fedbn", {}),
    "FedAvg+BN": ("fedbn", {"private": False}),
    "MOON": ("moon", {"temperature": 0.5}),
    "FedAA": ("fedaa", {}),
    "Non-I": ("fedaa", {"identifier": False}),
    "Non-F": ("fedaa", {"fine_tune": False}),
    "Neither": ("fedaa", {"identifier": False, "fine_tune": False}),
    "FedProxAA": ("fedaa", {"local": "fedprox", "mu": 0.01}),
}
# Which of these the paper took it does not say; each is what the method's own paper tried.
_PROXIMAL = ("mu", (0.001, 0.01, 0.1, 1.0))
SWEEPS: dict[str, tuple[str, tuple[float, ...]]] = {
    "FedProx": _PROXIMAL,
    "FedProxAA": _PROXIMAL,
    "MOON": ("mu", (0.1, 1.0, 5.0, 10.0)),
}
COMPARED = ("FedAvg", "FedProx", "FedBN", "MOON", "FedAA")
ABLATED = ("Non-I", "Non-F")
NORMED = "a control: FedAvg on FedBN's network, nothing of which stays with a client"
TWICE = "a control: 10 epochs, an average, one epoch, an average, and nothing else of FedAA"


def at(method: str, fraction: float) -> str:
    """A row's label: a column of the paper in the line of C = ``fraction``."""
    return f"{method}, C = {fraction:g}"


def cases(
    methods: Sequence[str],
    fractions: Sequence[float],
    ours: str = "",
    scales: Mapping[float, tuple[str, ...]] | None = None,
) -> list[Case]:
    """Every method at every C. ``scales``: where a C is run; everywhere if it is not named."""
    named = scales or {}
    out = []
    for fraction in fractions:
        kept: dict[str, Any] = {"scales": named[fraction]} if fraction in named else {}
        out += [
            Case(
                at(m, fraction),
                METHODS[m][0],
                {**METHODS[m][1], "fraction": fraction},
                ours,
                sweep=SWEEPS.get(m),
                swept=SCALES,
                **kept,
            )
            for m in methods
        ]
    return out


RECORD = Policy(probes=0, audited=0, last=1, spaced=0)  # tables of accuracy: nothing is attacked


def trained(lr: float, batch: int, **fedaa: Any) -> dict[str, Params]:
    """The local training of all methods alike; ``fedaa``: more of FedAA's own."""
    shared = {"lr": lr, "batch": batch}
    return {
        **dict.fromkeys(("fedavg", "fedprox", "fedbn", "moon"), shared),
        "fedaa": {**shared, "tune_lr": lr, **fedaa},
    }


# Why they are not the paper's where they are not.
RATES = {
    name: {"lr": BY_HAND, "tune_lr": BY_HAND}
    for name in ("fedavg", "fedprox", "fedbn", "moon", "fedaa")
}
PAPERS = trained(0.0025, 256)
SMALL = trained(SMALL_LR, 256, examples=SMALL_EXAMPLES)


@dataclass(frozen=True)
class _Images:
    """A set in FedAA's setting."""

    dataset: str
    task: str
    official: int  # test images
    aux_per_class: int  # of these, how many of each class become auxiliary data
    params: Params
    small: Params  # what makes it small, in parameters of the task
    words: tuple[str, ...]  # and the same in words
    small_rounds: int = SMALL_ROUNDS

    @property
    def full(self) -> Setup:
        """As in the paper."""
        return self._setup(100, PAPERS, {"width": 64, "evaluations": 100}, ())

    @property
    def smaller(self) -> Setup:
        """For two cores."""
        return self._setup(
            self.small_rounds, SMALL, {"width": SMALL_WIDTH, **self.small}, (_NARROW, *self.words)
        )

    def _setup(
        self, rounds: int, training: Mapping[str, Params], params: Params, differs: tuple[str, ...]
    ) -> Setup:
        task: dict[str, Any] = {"model": "cnn", **self.params, **params}
        task.setdefault("aux_per_class", self.aux_per_class)
        classes = 100 if self.task == "cifar100" else 10
        said = (
            f"{classes * task['aux_per_class']:,} of the {self.official:,} test images kept as"
            " auxiliary data"
        )
        told = (said, *differs)
        about = (self.dataset, self.task, rounds, task, training, told)
        return Setup(*about, needs=self.dataset, why=RATES)


_NARROW = (
    f"{SMALL_WIDTH} and {4 * SMALL_WIDTH} filters, not 64 and 256, and linear layers narrower"
    " likewise"
)
_FEW = (
    f"{SMALL_IMAGES} images a client, not 500",
    "evaluated ten times: the best is of these, and the last ten are all of them",
)
_LESS = f"{SMALL_ISLANDS_IMAGES} images a client, not 500"
_SHARDS = {"split": "shards", "split_param": 1.0, "clients": 100}
_ACCURACY = {"utility": "accuracy"}
_ISLANDS = {"evaluations": SMALL_ISLANDS_ROUNDS, "per_client": SMALL_ISLANDS_IMAGES}

# Data islands: ten clients. Mobile terminals: a hundred.
CIFAR10 = _Images("cifar10", "cifar10", 10_000, 100, _ACCURACY, _ISLANDS, (), SMALL_ISLANDS_ROUNDS)
CIFAR100 = _Images(
    "cifar100", "cifar100-islands", 1_000, 20, {}, _ISLANDS, (_LESS,), SMALL_ISLANDS_ROUNDS
)
_TEN = {"evaluations": 10}
CIFAR10_MOBILE = _Images(
    *("cifar10", "cifar10", 10_000, 100),
    {**_ACCURACY, **_SHARDS},
    {"mean_local_size": SMALL_IMAGES, "aux_per_class": 500, **_TEN},
    _FEW,
)
CIFAR100_MOBILE = _Images(
    *("cifar100", "cifar100", 10_000, 20),
    {"flip": False, "rotation": 0.0},
    {"per_client": SMALL_IMAGES, "aux_per_class": 50, **_TEN},
    _FEW,
)


def _digits(dataset: str, rounds: int, lr: float, stand_in: str, **task_params: Any) -> Setup:
    differs = ("a LeNet of 12 channels, not 64 and 256 filters with three linear layers",)
    training = trained(lr, 32, examples=16, hidden=64)
    task = {"evaluations": rounds, **task_params}
    stands = f"scikit-learn's 8x8 digits, {stand_in}"
    return Setup(dataset, "digits", rounds, task, training, differs, stands, why=RATES)


DIGITS = _digits("cifar10", SMOKE_ROUNDS, 0.0025, "104 to 113 a client, in place of CIFAR-10")
DIGITS_10 = _digits(
    "cifar10", SMOKE_MOBILE_ROUNDS, SMOKE_MOBILE_LR, "11 a client, in place of CIFAR-10", **_SHARDS
)
DIGITS_100 = replace(
    DIGITS_10,
    dataset="cifar100",
    stand_in="scikit-learn's 8x8 digits, 11 a client, ten classes in place of a hundred",
)
