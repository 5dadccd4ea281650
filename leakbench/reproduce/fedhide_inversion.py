"""FedHide (Park and Yun, ECCV 2024), Table 2: images out of the gradients of Eq. 1, CIFAR-100."""

from __future__ import annotations

from typing import Any, Literal

from leakbench.record.policy import Policy
from leakbench.reproduce.between import Below
from leakbench.reproduce.fedhide import cs, gn, hide, rates
from leakbench.reproduce.orders import Falls, Less
from leakbench.reproduce.recipe import BY_HAND, Case, Measure, Recipe, Scale, Setup
from leakbench.reproduce.statements import Order

# Sea, chair, porcupine, and of the five classes of flowers the rose.
IMAGES = {"sea": 71, "chair": 20, "porcupine": 63, "rose": 70}
SIGMAS, COSINES = (0.01, 0.05, 0.1), (0.9, 0.75, 0.5)
ALPHAS, NEIGHBOURS = (0.5, 0.1, 0.01), (1, 5)

BARE = Case("without perturbation", "fedhide", {"alpha": 1.0})
HIDDEN = (
    *(Case(gn(s), "fedgn", {"sigma": s}) for s in SIGMAS),
    *(Case(cs(c), "fedcs", {"cos_theta": c}) for c in COSINES),
    *(Case(hide(a, k), "fedhide", {"alpha": a, "k": k}) for a in ALPHAS for k in NEIGHBOURS),
)

_AT: dict[Literal["", "untrained"], str] = {"untrained": "untrained", "": "trained"}
_WHO = {"naive": "", "joint": ", w_c solved for"}
_ATTACK: dict[str, Any] = {"message": "probe", "at": ["untrained", "final"], "targets": len(IMAGES)}


def _measure(
    metric: str, title: str, attacker: str, stage: Literal["", "untrained"], at: str
) -> Measure:
    printed = metric == "lpips" and attacker == "naive"
    return Measure(
        f"{attacker}_{metric}_{at}",
        f"{title}, {at}{_WHO[attacker]}",
        metric,
        "gradient_inversion",
        {**_ATTACK, "attacker": attacker},
        printed=printed,
        over="images" if printed else "",
        stage=stage,
        probe=True,
    )


MEASURES = tuple(
    _measure(metric, title, attacker, stage, at)
    for attacker in _WHO
    for metric, title in (("lpips", "LPIPS"), ("psnr", "PSNR"))
    for stage, at in _AT.items()
)

RECORD = Policy(clients=tuple(IMAGES.values()), audited=len(IMAGES), probes=1, last=2, spaced=0)
_FAMILY = ("fedaws", "fedgn", "fedcs", "fedhide")
_EVERYBODY = "all clients in every round, not a tenth: so the four take part in the first and last"


def _params(**shared: Any) -> dict[str, dict[str, Any]]:
    return {name: {"fraction": 1.0, **shared} for name in _FAMILY}


_AUX = "2,000 of the 10,000 test images kept as auxiliary data"
SCALES = {
    "smoke": Scale(
        time="10 minutes on two cores",
        setups=(
            Setup(
                dataset="cifar100",
                task="digit-pairs",
                rounds=60,
                task_params={"model": "lenet", "width": 16, "dim": 512},
                params=_params(lr=1.0),
                why=rates(lr=BY_HAND, own_lr=BY_HAND),
                stand_in="pairs of 8x8 digits, 100 classes, one per client, in place of CIFAR-100",
                differs=(
                    "a smooth LeNet of 16 channels, not ResNet-18",
                    "40 images a client, not 500",
                    "no flips and rotations",
                    _EVERYBODY,
                ),
            ),
        ),
        record=RECORD,
        attacks={"restarts": 1, "steps": 100},
    ),
    "small": Scale(
        time="a night on two cores: 10 minutes a run and core, then 40 for its attacks, 13 runs",
        setups=(
            Setup(
                dataset="cifar100",
                task="cifar100",
                rounds=200,
                task_params={"model": "resnet8", "width": 16, "evaluations": 10},
                params=_params(lr=1.0),
                why=rates(lr=f"there are so few rounds, {BY_HAND}"),
                differs=(
                    "ResNet-8 of 16 channels, not ResNet-18",
                    "the last model has hardly begun",
                    _EVERYBODY,
                    _AUX,
                ),
                needs="cifar100",
            ),
        ),
        record=RECORD,
        attacks={"restarts": 1, "steps": 4800},
    ),
    "full": Scale(
        time="two days a run on one GPU, 13 runs",
        setups=(
            Setup(
                dataset="cifar100",
                task="cifar100",
                rounds=10_000,
                params=_params(),
                differs=(f"{_EVERYBODY}; so a tenth of the rounds", _AUX),
                needs="cifar100",
            ),
        ),
        record=RECORD,
        attacks={"restarts": 1, "steps": 4800},
    ),
}

CHOICES = (
    (
        "The images: of CIFAR-100's classes sea, chair, porcupine and, of its five flowers, rose;"
        " each the first of its client's batch in the first and in the last round, flipped and"
        " turned as it was trained on. So the two models' images differ. The paper names no image"
        " and no flower."
    ),
    (
        "The gradient of one image is a probe: the update that a client with this image alone would"
        " have sent in a step, divided by the rate."
    ),
    (
        "Who attacks: the loss of Eq. 1 reads the true prototype w_c, which the paper's attacker"
        " can have only without perturbation. Here it puts the victim's newest earlier proxy in its"
        " place; at the untrained model, where there is none, the one of this round."
    ),
    (
        "Other clients' proxies have no part in the network's gradient (Eq. 3 holds no θ). An"
        " attacker who solves for w_c together with the image needs no proxy: that is the second"
        " attacker, and at the untrained model its numbers must be those of no perturbation in"
        " every row. The paper has no such attacker."
    ),
    (
        "Without perturbation: FedHide at α = 1, whose proxy is the true prototype, trained on Eq."
        " 1 like the others; FedAwS's own loss has no L_neg."
    ),
    (
        "Search: `gradient_inversion` as it is (`engine` = auto), one start; 100 steps at smoke,"
        " 4,800 at small and full. The paper gives neither steps nor the weight of its prior."
    ),
    "The trained model is each method's own last one. LPIPS with AlexNet's trunk; ± over images.",
)


def _ordered(at: str) -> tuple[Order, ...]:
    """The paper's statements on LPIPS, with the proxy in place of w_c."""
    key, model = f"naive_lpips_{at}", f"{at} model"
    out: list[Order] = [
        Less(
            f"{model}: nothing leaks more than no perturbation",
            key,
            pairs=tuple((BARE.label, c.label) for c in HIDDEN),
        ),
        Falls(f"{model}: LPIPS rises with σ", key, along=tuple(gn(s) for s in SIGMAS[::-1])),
        Falls(f"{model}: LPIPS falls with cos θ", key, along=tuple(cs(c) for c in COSINES[::-1])),
    ]
    out.append(
        Less(
            f"{model}: nothing leaks more than no perturbation, in PSNR (ours)",
            f"naive_psnr_{at}",
            pairs=tuple((c.label, BARE.label) for c in HIDDEN),
        )
    )
    for k in NEIGHBOURS:
        text = f"{model}: at K = {k} LPIPS falls with α"
        out.append(Falls(text, key, along=tuple(hide(a, k) for a in ALPHAS[::-1])))
    return tuple(out)


EARLIER = Below(
    "the untrained model leaks more than the trained",
    "naive_lpips_untrained",
    than="naive_lpips_trained",
    words=("untrained", "trained"),
    those=tuple(c.label for c in (BARE, *HIDDEN)),
)
RECIPE = Recipe(
    name="fedhide-table2",
    paper="fedhide",
    about=(
        "FedHide, Table 2: four images of CIFAR-100 rebuilt from gradients of Eq. 1 at the"
        " untrained and the trained model."
    ),
    cases=(BARE, *HIDDEN),
    measures=MEASURES,
    scales=SCALES,
    orders=(*_ordered("untrained"), *_ordered("trained"), EARLIER),
    figure="inversion",
    choices=CHOICES,
)
