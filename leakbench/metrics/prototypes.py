"""How a recovered prototype is scored: is its owner named by it, and how near is it?"""

from __future__ import annotations

import torch
from torch import Tensor

from leakbench.attacking.guess import Guess
from leakbench.attacking.metric import Metric, Score
from leakbench.scoring.truth import Answer

_TIE = 1e-9


def likeness(vector: Tensor, candidates: Tensor, distance: str) -> Tensor:
    """(C,): how near ``vector`` (dim,) is to each of ``candidates`` (C, dim); cosine, or minus the
    Euclidean distance.
    """
    if distance == "euclidean":
        return -(candidates - vector).norm(dim=-1)
    # At any length: a message clipped to nearly nothing keeps its direction, and torch's own
    # epsilon would make them all tie.
    whole = vector / vector.abs().max() if bool(vector.any()) else vector
    return torch.nn.functional.cosine_similarity(candidates, whole[None], dim=-1)


def named(alike: Tensor) -> Tensor:
    """(C,) float64 adding up to 1: who is named, given how near each of ``alike`` (C,) is; ties
    share.
    """
    best = (
        alike >= alike.max() - _TIE * alike.abs().max()
    ).double()  # relative: Euclidean distances have any scale
    return best / best.sum()


def _named(alike: Tensor, client: int) -> float:
    return float(named(alike)[client])


def _p_leak(guess: Guess, answer: Answer) -> list[Score]:
    alike = likeness(guess.tensors["prototype"].double(), answer.prototypes(), answer.distance)
    return [Score(guess.unit, guess.unit, _named(alike, answer.client))]


def _p_leak_public(guess: Guess, answer: Answer) -> list[Score]:
    return [
        Score(guess.unit, guess.unit, _named(guess.tensors["likeness"].double(), answer.client))
    ]


def _one_of_all(guess: Guess, answer: Answer) -> list[Score]:
    return [Score(guess.unit, guess.unit, 1 / len(answer.truth.data["counts"]))]


def _cosine(guess: Guess, answer: Answer) -> list[Score]:
    true = answer.prototypes()[answer.client]
    value = likeness(guess.tensors["prototype"].double(), true[None], "cosine")[0]
    return [Score(guess.unit, guess.unit, float(value.clamp(-1, 1)))]


def _other_cosine(guess: Guess, answer: Answer) -> list[Score]:
    """Another client's true prototype in the guess's place: the mean over all others."""
    true = torch.nn.functional.normalize(answer.prototypes(), dim=-1)
    alike = true @ true[answer.client]
    return [
        Score(guess.unit, guess.unit, float((alike.sum() - alike[answer.client]) / (len(true) - 1)))
    ]


P_LEAK = Metric(
    "p_leak", "up", 0.0, 1.0, "client", True, ("prototype",), _p_leak, floor=_one_of_all
)
"""FedHide Eq. 17: the true prototype nearest to the guess, of all clients', is that of the client
itself; ties share.
"""

P_LEAK_PUBLIC = Metric(
    "p_leak_public",
    "up",
    0.0,
    1.0,
    "client",
    True,
    ("likeness",),
    _p_leak_public,
    floor=_one_of_all,
)
"""The same with candidates that the attacker made from auxiliary data."""

PROTOTYPE_COSINE = Metric(
    "prototype_cosine",
    "up",
    -1.0,
    1.0,
    "client",
    False,
    ("prototype",),
    _cosine,
    floor=_other_cosine,
)
"""Cosine of the guess to the true prototype; floor: another client's true prototype."""
