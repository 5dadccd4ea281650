"""FLea's study of local sizes: Figure 2 (accuracy, IID) and Figure 13 (examples of a client)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from leakbench.reproduce.flea_accuracy import ACCURACY
from leakbench.reproduce.flea_setups import FEWER_TEST, METHODS, PAPER_NET, RECORD
from leakbench.reproduce.orders import Falls, Less
from leakbench.reproduce.recipe import Case, Measure, Params, Recipe, Scale, Setup
from leakbench.results import claims

# Clients of the 50,000 images -> how many of them are in a round.
CLIENTS = {10: 1.0, 100: 0.1, 500: 0.1}
LOSSES, SHARED = ("FedDecorr", "FedNTD"), ("FedMix", "FedData")


def _iid(
    clients: int, size: int, fraction: float, rounds: int, differs: Sequence[str], **task: Any
) -> Setup:
    """CIFAR-10 dealt evenly to ``clients`` of ``size`` images each."""
    training = {"fraction": fraction, "epochs": 10, "batch": 64}
    given = {"split": "iid", "utility": "accuracy", "clients": clients, "mean_local_size": size}
    return Setup(
        dataset="cifar10",
        task="cifar10",
        rounds=rounds,
        task_params={**given, **task},
        params=_trained(clients, training),
        differs=differs if isinstance(differs, tuple) else tuple(differs),
        needs="cifar10",
        split=f"{clients} clients",
    )


def _trained(clients: int, training: Params) -> dict[str, Params]:
    """All methods alike; FedData's batch is of own and shared examples."""
    batch = int(training["batch"])
    own = max(1, round(batch / (1 + 0.1 * clients)))
    out: dict[str, Params] = {m: dict(training) for m in METHODS}
    out["feddata"] = {**training, "batch": own, "shared_batch": batch - own}
    return out


def _small(clients: int, fraction: float) -> Setup:
    """A tenth of the images, ten clients in every round."""
    said = (
        "a tenth of the images, so a tenth of each client's",
        "ResNet-8 of 8 to 32 channels, not MobileNetV2",
        "5,000 of the 10,000 test images kept as auxiliary data",
    )
    net = {"model": "resnet8", "width": 8, "evaluations": 10, "aux_per_class": 500}
    return _iid(clients, 5000 // clients, fraction, 20, said, **net)


def _digits(clients: int, fraction: float) -> Setup:
    return Setup(
        dataset="cifar10",
        task="digits",
        rounds=20,
        task_params={"split": "iid", "clients": clients, "evaluations": 10},
        params=_trained(clients, {"fraction": fraction, "epochs": 5, "batch": 32}),
        stand_in=f"scikit-learn's 8x8 digits, {clients} clients, in place of CIFAR-10",
        differs=("a small LeNet", "5 local epochs of batches of 32, not 10 of 64"),
        split={10: "10 clients", 50: "100 clients", 100: "500 clients"}[clients],
    )


_CASES = (
    Case("FedAvg", "fedavg"),
    Case("FedDecorr", "feddecorr", {"variant": "released"}),
    Case("FedNTD", "fedntd"),
    Case("FedMix", "fedmix"),
    Case("FedData", "feddata"),
)
_FEW = ("cifar10, 500 clients",)

FIGURE2 = Recipe(
    name="flea-figure2",
    paper="flea",
    about="FLea, Figure 2: accuracy of five methods on CIFAR-10, IID, at three local sizes.",
    cases=_CASES,
    measures=ACCURACY,
    scales={
        "smoke": Scale(
            "4 minutes on two cores",
            tuple(_digits(c, f) for c, f in ((10, 1.0), (50, 0.2), (100, 0.1))),
            record=RECORD,
        ),
        "small": Scale(
            "some hours on one core",
            (_small(10, 1.0), _small(100, 0.1), _small(500, 0.02)),
            record=RECORD,
        ),
        "full": Scale(
            "some hours on one GPU",
            tuple(
                _iid(c, 50_000 // c, f, 100, (FEWER_TEST,), **PAPER_NET, evaluations=100)
                for c, f in CLIENTS.items()
            ),
            seeds=(0, 1, 2),
            record=RECORD,
        ),
    },
    orders=(
        Less(
            "what shares data is above FedAvg where data are few",
            "best",
            _FEW,
            pairs=tuple(("FedAvg", m) for m in SHARED),
        ),
        Less(
            "and above the methods that change the loss",
            "best",
            _FEW,
            pairs=tuple(product(LOSSES, SHARED)),
        ),
    ),
    figure="sizes",
    choices=(
        (
            "The paper prints three of the bars, FedAvg's, in its text; they are the best of 100"
            " rounds on the test set."
        ),
        (
            "It says nothing of seeds. All clients are in every round where there are ten, a tenth"
            " of them otherwise."
        ),
    ),
)


# Figure 13 ----------------------------------------------------------------------------------------
CLASSES, EXAMPLES = 10, 50_000


def client_sizes(setup: Setup, params: Params, seed: int) -> dict[str, float]:
    """Examples of a client where as many labels as CIFAR-10's are dealt as the tasks deal them.

    Only how many of each class there are matters, 5,000, so no file is read. ``seed``: of the draw.
    """
    from leakbench.base.lazy import torch
    from leakbench.data import splits

    y = torch.arange(EXAMPLES) % CLASSES
    parts = splits.split_rows(
        y,
        clients=int(params["clients"]),
        classes=CLASSES,
        rule=params["split"],
        param=float(params["split_param"]),
        stream=f"reproduce/flea-figure13/{seed}",
    )
    found = torch.tensor([len(p) for p in parts], dtype=torch.float64)
    return {
        "least": float(found.min()),
        "median": float(found.median()),
        "most": float(found.max()),
        "under_ten": float((found < 10).double().mean()),
    }


def dealt(split: str, clients: int) -> str:
    """A row's label."""
    return f"{split}, {clients} clients"


_DEALT = tuple(
    Case(dealt(name, c), "", {"split": rule, "split_param": param, "clients": c})
    for name, rule, param in (("Dir(0.1)", "dir", 0.1), ("IID", "iid", 1.0))
    for c in CLIENTS
)


def _printed() -> str:
    """The paper's own numbers, each of a single draw."""
    said = []
    for r in claims.published():
        if r["paper"] == "flea" and r["metric"].startswith("local_samples_"):
            what = r["metric"].removeprefix("local_samples_")
            said.append(f"{what} {r['value']:,} of {r['setting']['clients']} clients")
    return "; ".join(said)


_SIZES = (
    Measure("least", "least", metric="local_samples_min", printed=False),
    Measure("median", "median", metric="local_samples_median", printed=False),
    Measure("most", "most", metric="local_samples_max", printed=False),
    Measure("under_ten", "clients with fewer than 10", metric="under_ten", printed=False),
)
_LABELS = Setup("cifar10", "cifar10", 0, differs=("labels alone: 5,000 of each of ten classes",))

FIGURE13 = Recipe(
    name="flea-figure13",
    paper="flea",
    about="FLea, Figure 13: how many examples a client has, with label skew and without.",
    cases=_DEALT,
    measures=_SIZES,
    scales={
        "smoke": Scale("ten seconds on one core", (_LABELS,), seeds=tuple(range(5))),
        "small": Scale("a minute on one core", (_LABELS,), seeds=tuple(range(20))),
    },
    orders=(
        Falls(
            "the more clients, the fewer examples each, with label skew",
            "median",
            along=tuple(dealt("Dir(0.1)", c) for c in CLIENTS),
        ),
        Falls("and without it, too", "median", along=tuple(dealt("IID", c) for c in CLIENTS)),
    ),
    choices=(
        (
            f"The paper's numbers, each of one draw of Dir(0.1): {_printed()}. As its code, and"
            " unlike its text, ours gives a client that has its even share none of the classes that"
            " follow, and deals to more than 50 clients in groups."
        ),
        "Numbers are means over draws, with Student's interval over draws.",
    ),
    study=client_sizes,
)

RECIPES = (FIGURE2, FIGURE13)
