"""Exposure as a number: of how many other clients does a client hold features? Counted, not
estimated.
"""

from __future__ import annotations

from functools import partial

from leakbench.attacking.guess import Guess
from leakbench.attacking.metric import Metric, Score
from leakbench.scoring.truth import Answer


def _share(guess: Guess, answer: Answer, name: str) -> list[Score]:
    others = len(answer.truth.data["counts"]) - 1
    return [Score(guess.unit, guess.unit, float(guess.tensors[name]) / others)]


def _constant(guess: Guess, answer: Answer, value: float) -> list[Score]:
    return [Score(guess.unit, guess.unit, value)]


def _metric(name: str, tensor: str) -> Metric:
    measure, none, all_ = (
        partial(_share, name=tensor),
        partial(_constant, value=0.0),
        partial(_constant, value=1.0),
    )
    return Metric(
        name,
        "up",
        0.0,
        1.0,
        "client",
        False,
        (tensor,),
        measure,
        floor=none,
        control=all_,
        exact=True,
    )


EXPOSURE = _metric("exposure", "got")
"""Per client, the share of the others whose features it got so far. Exact. Floor 0: who gets no
message sees nothing. Control 1: everybody gets everything, as in FedMix and FedData; the control
transcript cannot give it, for there the same parties send to the same parties, and only the
contents differ.
"""

EXPOSURE_UNDIRECTED = _metric("exposure_undirected", "exchanged")
"""The same for the others whose features it got or who got its."""
