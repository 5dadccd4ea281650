"""How a recovered prototype is scored: is its owner named by it, and how near is it?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leakbench.attacking.guess import Guess
from leakbench.attacking.metric import Metric, Score
from leakbench.base.lazy import torch
from leakbench.base.meaning import Meaning
from leakbench.metrics import topics
from leakbench.scoring.truth import Answer

if TYPE_CHECKING:
    from torch import Tensor

_TIE = 1e-9
SAME = 0.99  # a cosine above is the same prototype
NEAR = 0.1  # of the clients' spread, where a method compares by distance


def likeness(vector: Tensor, candidates: Tensor, distance: str) -> Tensor:
    """(C,): how near ``vector`` (dim,) is to each of ``candidates`` (C, dim).

    Cosine, or minus the Euclidean distance.
    """
    if distance == "euclidean":
        return -(candidates - vector).norm(dim=-1)
    return torch.nn.functional.normalize(candidates, dim=-1) @ direction(vector)


def direction(vector: Tensor) -> Tensor:
    """``vector`` (dim,) at length 1; 0 stays 0.

    At any length: a message clipped to nearly nothing keeps its direction, and torch's own epsilon
    would make all candidates tie.
    """
    whole = vector / vector.abs().max() if bool(vector.any()) else vector
    return torch.nn.functional.normalize(whole, dim=-1)


def share_named(alike: Tensor) -> Tensor:
    """(C,) float64 adding up to 1: who is named, given how near ``alike`` (C,) each is.

    Ties share.
    """
    tie = _TIE * alike.abs().max()  # relative: Euclidean distances have any scale
    best = (alike >= alike.max() - tie).double()
    return best / best.sum()


def nearness(guess: Guess, answer: Answer) -> Tensor:
    """(C,): how near the recovered prototype is to every client's true one, as ``likeness`` has it.

    Of thousands of clients the lengths are taken once, not for every guess.
    """
    vector = guess.tensors["prototype"].double().cpu()
    if answer.distance == "euclidean":
        return likeness(vector, answer.prototypes(), answer.distance)
    return answer.directions() @ direction(vector)


def _p_leak(guess: Guess, answer: Answer) -> list[Score]:
    alike = nearness(guess, answer)
    return [Score(guess.unit, guess.unit, float(share_named(alike)[answer.client]))]


def _p_leak_public(guess: Guess, answer: Answer) -> list[Score]:
    alike = guess.tensors["likeness"].double()
    return [Score(guess.unit, guess.unit, float(share_named(alike)[answer.client]))]


def _one_of_all(guess: Guess, answer: Answer) -> list[Score]:
    return [Score(guess.unit, guess.unit, 1 / len(answer.truth.data["counts"]))]


def _cosine(guess: Guess, answer: Answer) -> list[Score]:
    true = answer.directions()[answer.client][None]
    value = (true @ direction(guess.tensors["prototype"].double()))[0]
    return [Score(guess.unit, guess.unit, float(value.clamp(-1, 1)))]


def _other_cosine(guess: Guess, answer: Answer) -> list[Score]:
    """Another client's true prototype in the guess's place: the mean over all others."""
    true = answer.directions()
    alike = true @ true[answer.client]
    others = (alike.sum() - alike[answer.client]) / (len(true) - 1)
    return [Score(guess.unit, guess.unit, float(others))]


P_LEAK = Metric(
    Meaning(
        name="p_leak",
        public="p_leak_public",
        direction="up",
        low=0.0,
        high=1.0,
        unit="client",
        share=True,
        title="P_leak, share of clients named",
        short="P_leak",
        verb="names",
        noun="clients",
        about=(
            "Share of clients whose true prototype, among all clients', is the nearest to what the"
            " attacker made of their messages."
        ),
        topic=topics.PROTOTYPES,
    ),
    needs=("prototype",),
    score=_p_leak,
    floor=_one_of_all,
)
"""FedHide Eq. 17: is, of all clients' true prototypes, the client's own the nearest to the guess?

Ties share.
"""

P_LEAK_PUBLIC = Metric(
    Meaning(
        name="p_leak_public",
        direction="up",
        low=0.0,
        high=1.0,
        unit="client",
        share=True,
        title="P_leak against public candidates",
        verb="names",
        noun="clients",
        about=(
            "The same, with candidates that an outsider could make from public data: no true"
            " prototypes needed."
        ),
        topic=topics.PROTOTYPES,
        rank=3,
    ),
    needs=("likeness",),
    score=_p_leak_public,
    floor=_one_of_all,
)
"""The same with candidates that the attacker made from auxiliary data."""

PROTOTYPE_COSINE = Metric(
    Meaning(
        name="prototype_cosine",
        direction="up",
        low=-1.0,
        high=1.0,
        unit="client",
        title="cosine to the true prototype",
        verb="comes within cosine",
        about="Cosine between the recovered and the true prototype: 1 is the same direction.",
        topic=topics.PROTOTYPES,
        rank=2,
    ),
    needs=("prototype",),
    score=_cosine,
    floor=_other_cosine,
)
"""Cosine of the guess to the true prototype; floor: another client's true prototype."""


def _recovered(guess: Guess, answer: Answer) -> list[Score]:
    return [Score(guess.unit, guess.unit, float(_found(guess, answer)[answer.client]))]


def _found(guess: Guess, answer: Answer) -> Tensor:
    """(C,) bool: is the guess as good as each client's true prototype?"""
    vector = guess.tensors["prototype"].double()
    if answer.distance == "euclidean":
        true = answer.prototypes()
        spread = (true - true.mean(0)).norm(dim=-1).mean()
        return (vector - true).norm(dim=-1) < NEAR * spread
    return answer.directions() @ direction(vector) > SAME


def _others_recovered(guess: Guess, answer: Answer) -> list[Score]:
    """The guess held against another client's true prototype: the mean over all others."""
    found = _found(guess, answer)
    hits = int(found.sum()) - int(found[answer.client])
    return [Score(guess.unit, guess.unit, hits / max(len(found) - 1, 1))]


RECOVERED = Metric(
    Meaning(
        name="recovered",
        direction="up",
        low=0.0,
        high=1.0,
        unit="client",
        share=True,
        title="share of prototypes recovered",
        verb="recovers the prototypes of",
        noun="clients",
        about="Share of clients whose recovered prototype has a cosine above 0.99 to the true one.",
        topic=topics.PROTOTYPES,
        rank=1,
    ),
    needs=("prototype",),
    score=_recovered,
    floor=_others_recovered,
    floor_of="attack",
)
"""Cosine above 0.99 to the true one; by distance: nearer than a tenth of the clients' spread.

Floor: the guess held against the other clients' true prototypes.
"""

RECOVERY_PRECISION = Metric(
    Meaning(
        name="recovery_precision",
        direction="up",
        low=0.0,
        high=1.0,
        unit="client",
        share=True,
        title="precision of what is called recovered",
        verb="is right about",
        about="Of the prototypes that the attack itself calls recovered, the share that are.",
        topic=topics.PROTOTYPES,
        rank=4,
        judges=False,
    ),
    needs=("prototype",),
    score=_recovered,
    floor=_others_recovered,
    floor_of="attack",
    accepted_only=True,
)
"""``RECOVERED`` among the guesses that the attack accepted; the others are no units of it."""
