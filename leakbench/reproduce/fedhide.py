"""FedHide (Park and Yun, ECCV 2024) on CIFAR-100.

Tables 3 and 4, Figure 3 and the supplement's t-SNE.
"""

from __future__ import annotations

from typing import Any

from leakbench.record.policy import Policy
from leakbench.reproduce.orders import Collapses, Equals, Falls, Keeps, Less
from leakbench.reproduce.recipe import BY_HAND, UTILITY, Case, Measure, Recipe, Scale, Setup
from leakbench.reproduce.statements import Order

SIGMAS, COSINES = (0.1, 0.2, 0.3, 0.4, 0.5), (0.5, 0.4, 0.3, 0.2, 0.1)
ALPHAS, NEIGHBOURS = (0.1, 0.01), (5, 10, 20)


def gn(sigma: float) -> str:
    """What the paper calls it."""
    return f"FedGN({sigma:g})"


def cs(cos_theta: float) -> str:
    """What the paper calls it."""
    return f"FedCS({cos_theta:g})"


def hide(alpha: float, k: int) -> str:
    """What the paper calls it."""
    return f"FedHide({alpha:g}, {k})"


AWS = Case("FedAwS", "fedaws")
HIDING = (
    *(Case(gn(s), "fedgn", {"sigma": s}) for s in SIGMAS),
    *(Case(cs(c), "fedcs", {"cos_theta": c}) for c in COSINES),
    *(Case(hide(a, k), "fedhide", {"alpha": a, "k": k}) for a in ALPHAS for k in NEIGHBOURS),
)
COLLAPSED = Case(
    "collapse: FedHide(0.1, 10) at norm 1",
    "fedhide",
    {"alpha": 0.1, "k": 10, "lam": 10.0, "own_lr": 0.1, "stored": "unit"},
    ours=(
        "the other reading of the text, prototypes brought back to norm 1 and moved at 0.1: a run"
        " that is private because it is dead"
    ),
    scales=("smoke", "small"),
)

ACCURACY = Measure(UTILITY, "accuracy")
P_LEAK = Measure("p_leak", "P_leak", "p_leak", "prototype_leakage")
MEAN_5, MEAN_20 = (
    Measure(
        f"p_leak_mean_{n}",
        f"P_leak of the mean of {n} messages",
        "p_leak",
        "prototype_averaging",
        {"window": n},
        printed=False,
    )
    for n in (5, 20)
)
MIXING = ("fedhide",)


def _adaptive(key: str, title: str, attack: str, **how: Any) -> Measure:
    """P_leak by an attacker who knows the method; the paper prints none."""
    return Measure(key, f"P_leak, {title}", "p_leak", attack, printed=False, **how)


ADAPTIVE = (
    _adaptive("p_leak_mean", "mean as far back as the messages suggest", "prototype_averaging"),
    _adaptive("p_leak_centred", "what all have in common left out", "prototype_centring"),
    _adaptive("p_leak_unmixed", "neighbours solved for", "prototype_unmixing", defenses=MIXING),
    _adaptive("p_leak_update", "from one update, no proxy read", "prototype_from_update"),
)
COSINE = Measure(
    "cosine", "cosine of true and proxy", "prototype_cosine", "prototype_leakage", over="prototypes"
)

_FAMILY = ("fedaws", "fedgn", "fedcs", "fedhide")


def _params(**shared: Any) -> dict[str, dict[str, Any]]:
    return {name: dict(shared) for name in _FAMILY}


def rates(lr: str = "", own_lr: str = "") -> dict[str, dict[str, str]]:
    """Why the rates of all of the family are not the paper's."""
    told = {"lr": lr, "own_lr": own_lr}
    given = {rate: why for rate, why in told.items() if why}
    return dict.fromkeys(_FAMILY, given)


_LOOKING = "chosen by hand while looking at what this table shows, no sweep was made"
_FEWER = (
    "there are 33 times fewer rounds, and at the paper's one class was named for all images for"
    f" over 600, {BY_HAND}"
)

SCALES = {
    "smoke": Scale(
        time="5 minutes on two cores",
        setups=(
            Setup(
                dataset="cifar100",
                task="digit-pairs",
                rounds=3000,
                task_params={"dim": 512},
                params=_params(lam=10.0, own_lr=0.3, lr=1.0),
                why=rates(lr=_LOOKING, own_lr=_LOOKING),
                stand_in="pairs of 8x8 digits, 100 classes, one per client, in place of CIFAR-100",
                differs=(
                    "a perceptron of 128 hidden units, not ResNet-18",
                    "40 images a client, not 500",
                    "no flips and rotations",
                    "200 test images, not 10,000",
                ),
            ),
        ),
        record=Policy(probes=0, audited=1, last=20),
    ),
    "small": Scale(
        time="a quarter of an hour a run and core, 18 runs",
        setups=(
            Setup(
                dataset="cifar100",
                task="cifar100",
                rounds=3000,
                task_params={"model": "resnet8", "width": 16, "evaluations": 10},
                params=_params(lr=1.0),
                why=rates(lr=_FEWER),
                differs=(
                    "ResNet-8 of 16 channels, not ResNet-18",
                    "2,000 of the 10,000 test images kept as auxiliary data",
                ),
                needs="cifar100",
            ),
        ),
        record=Policy(probes=0, audited=1, last=50),
        excerpts=True,
    ),
    "full": Scale(
        time="about a day a run on one GPU, three seeds",
        setups=(
            Setup(
                dataset="cifar100",
                task="cifar100",
                rounds=100_000,
                differs=("2,000 of the 10,000 test images kept as auxiliary data",),
                needs="cifar100",
            ),
        ),
        seeds=(0, 1, 2),
        record=Policy(probes=0, audited=1, last=50),
        excerpts=True,
    ),
}

CHOICES = (
    (
        "Prototypes start as normal vectors and are stored as they become (norm about √512),"
        " normalised in the loss alone."
    ),
    (
        "The first proxies are random directions; a client's own stale proxy is neither among its"
        " neighbours nor in its negative term."
    ),
    "Clients take part round robin, as the text says (Algorithm 1 draws them).",
    "Test rule: the class whose true prototype is nearest, gathered for evaluation only.",
    (
        "P_leak and cosines: each client's newest proxy against all true prototypes, after the last"
        " round."
    ),
    (
        "FedAwS: margin 1.4, the server pushes all pairs apart; the paper gives neither margin,"
        " rate nor negatives."
    ),
    "Rotations of up to 15 degrees; the paper gives no angle.",
    (
        "Beside the paper's P_leak stand attackers who know the method (Section 4.3 names such and"
        " claims nothing against them): they read the proxies of all rounds, or one update."
    ),
)

LEAKAGE: tuple[Order, ...] = (
    Equals("FedAwS leaks 100 %", "p_leak", values=(("FedAwS", 1.0),)),
    Falls("P_leak falls with σ", "p_leak", along=tuple(map(gn, SIGMAS))),
    Falls("P_leak rises with cos θ", "p_leak", along=tuple(map(cs, COSINES))),
    Less(
        "smaller α leaks less at equal K",
        "p_leak",
        pairs=tuple((hide(0.01, k), hide(0.1, k)) for k in NEIGHBOURS),
    ),
    Falls(
        "at α = 0.01 P_leak falls with K", "p_leak", along=tuple(hide(0.01, k) for k in NEIGHBOURS)
    ),
)
GAINS: tuple[Order, ...] = (
    Falls("accuracy falls with σ", UTILITY, along=tuple(map(gn, SIGMAS))),
    Falls("accuracy rises with cos θ", UTILITY, along=tuple(map(cs, COSINES))),
    Keeps(
        "FedHide keeps FedAwS's accuracy (K of 10 and 20)",
        UTILITY,
        those=tuple(hide(a, k) for a in ALPHAS for k in NEIGHBOURS[1:]),
        reference="FedAwS",
    ),
    Collapses("the collapsed run is seen as dead (ours)", UTILITY, label=COLLAPSED.label),
)


def _falls_with_k(alpha: float) -> Falls:
    along = tuple(hide(alpha, k) for k in NEIGHBOURS)
    return Falls(f"at α = {alpha:g} the cosine falls with K", "cosine", along=along)


LIKENESS: tuple[Order, ...] = (
    Falls("the cosine falls with σ", "cosine", along=tuple(map(gn, SIGMAS))),
    Equals(
        "FedCS's cosine is cos θ",
        "cosine",
        values=tuple((cs(c), c) for c in COSINES),
        tolerance=0.0005,
    ),
    Less(
        "smaller α gives a smaller cosine at equal K",
        "cosine",
        pairs=tuple((hide(0.01, k), hide(0.1, k)) for k in NEIGHBOURS),
    ),
    *map(_falls_with_k, ALPHAS),
)
SHOWN = (gn(0.1), gn(0.5), cs(0.5), cs(0.1), *(hide(a, k) for a in ALPHAS for k in NEIGHBOURS))

# Five of Table 4's rows for longer, whose records are committed; made as `leakbench train` is.
_LONG = {
    "small": Scale(
        time="some hours a run and core, 5 runs",
        setups=(
            Setup(
                dataset="cifar100",
                task="cifar100",
                rounds=20_000,
                task_params={"model": "resnet8", "width": 16, "evaluations": 20},
                params=_params(lr=1.0),
                why=rates(lr=f"there are five times fewer rounds, {BY_HAND}"),
                differs=(
                    "ResNet-8 of 16 channels, not ResNet-18",
                    "2,000 of the 10,000 test images kept as auxiliary data",
                ),
                needs="cifar100",
            ),
        ),
        record=Policy(),
        dtype="bfloat16",
    )
}
_LONGER = (gn(0.1), cs(0.5), hide(0.1, 10), hide(0.01, 10))

RECIPES = (
    Recipe(
        name="fedhide-20000",
        paper="fedhide",
        about="FedHide, Table 4: five of its rows after 20,000 rounds on CIFAR-100.",
        cases=(AWS, *(c for c in HIDING if c.label in _LONGER)),
        measures=(ACCURACY, P_LEAK, *ADAPTIVE),
        scales=_LONG,
        orders=(*LEAKAGE, *GAINS),
        choices=CHOICES,
    ),
    Recipe(
        name="fedhide-table3",
        paper="fedhide",
        about=(
            "FedHide, Table 3: cosine of true and proxy prototypes after the last round on"
            " CIFAR-100."
        ),
        cases=(*HIDING, COLLAPSED),
        measures=(COSINE,),
        scales=SCALES,
        orders=LIKENESS,
        choices=CHOICES,
    ),
    Recipe(
        name="fedhide-table4",
        paper="fedhide",
        about="FedHide, Table 4: accuracy and prototype leakage on CIFAR-100.",
        cases=(AWS, *HIDING, COLLAPSED),
        measures=(ACCURACY, P_LEAK, MEAN_5, MEAN_20, *ADAPTIVE),
        scales=SCALES,
        orders=(*LEAKAGE, *GAINS),
        choices=CHOICES,
    ),
    Recipe(
        name="fedhide-figure3",
        paper="fedhide",
        about=(
            "FedHide, Figure 3: accuracy over rounds, and accuracy against prototype leakage, on"
            " CIFAR-100."
        ),
        cases=(AWS, *HIDING, COLLAPSED),
        measures=(ACCURACY, P_LEAK),
        scales=SCALES,
        orders=GAINS,
        figure="accuracy",
        choices=(*CHOICES, "The curves have no printed numbers; the last points are Table 4's."),
    ),
    Recipe(
        name="fedhide-tsne",
        paper="fedhide",
        about=(
            "FedHide, Figures 1 to 3 of the supplement: t-SNE of true prototypes, proxies and the"
            " pairs between them on CIFAR-100."
        ),
        cases=(*(c for c in HIDING if c.label in SHOWN), COLLAPSED),
        measures=(COSINE, P_LEAK),
        scales=SCALES,
        figure="tsne",
        choices=(
            *CHOICES,
            (
                "t-SNE by cosine as in the paper; perplexity 30 and a random start are ours, places"
                " in the plane mean nothing."
            ),
        ),
    ),
)
