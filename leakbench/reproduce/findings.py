"""What the prototype papers' P_leak is worth: attackers who know the method, on digits.

Five seeds each, on data that come with leakbench; docs/findings.md is made of these tables.
"""

from __future__ import annotations

from leakbench.base import registry
from leakbench.record.policy import Policy
from leakbench.reproduce import fedhide, fedmetric
from leakbench.reproduce.recipe import BY_HAND, UTILITY, Case, Measure, Recipe, Scale, Setup

SEEDS = (0, 1, 2, 3, 4)
# attack -> what its column is called. The first is the papers' own attacker.
ATTACKERS = {
    "prototype_leakage": "the newest message",
    "prototype_averaging": "averaging",
    "prototype_centring": "centring",
    "prototype_unmixing": "un-mixing",
    "prototype_spheres": "the known spheres",
    "prototype_from_update": "one update",
    "codeword_from_update": "one update, decoded",
}
METRICS = {
    "p_leak": "clients named",
    "recovered": "prototypes recovered",
    "codeword_bits": "bits right",
    "centre_error": "error in radii",
}
ASKED = {"centre_error": ("fedmetric",)}  # of whom a metric is asked, if not of all


def attackers_lacking() -> list[str]:
    """Those of the attackers that are not installed."""
    return [name for name in ATTACKERS if name not in registry.names("attacks")]


def _measures(utility: str) -> tuple[Measure, ...]:
    out = [Measure(UTILITY, utility)]
    for name, title in ATTACKERS.items():
        stated = (
            () if name in attackers_lacking() else registry.load_plugin("attacks", name).metrics
        )
        decodes = name == "codeword_from_update"
        params = {"together": False} if decodes else {}  # the newest update alone
        for m in stated:
            if m.name in METRICS:
                asked = ("feduv",) if decodes else ASKED.get(m.name, ())
                first = (name, m.name) == ("prototype_leakage", "p_leak")
                key = "p_leak" if first else f"{m.name} {name}"
                heading = f"{METRICS[m.name]}, {title}"
                out.append(Measure(key, heading, m.name, name, params, first, defenses=asked))
    return tuple(out)


def _scale(time: str, setup: Setup) -> dict[str, Scale]:
    return {"smoke": Scale(time, (setup,), SEEDS, Policy(probes=0, audited=1))}


_PAIRS = Setup(
    dataset="cifar100",
    task="digit-pairs",
    rounds=1000,
    task_params={"evaluations": 10},
    why=fedhide.rates(lr=BY_HAND, own_lr=BY_HAND),
    stand_in="pairs of 8x8 digits, 100 classes, one per client, in place of CIFAR-100",
    differs=("a perceptron of 128 hidden units, not ResNet-18", "40 images a client, not 500"),
)
_DIGITS = Setup(
    dataset="digits",
    task="digits",
    rounds=300,
    task_params={"evaluations": 10},
    why=fedhide.rates(own_lr=BY_HAND),
    stand_in="8x8 digits, ten classes, one per client, which no paper has",
)
_MNIST = Setup(
    dataset="mnist",
    task="digits",
    rounds=300,
    task_params={"utility": "auroc", "evaluations": 10},
    why=fedmetric.RATES_ON_DIGITS,
    stand_in="scikit-learn's 8x8 digits in place of MNIST",
    differs=("a small LeNet with biases, not DeepSVDD's", "about 110 images a client, not 6,000"),
)
_WORST = {fedhide.gn(0.5), fedhide.cs(0.1), fedhide.hide(0.1, 5), fedhide.hide(0.01, 10)}

RECIPES = (
    Recipe(
        name="findings-fedhide",
        paper="fedhide",
        about="FedHide's methods against attackers who know them, 100 clients.",
        cases=(fedhide.AWS, *(c for c in fedhide.HIDING if c.label in _WORST)),
        measures=_measures("accuracy"),
        scales=_scale("a quarter of an hour on two cores", _PAIRS),
    ),
    Recipe(
        name="findings-digits",
        paper="fedhide",
        about="FedHide's methods against attackers who know them, ten clients.",
        cases=(
            fedhide.AWS,
            *(c for c in fedhide.HIDING if c.label in (fedhide.gn(0.5), fedhide.cs(0.1))),
            Case(fedhide.hide(0.1, 3), "fedhide", {"alpha": 0.1, "k": 3}),
        ),
        measures=_measures("accuracy"),
        scales=_scale("5 minutes on two cores", _DIGITS),
    ),
    Recipe(
        name="findings-fedmetric",
        paper="fedmetric",
        about="The methods of FedMetric's Table 2 against attackers who know them, ten clients.",
        cases=tuple(c for c in fedmetric.TABLE if c.defense != "fedaws"),
        measures=_measures("AUROC"),
        scales=_scale("5 minutes on two cores", _MNIST),
    ),
)
