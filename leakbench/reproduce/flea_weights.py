"""What FLea's choices do: Figure 6 (shares), Figure 10 (mixing), Figure 11 (weights of the loss).

All of them are on sound in the paper: UrbanSound8K, Qua(3), 70 clients.
"""

from __future__ import annotations

from typing import Any

from leakbench.reproduce.flea_accuracy import BEST, FINAL, UNPRINTED
from leakbench.reproduce.flea_setups import NARROW, NARROWER, RECORD, har, sound
from leakbench.reproduce.orders import Falls, Less
from leakbench.reproduce.recipe import Case, Measure, Recipe, Scale, Setup

_SENSORS = "on sensors, where the paper has sound"


def _scales(smoke: tuple[int, str], small: tuple[int, str], full: str) -> dict[str, Scale]:
    """Rounds and about how long of each scale."""
    return {
        "smoke": Scale(smoke[1], (sound(smoke[0]),), record=RECORD),
        "small": Scale(small[1], (sound(small[0]),), (0, 1, 2), record=RECORD),
        "full": Scale(full, (sound(100),), seeds=(0, 1, 2, 3, 4), record=RECORD),
    }


# Figure 6 -----------------------------------------------------------------------------------------
SHARES = {0.05: 20, 0.1: 10, 0.2: 5}  # share of the data -> FedMix's examples in a mean


def sharing(method: str, share: float) -> str:
    """A row's label: a tenth, which is both methods' own, needs no number."""
    return method if share == 0.1 else f"{method}, {100 * share:g} %"


FIGURE6 = Recipe(
    name="flea-figure6",
    paper="flea",
    about=(
        "FLea, Figure 6: accuracy of FLea and FedMix over rounds, and over the share of"
        " augmentations. The paper prints no numbers."
    ),
    cases=(
        *(Case(sharing("FLea", s), "flea", {"share": s}) for s in SHARES),
        *(Case(sharing("FedMix", s), "fedmix", {"size": n}) for s, n in SHARES.items()),
    ),
    measures=UNPRINTED,
    scales=_scales(
        (10, "4 minutes on two cores"), (30, "a quarter of an hour on one core"), "an hour on a GPU"
    ),
    orders=(
        Less(
            "FLea is above FedMix at equal shares",
            "best",
            pairs=tuple((sharing("FedMix", s), sharing("FLea", s)) for s in SHARES),
        ),
        Less(
            "FLea is above FedMix with half as much shared",
            "best",
            pairs=tuple((sharing("FedMix", 2 * s), sharing("FLea", s)) for s in (0.05, 0.1)),
        ),
    ),
    figure="rounds",
    choices=(
        "FedMix's share is one mean for so many examples; the paper does not say how it counts.",
    ),
)

# Figure 10 ----------------------------------------------------------------------------------------
SHAPES = (1, 2, 5, 10)


def shaped(a: int) -> str:
    """A row's label."""
    return f"FLea, a = {a}"


FIGURE10 = Recipe(
    name="flea-figure10",
    paper="flea",
    about=(
        "FLea, Figure 10: accuracy over the a of Beta(a, a), from which the mixing weights are"
        " drawn."
    ),
    cases=(Case("FedAvg", "fedavg"), *(Case(shaped(a), "flea", {"a": a}) for a in SHAPES)),
    measures=UNPRINTED,
    scales=_scales(
        (10, "3 minutes on two cores"), (30, "ten minutes on one core"), "an hour on a GPU"
    ),
    orders=(
        Less(
            "whatever a is, mixing beats none (FedAvg)",
            "best",
            pairs=tuple(("FedAvg", shaped(a)) for a in SHAPES),
        ),
        Less(
            "an a from 1.5 to 5 is best",
            "best",
            pairs=tuple((shaped(out), shaped(a)) for out in (1, 10) for a in (2, 5)),
        ),
    ),
    figure="rounds",
    choices=("The values of a are ours, whole numbers; the paper's best are from 1.5 to 5.",),
)

# Figure 11 ----------------------------------------------------------------------------------------
LAM1, LAM2 = (0.0, 4.0, 6.0), (0.0, 1.0, 6.0, 10.0)
PLAIN = Case("λ1 = 1, λ2 = 3", "flea")


def point_of_weights(**lams: float) -> Case:
    """A point of Figure 11."""
    ((name, value),) = lams.items()
    return Case(f"{'λ1' if name == 'lam1' else 'λ2'} = {value:g}", "flea", {name: value})


def _correlation(metric: str, title: str) -> Measure:
    printed = metric == "flea_correlation"
    return Measure(metric, title, metric, "distance_correlation", printed=printed)


_POINTS = (
    PLAIN,
    *(point_of_weights(lam1=v) for v in LAM1),
    *(point_of_weights(lam2=v) for v in LAM2),
)
_ALONG = tuple(
    point_of_weights(lam2=v).label if v != 3 else PLAIN.label for v in sorted((*LAM2, 3.0))
)


def _both(rounds: int, spoken: int, width: int) -> tuple[Setup, ...]:
    """Sensors, and sound where that is here."""
    net: dict[str, Any] = {} if width == 64 else {"width": width}
    narrow = {16: (NARROWER,), 32: (NARROW,)}.get(width, ())
    sensors = har(rounds, (*narrow, _SENSORS), evaluations=max(10, rounds), **net)
    return sensors, sound(spoken)


FIGURE11 = Recipe(
    name="flea-figure11",
    paper="flea",
    about="FLea, Figure 11: accuracy and correlation over the weights λ1 and λ2.",
    cases=_POINTS,
    measures=(
        BEST,
        FINAL,
        _correlation("flea_correlation", "Eq. 8"),
        _correlation("dcor", "R"),
        _correlation("dcor2_corrected", "corrected R²"),
    ),
    scales={
        "smoke": Scale("12 minutes on two cores", _both(10, 10, 16), record=RECORD),
        "small": Scale("an hour and a half on two cores", _both(100, 50, 32), record=RECORD),
        "full": Scale(
            "some hours on one GPU", _both(100, 100, 64), seeds=(0, 1, 2, 3, 4), record=RECORD
        ),
    },
    orders=(
        Falls("the larger λ2, the lower the correlation (Eq. 8)", "flea_correlation", along=_ALONG),
        Less("λ1 above 4 harms", "best", pairs=((point_of_weights(lam1=6.0).label, PLAIN.label),)),
    ),
    figure="weights",
    choices=(
        (
            "The values of λ1 and λ2 are ours: the paper's axis is not printed. With λ1 on the axis"
            " λ2 is 3, and the other way round 1."
        ),
    ),
)

RECIPES = (FIGURE6, FIGURE10, FIGURE11)
