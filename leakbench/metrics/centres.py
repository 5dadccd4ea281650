"""How near a recovered centre is, in units of the true sphere's radius."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leakbench.attacking.guess import Guess
from leakbench.attacking.metric import Metric, Score
from leakbench.base.errors import NotMeasured
from leakbench.base.lazy import torch
from leakbench.base.meaning import Meaning
from leakbench.metrics import topics
from leakbench.scoring.truth import Answer

if TYPE_CHECKING:
    from torch import Tensor


def _radius(answer: Answer) -> float:
    """Of the client's own sphere, above 0.

    Raises:
        NotMeasured: the method has no such spheres, or this one is a point.
    """
    everyone = answer.truth.round(answer.round).get("everyone", {})
    if "radius" not in everyone:
        raise NotMeasured("the method's clients have no radius to measure with.")
    radius = float(everyone["radius"][answer.client])
    if not radius > 0:
        raise NotMeasured(f"the sphere of client {answer.client} has no radius to measure with.")
    return radius


def _error(guess: Guess, answer: Answer) -> list[Score]:
    radius, true = _radius(answer), answer.prototypes()[answer.client]
    missed = guess.tensors["centre"].double() - true
    return [Score(guess.unit, guess.unit, float(missed.norm()) / radius)]


def _others(guess: Guess, answer: Answer) -> list[Score]:
    """Another client's true centre in the guess's place: the mean over all others."""
    radius, true = _radius(answer), answer.prototypes()
    away: Tensor = torch.linalg.vector_norm(true - true[answer.client], dim=-1)
    return [Score(guess.unit, guess.unit, float(away.sum()) / (len(true) - 1) / radius)]


CENTRE_ERROR = Metric(
    Meaning(
        name="centre_error",
        direction="down",
        low=0.0,
        high=None,
        unit="client",
        margin=0.05,
        title="distance to the true centre, in radii",
        short="error in radii",
        verb="comes as near as",
        suffix=" radii",
        about=(
            "Distance from the recovered to the true centre, in radii of the client's true sphere:"
            " below 1 the guess lies inside."
        ),
        topic=topics.PROTOTYPES,
        rank=8,
    ),
    needs=("centre",),
    score=_error,
    floor=_others,
)
"""Distance of the guess to the true centre over R; floor: another client's true centre."""
