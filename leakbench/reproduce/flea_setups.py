"""FLea's data sets, splits and local sizes at three scales, of which its recipes are made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leakbench.record.policy import Policy
from leakbench.reproduce.recipe import Params, Setup

# How the paper calls a split -> the task's parameters.
SPLITS: dict[str, Params] = {
    f"{name}({value:g})": {"split": name.lower(), "split_param": value}
    for name, value in (("Qua", 2.0), ("Qua", 3.0), ("Dir", 0.1), ("Dir", 0.3), ("Dir", 0.5))
}
HAR_SPLITS, OTHER_SPLITS = ("Qua(2)", "Dir(0.3)", "Dir(0.1)"), ("Qua(3)", "Dir(0.5)", "Dir(0.1)")
SIZES = (100, 50)  # mean local size
# Their clients at each.
HAR_CLIENTS, CIFAR_CLIENTS, SOUND_CLIENTS = (
    dict(zip(SIZES, counts, strict=True)) for counts in ((75, 150), (500, 1000), (70, 140))
)
SPOKEN_CLIENTS = dict(zip(SIZES, (20, 40), strict=True))

RECORD = Policy(probes=0, audited=1, spaced=2)  # of tables and curves
SUBJECTS = "some of the official test subjects kept as auxiliary data"
NARROW, NARROWER, NARROWEST = (
    f"HARNet of {w} to {4 * w} channels, not 64 to 256" for w in (32, 16, 8)
)
QUA3 = {"split": "qua", "split_param": 3.0, "utility": "accuracy"}
PAPER_NET = {"model": "mobilenetv2", "width": 32}
LAYER = {"flea": {"layer": "block1"}}
FEWER_TEST = "1,000 of the 10,000 test images kept as auxiliary data"
GENERATES = 0.3  # of the rounds are over when the paper's FedGen begins to generate


def column(split: str, size: int) -> str:
    """What tells it from the other columns of its data set: no size means 100."""
    return split if size == SIZES[0] else f"{split}, |D| = {size}"


def fewer(rounds: int) -> dict[str, Params]:
    """What has to begin earlier in a run of ``rounds``."""
    return {"fedgen": {"begin": round(GENERATES * rounds)}} if rounds < 100 else {}


def har(
    rounds: int,
    differs: Sequence[str] = (),
    *,
    split: str = "",
    size: int = 100,
    seeds: tuple[int, ...] = (),
    **task_params: Any,
) -> Setup:
    """UCI-HAR, of Qua(2) unless ``split`` names another; its column is the data set's if none."""
    task = {"evaluations": min(rounds, 100), **SPLITS.get(split, {}), **task_params}
    task |= {} if size == SIZES[0] else {"clients": HAR_CLIENTS[size]}
    return Setup(
        dataset="uci-har",
        task="uci-har",
        rounds=rounds,
        task_params=task,
        params=fewer(rounds),
        differs=(SUBJECTS, *differs),
        needs="uci-har",
        split=column(split, size) if split else "",
        seeds=seeds,
    )


def cifar(split: str = "Qua(3)", size: int = 100) -> Setup:
    """CIFAR-10 as in the paper."""
    task = {**SPLITS[split], **PAPER_NET, "utility": "accuracy", "evaluations": 100}
    return Setup(
        dataset="cifar10",
        task="cifar10",
        rounds=100,
        task_params={**task, "clients": CIFAR_CLIENTS[size], "mean_local_size": size},
        params=LAYER,
        differs=(FEWER_TEST,),
        needs="cifar10",
        split=column(split, size),
    )


def small_cifar(rounds: int) -> Setup:
    """For two cores: the paper's clients and images, ten clients a round, a small ResNet."""
    each: Params = {"fraction": 0.02}
    task = {**SPLITS["Qua(3)"], "utility": "accuracy", "model": "resnet8", "width": 8}
    task |= {"evaluations": min(rounds, 20), "aux_per_class": 500}
    return Setup(
        dataset="cifar10",
        task="cifar10",
        rounds=rounds,
        task_params={**task, "clients": CIFAR_CLIENTS[100], "mean_local_size": 100},
        params={m: {**each, **fewer(rounds).get(m, {})} for m in METHODS},
        differs=(
            "ResNet-8 of 8 to 32 channels, whose first convolution is shared, not MobileNetV2",
            "5,000 of the 10,000 test images kept as auxiliary data",
            "evaluated every second round: the best is of these",
        ),
        needs="cifar10",
        split="Qua(3)",
        seeds=(0,),
    )


def sound(
    rounds: int, differs: Sequence[str] = (), *, split: str = "", size: int = 100, **task: Any
) -> Setup:
    """UrbanSound8K, spoken digits where it is not; of Qua(3) unless ``split`` is given."""
    task = {"evaluations": min(rounds, 100), **SPLITS.get(split, {}), **task}
    many = {} if size == SIZES[0] else {"clients": SOUND_CLIENTS[size]}
    few = {} if size == SIZES[0] else {"clients": SPOKEN_CLIENTS[size]}
    name = column(split, size) if split else ""
    return Setup(
        dataset="urbansound8k",
        task="urbansound8k",
        rounds=rounds,
        task_params={**task, **many},
        params=fewer(rounds),
        differs=("clips held out by folds, not at random", *differs),
        needs="urbansound8k",
        split=name,
        otherwise=Setup(
            dataset="urbansound8k",
            task="spoken-digits",
            rounds=rounds,
            task_params={**task, **few},
            params=fewer(rounds),
            differs=("spectrograms of (1, 32, 48), not (2, 64, 344)", *differs),
            stand_in=(
                f"ten digits spoken by six people, {SPOKEN_CLIENTS[size]} clients, in place of"
                " UrbanSound8K"
            ),
            needs="fsdd",
            split=name,
        ),
    )


METHODS = (
    "fedavg",
    "fedprox",
    "feddecorr",
    "fedlc",
    "fedntd",
    "fedbr",
    "ccvr",
    "fedgen",
    "fedmix",
    "feddata",
    "flea",
)
