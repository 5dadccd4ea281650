"""FedMetric (Park, Hosseini and Yun, FL-ICML 2021): Table 2, Figures 2 and 3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leakbench.record.folders import Run
from leakbench.record.policy import Policy
from leakbench.reproduce.orders import Best, Equals, Falls, Keeps, Less
from leakbench.reproduce.recipe import BY_HAND, UTILITY, Case, Measure, Recipe, Scale, Setup
from leakbench.reproduce.statements import Order

LAMBDAS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
DISTANCES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)

POS = Case("FedMetric pos", "fedmetric", {"variant": "pos"})
PROXY = Case("FedMetric pos+neg(proxy)", "fedmetric", {"variant": "proxy"})
TRUE = Case("FedMetric pos+neg(true)", "fedmetric", {"variant": "true"})
TABLE = (
    Case("DeepSVDD", "deepsvdd"),
    POS,
    PROXY,
    TRUE,
    Case("FedAwS", "fedaws"),
    Case("FedUV", "feduv"),
)


def weighted(variant: str, lam: float) -> Case:
    """A point of Figure 2."""
    return Case(f"{variant}, λ = {lam:g}", "fedmetric", {"variant": variant, "lam": lam})


def distant(scale: float) -> Case:
    """A point of Figure 3."""
    return Case(f"proxy, s = {scale:g}", "fedmetric", {"variant": "proxy", "scale": scale})


AUROC = Measure(UTILITY, "AUROC")
P_LEAK = Measure(
    "p_leak",
    "P_leak",
    "p_leak",
    "prototype_leakage",
    printed=False,
    defenses=("fedmetric", "fedaws"),
)

SHARING = ("fedmetric", "fedaws")


def _adaptive(
    key: str, title: str, metric: str, attack: str, defenses: tuple[str, ...], **params: Any
) -> Measure:
    """By an attacker who knows the method; the paper prints none."""
    return Measure(key, title, metric, attack, params, printed=False, defenses=defenses)


ADAPTIVE = (
    _adaptive("p_leak_mean", "P_leak of the mean", "p_leak", "prototype_averaging", SHARING),
    _adaptive(
        "error_newest",
        "error of the newest centre, in radii",
        "centre_error",
        "prototype_averaging",
        ("fedmetric",),
        window=1,
    ),
    _adaptive(
        "error_mean_50",
        "of the mean of 50",
        "centre_error",
        "prototype_averaging",
        ("fedmetric",),
        window=50,
    ),
    _adaptive(
        "error_spheres_50",
        "of 50 known spheres",
        "centre_error",
        "prototype_spheres",
        ("fedmetric",),
        window=50,
    ),
    _adaptive(
        "p_leak_update",
        "P_leak from one update, no centre read",
        "p_leak",
        "prototype_from_update",
        ("fedmetric", "fedaws", "deepsvdd"),
    ),
)


def _spheres(run: Run) -> list[float]:
    from leakbench.reproduce.prototype_views import log10_sphere_ratios

    return log10_sphere_ratios(run).tolist()


SPHERES = Measure(
    "log10_sphere_ratio",
    "log10 of the ratio of spheres",
    metric="log10_sphere_ratio",
    printed=False,
    defenses=("fedmetric",),
    view=_spheres,
)

_TESTED = "1,000 of the 10,000 test images kept as auxiliary data"


_ON_DIGITS = "chosen by hand on digits, no sweep was made"
# Of rates that are not the paper's single one.
RATES = {
    "fedmetric": {
        "lr": "at the paper's, and any norm, embeddings of digits and MNIST leave float32 within"
        f" some rounds, {_ON_DIGITS}"
    },
    "feduv": {"lr": f"its c of 127 makes small gradients, {_ON_DIGITS}"},
    "deepsvdd": {"lr": f"at the paper's rounding errors grow from round to round, {BY_HAND}"},
}
RATES_ON_DIGITS = {
    **RATES,
    "deepsvdd": {"lr": "of 0.01 and 0.001 the better on digits (accuracy 0.94, not 0.88)"},
}


def _sampled(sample: int) -> dict[str, dict[str, Any]]:
    return {"fedmetric": {"sample": sample}}


MNIST_SMOKE = Setup(
    dataset="mnist",
    task="mnist",
    rounds=300,
    task_params={"evaluations": 10},
    params=_sampled(64),
    why=RATES,
    differs=(_TESTED,),
    needs="mnist",
    otherwise=Setup(
        dataset="mnist",
        task="digits",
        rounds=300,
        task_params={"utility": "auroc", "evaluations": 10},
        why=RATES_ON_DIGITS,
        stand_in="scikit-learn's 8x8 digits in place of MNIST, which is not on this machine",
        differs=(
            "a small LeNet with biases, not DeepSVDD's",
            "about 110 images a client, not 6,000",
            "400 test images",
        ),
    ),
)
CIFAR_SMOKE = Setup(
    dataset="cifar10",
    task="cifar10",
    rounds=100,
    task_params={"model": "resnet8", "width": 8, "evaluations": 10, "aux_per_class": 500},
    params=_sampled(32),
    why=RATES,
    differs=(
        "ResNet-8 of 8 channels, not ResNet-32",
        "5,000 of the 10,000 test images kept as auxiliary data",
    ),
    needs="cifar10",
)
MNIST_SMALL = Setup(
    dataset="mnist",
    task="mnist",
    rounds=3000,
    params=_sampled(200),
    why=RATES,
    differs=(_TESTED,),
    needs="mnist",
)
CIFAR_SMALL = Setup(
    dataset="cifar10",
    task="cifar10",
    rounds=3000,
    task_params={"model": "resnet8"},
    params=_sampled(64),
    why=RATES,
    differs=("ResNet-8, not ResNet-32", _TESTED),
    needs="cifar10",
)
MNIST = Setup("mnist", "mnist", 10_000, why=RATES, differs=(_TESTED,), needs="mnist")
CIFAR = Setup("cifar10", "cifar10", 100_000, why=RATES, differs=(_TESTED,), needs="cifar10")

_RECORD = Policy(probes=0, audited=1, last=50)


def _scales(
    smoke: Sequence[Setup], small: Sequence[Setup], full: Sequence[Setup], times: Sequence[str]
) -> dict[str, Scale]:
    return {
        "smoke": Scale(times[0], tuple(smoke), record=_RECORD),
        "small": Scale(times[1], tuple(small), record=_RECORD, excerpts=True),
        "full": Scale(times[2], tuple(full), seeds=(0, 1, 2), record=_RECORD, excerpts=True),
    }


CHOICES = (
    "s = 1.5 and λ = 1 in Table 2; the paper gives neither.",
    (
        "Embeddings are normalised and FedMetric's rate is 0.03: with the paper's 0.1 and"
        " embeddings of any norm the squared hinge feeds itself, and the spheres leave the range of"
        " floating point within some rounds."
    ),
    (
        "Distances are Euclidean and not squared; the loss is a mean over the batch and a sum over"
        " clients; the hinge is squared (Eq. 6)."
    ),
    (
        "The centre is that of all local data under the received model, the radius that of the same"
        " data under the trained one."
    ),
    (
        "A test image's score is minus its distance to the client's centre; AUROC is the mean over"
        " the ten one-class problems."
    ),
    (
        "FedAwS here is FedHide's, with the server's negatives over all pairs and a margin of 1.4;"
        " FedUV has BCH codewords of 127 bits."
    ),
    (
        "The ratio of spheres is no measurement of leakage: it is what a uniform guess in the shown"
        " ball would hit. s is public and gives D away, so the centre lies on a known sphere around"
        " the shown one."
    ),
    (
        "The paper copies DeepSVDD's and FedAwS's numbers; here they are trained like the rest,"
        " DeepSVDD at a rate of 0.01."
    ),
)

_IN_TABLE: tuple[Order, ...] = (
    Less(
        "FedMetric with the positive loss alone beats DeepSVDD",
        UTILITY,
        pairs=(("DeepSVDD", POS.label),),
    ),
    Less(
        "the negative loss helps",
        UTILITY,
        pairs=((POS.label, PROXY.label), (POS.label, TRUE.label)),
    ),
    Keeps(
        "true centres are at least as good as proxies",
        UTILITY,
        those=(TRUE.label,),
        reference=PROXY.label,
    ),
    Equals("true centres are given away (by definition)", "p_leak", values=((TRUE.label, 1.0),)),
)
_OVER_LAMBDA: tuple[Order, ...] = (
    Best(
        "with a well-chosen λ proxies beat the positive loss alone",
        UTILITY,
        those=tuple(weighted("proxy", x).label for x in LAMBDAS),
        reference=POS.label,
    ),
    Less(
        "true centres do better than proxies at equal λ",
        UTILITY,
        pairs=tuple((weighted("proxy", x).label, weighted("true", x).label) for x in LAMBDAS),
    ),
)
_OVER_DISTANCE: tuple[Order, ...] = (
    Falls(
        "the larger s, the smaller the AUROC",
        UTILITY,
        along=tuple(distant(s).label for s in DISTANCES),
    ),
    Falls(
        "the larger s, the less leaks", "p_leak", along=tuple(distant(s).label for s in DISTANCES)
    ),
    Equals("s = 0 shares the true centre", "p_leak", values=((distant(0.0).label, 1.0),)),
)

RECIPES = (
    Recipe(
        name="fedmetric-table2",
        paper="fedmetric",
        about="FedMetric, Table 2: mean one-class AUROC on MNIST and CIFAR-10.",
        cases=TABLE,
        measures=(AUROC, P_LEAK, *ADAPTIVE, SPHERES),
        scales=_scales(
            (MNIST_SMOKE, CIFAR_SMOKE),
            (MNIST_SMALL, CIFAR_SMALL),
            (MNIST, CIFAR),
            ("12 minutes on two cores", "some hours on two cores", "days on one GPU, three seeds"),
        ),
        orders=_IN_TABLE,
        choices=CHOICES,
    ),
    Recipe(
        name="fedmetric-figure2",
        paper="fedmetric",
        about=(
            "FedMetric, Figure 2: AUROC on CIFAR-10 over the weight λ of the negative loss. The"
            " paper prints no numbers."
        ),
        cases=(
            POS,
            *(weighted("proxy", x) for x in LAMBDAS),
            *(weighted("true", x) for x in LAMBDAS),
        ),
        measures=(Measure(UTILITY, "AUROC", printed=False), P_LEAK),
        scales=_scales(
            (CIFAR_SMOKE,),
            (CIFAR_SMALL,),
            (CIFAR,),
            ("an hour on two cores", "a day on two cores", "weeks on one GPU, three seeds"),
        ),
        orders=_OVER_LAMBDA,
        figure="lam",
        choices=CHOICES[1:5],
    ),
    Recipe(
        name="fedmetric-figure3",
        paper="fedmetric",
        about=(
            "FedMetric, Figure 3: AUROC on CIFAR-10 over the distance D = s R of the shown centre."
            " The paper prints no numbers."
        ),
        cases=tuple(distant(s) for s in DISTANCES),
        measures=(Measure(UTILITY, "AUROC", printed=False), P_LEAK, SPHERES),
        scales=_scales(
            (CIFAR_SMOKE,),
            (CIFAR_SMALL,),
            (CIFAR,),
            ("7 minutes on two cores", "some hours on two cores", "days on one GPU, three seeds"),
        ),
        orders=_OVER_DISTANCE,
        figure="scale",
        choices=("The values of s are ours: the paper's axis is not printed.", *CHOICES[1:5]),
    ),
)
