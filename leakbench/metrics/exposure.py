"""Exposure as a number: of how many other clients does a client hold features?

Counted, not estimated.
"""

from __future__ import annotations

from functools import partial

from leakbench.attacking.guess import Guess
from leakbench.attacking.metric import Metric, Score
from leakbench.base.meaning import Meaning
from leakbench.metrics import topics
from leakbench.scoring.truth import Answer


def _share(guess: Guess, answer: Answer, name: str) -> list[Score]:
    others = len(answer.truth.data["counts"]) - 1
    return [Score(guess.unit, guess.unit, float(guess.tensors[name]) / others)]


def _constant(guess: Guess, answer: Answer, value: float) -> list[Score]:
    return [Score(guess.unit, guess.unit, value)]


def _metric(meaning: Meaning, tensor: str) -> Metric:
    return Metric(
        meaning,
        needs=(tensor,),
        score=partial(_share, name=tensor),
        floor=partial(_constant, value=0.0),
        control=partial(_constant, value=1.0),
        exact=True,
    )


EXPOSURE = _metric(
    Meaning(
        name="exposure",
        direction="up",
        low=0.0,
        high=1.0,
        unit="client",
        title="share of the others whose features a client got",
        verb="with no skill sees the features of this share of the others:",
        about="Per client, the share of the other clients whose features it received so far.",
        topic=topics.EXPOSURE,
    ),
    "got",
)
"""Per client, the share of the others whose features it got so far.

Exact. Floor 0: who gets no message sees nothing. Control 1: everybody gets everything, as in FedMix
and FedData; the control transcript cannot give it, for there the same parties send to the same
parties, and only the contents differ.
"""

EXPOSURE_UNDIRECTED = _metric(
    Meaning(
        name="exposure_undirected",
        direction="up",
        low=0.0,
        high=1.0,
        unit="client",
        title="share of the others that got or gave features",
        verb="with no skill trades features with this share of the others:",
        about=(
            "Per client, the share of the other clients whose features it got, or who got its own."
        ),
        topic=topics.EXPOSURE,
        rank=1,
    ),
    "exchanged",
)
"""The same for the others whose features it got or who got its."""
