"""How much of the inputs a set of shared features still follows.

Distance correlation, three ways, each with its permuted floor.
"""

from __future__ import annotations

import hashlib
from functools import partial
from typing import Any

from leakbench.attacking.guess import Guess
from leakbench.attacking.metric import Metric, Score
from leakbench.base.errors import NotMeasured
from leakbench.base.lazy import torch
from leakbench.base.meaning import Meaning
from leakbench.metrics import topics
from leakbench.scoring.truth import Answer
from leakbench.statistics import distance_correlation

PERMUTATIONS = 200


def _value(guess: Guess, answer: Answer, name: str) -> list[Score]:
    """One pass over pairs gives all three, so they are kept, where there is a run to keep them."""
    place, memo = _place("observed", guess), _memo(answer)
    if place not in memo:
        memo[place] = distance_correlation.correlations(
            answer.inputs("features"), guess.tensors["features"]
        )
    return [Score(guess.unit, guess.unit, memo[place][name])]


def _memo(answer: Answer) -> dict[Any, Any]:
    try:
        return answer.truth.memo
    except NotMeasured:  # messages in memory
        return {}


def _null(guess: Guess, answer: Answer, name: str) -> torch.Tensor:
    """(200,): the number for random pairings; one pass gives all three, so it is kept."""
    place = _place("permuted", guess)
    if place not in answer.truth.memo:
        key = hashlib.sha256(f"permuted/{guess.unit}/{guess.round}".encode()).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(key[:7], "big"))
        answer.truth.memo[place] = distance_correlation.permuted(
            answer.inputs("features"),
            guess.tensors["features"],
            generator=generator,
            permutations=PERMUTATIONS,
        )
    null: torch.Tensor = answer.truth.memo[place][name]
    return null


def _place(what: str, guess: Guess) -> tuple[object, ...]:
    """Where it is kept: by whose features they are said to be, and by their very numbers."""
    features = guess.tensors["features"].detach().cpu().contiguous()
    content = hashlib.sha256(features.numpy().tobytes()).digest()
    form = tuple(features.shape), str(features.dtype)
    return what, guess.unit, guess.round, guess.probe, form, content


def _p_value(guess: Guess, answer: Answer) -> list[Score]:
    name = "dcor2_corrected"
    observed = _value(guess, answer, name)[0].value
    p = distance_correlation.p_value(observed, _null(guess, answer, name))
    return [Score(guess.unit, guess.unit, p)]


def _permuted(guess: Guess, answer: Answer, name: str) -> list[Score]:
    """The floor of the features themselves: the same rows, paired at random."""
    return [Score(guess.unit, guess.unit, float(_null(guess, answer, name).mean()))]


def _metric(meaning: Meaning) -> Metric:
    name = meaning.name
    return Metric(
        meaning,
        needs=("features",),
        score=partial(_value, name=name),
        floor=partial(_permuted, name=name),
        floor_of="attack",
        beside=(("dcor2_corrected_p", _p_value),) if name == "dcor2_corrected" else (),
    )


_DCOR = Meaning(
    name="dcor",
    direction="up",
    low=0.0,
    high=1.0,
    unit="client",
    title="distance correlation",
    verb="sees a correlation of",
    about=(
        "Distance correlation between examples and what is shared of them: 0 where they are"
        " independent, 1 where one fixes the other."
    ),
    topic=topics.RESEMBLANCE,
    rank=1,
)

DCOR = _metric(_DCOR)
"""Székely's distance correlation R, biased.

Near 1 for few rows of many dimensions; read it against its floor.
"""

DCOR2_CORRECTED = _metric(
    Meaning(
        name="dcor2_corrected",
        direction="up",
        low=-1.0,
        high=1.0,
        unit="client",
        title="squared distance correlation, bias-corrected",
        verb=_DCOR.verb,
        about=_DCOR.about,
        topic=topics.RESEMBLANCE,
    )
)
"""The bias-corrected squared distance correlation; units.csv has its permutation p-value too."""

FLEA_CORRELATION = _metric(
    Meaning(
        name="flea_correlation",
        direction="up",
        low=0.0,
        high=1.0,
        unit="client",
        title="FLea's correlation",
        verb=_DCOR.verb,
        about="FLea's own correlation (its Eq. 8), on squared distances.",
        topic=topics.RESEMBLANCE,
        rank=2,
    )
)
"""FLea Eq. 8 on squared Euclidean distances, which is linear CKA."""
