"""What a method costs where clients are alike, and there is nothing for it to mend: no paper's."""

from __future__ import annotations

from leakbench.reproduce.fedaa_setups import RECORD
from leakbench.reproduce.findings import SEEDS
from leakbench.reproduce.orders import Keeps
from leakbench.reproduce.recipe import BY_HAND, UTILITY, Case, Measure, Recipe, Scale, Setup

_IID = Setup(
    dataset="digits",
    task="digits",
    rounds=50,
    task_params={"split": "iid", "evaluations": 10},
    why={name: {"lr": BY_HAND} for name in ("fedavg", "scaffold", "fedaa")},
    stand_in="8x8 digits, dealt to ten clients at random, which no paper has",
)
_ALIKE = {"average": "weighted", "fraction": 1.0, "batch": 16, "steps": 0, "epochs": 5}
_ADAM = {**_ALIKE, "optimizer": "adam", "lr": 0.001, "decay": 0.98}
_SGD = {**_ALIKE, "lr": 0.05, "decay": 0.98}
_FLEA = {**_ADAM, "layer": "first"}
UNRELATED, ALONE = "FLea without its correlation", "FedProto without its prototypes"
_PART = "it shows which part of the method costs what"
SHOWN_BY = {"FLea": (UNRELATED,), "FedProto": (ALONE,)}
# Why a method loses more than the margin where nothing is to be mended; each said of its rows.
BECAUSE = {
    "FLea": "Its loss holds the features of the first layer away from the inputs (Eq. 8, weight 3),"
    f" which is its privacy and costs most of this: {UNRELATED} loses less",
    "FedProto": "It averages no model: each client learns from its own tenth of the images, and"
    f" {ALONE}, which is training alone, is as far below",
    "FedPCL": "It averages no model and fixes the extractor, which is a random one where a task has"
    " no pretrained one: its clients learn a projection of random features, each from its own"
    " tenth of the images",
}
# Of a method: what it is here, and the case beside which nothing but the method is another.
AVERAGE, NORMED, BY_SGD = "FedAvg", "FedAvg+BN", "FedAvg by SGD"
IID: dict[str, tuple[Case, str]] = {
    c.label: (c, beside)
    for beside, cases in {
        AVERAGE: (
            Case(AVERAGE, "fedavg", _ADAM),
            Case("FedProx", "fedprox", {**_ADAM, "mu": 0.01}),
            Case("MOON", "moon", {**_ADAM, "mu": 1.0}),
            Case("FedLC", "fedlc", _ADAM),
            Case("FedNTD", "fedntd", _ADAM),
            Case("FedDecorr", "feddecorr", _ADAM),
            Case("FedGen", "fedgen", _ADAM),
            Case("FedMix", "fedmix", _ADAM),
            Case("FedBR", "fedbr", _ADAM),
            Case("CCVR", "ccvr", _ADAM),
            Case("FedData", "feddata", {**_ADAM, "batch": 8, "shared_batch": 8}),
            Case("FLea", "flea", _FLEA),
            Case(UNRELATED, "flea", {**_FLEA, "lam2": 0.0}, ours=_PART),
            Case("FedProto", "fedproto", _ADAM),
            Case(ALONE, "fedproto", {**_ADAM, "lam": 0.0}, ours=_PART),
            Case("FedPCL", "fedpcl", _ADAM),
        ),
        NORMED: (Case(NORMED, "fedbn", {**_ADAM, "private": False}), Case("FedBN", "fedbn", _ADAM)),
        BY_SGD: (
            Case(BY_SGD, "fedavg", _SGD),
            Case("SCAFFOLD", "scaffold", _SGD),
            Case("FedAA", "fedaa", {**_SGD, "epochs": 4, "tune_lr": 0.05, "hidden": 64}),
        ),
    }.items()
    for c in cases
}

RECIPE = Recipe(
    name="findings-iid",
    paper="flea",
    about="Methods that average models, or have prototypes instead, where clients are alike.",
    cases=tuple(c for c, _ in IID.values()),
    measures=(Measure(UTILITY, "final accuracy", printed=False),),
    scales={"smoke": Scale("twenty minutes on two cores", (_IID,), SEEDS[:3], RECORD)},
    orders=tuple(
        Keeps(
            f"{label} keeps the accuracy of {beside}",
            UTILITY,
            because=BECAUSE.get(label, ""),
            shown_by=SHOWN_BY.get(label, ()),
            those=(label,),
            reference=beside,
        )
        for label, (_, beside) in IID.items()
        if label not in (beside, UNRELATED, ALONE)
    ),
)
