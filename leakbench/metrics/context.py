"""Can an attacker tell whose data carry the planted marker?

Balanced accuracy over clients, and the samples it takes to 0.90.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from leakbench.attacking.guess import Guess
from leakbench.attacking.metric import Metric, Score
from leakbench.base.errors import NotMeasured
from leakbench.base.meaning import Meaning
from leakbench.base.streams import shared
from leakbench.metrics import topics
from leakbench.scoring.truth import Answer

if TYPE_CHECKING:
    from torch import Tensor

AIM = 0.9


def scored(guess: Guess, answer: Answer) -> list[int]:
    """The clients that count: of those in the guess, as many marked as clear ones.

    Which, a named stream says that knows neither the guess nor the run's seed: the same in every
    draw and for every attack.

    Raises:
        NotMeasured: the task plants no marker, or all clients in the guess are of one kind.
    """
    there = set(guess.tensors["client"].tolist())
    marked = _marked(answer)
    order = shared(0, "context/balance").permutation("clients", len(marked)).tolist()
    kinds: dict[bool, list[int]] = {True: [], False: []}
    for i in order:
        if i in there:
            kinds[bool(marked[i])].append(i)
    few = min(map(len, kinds.values()))
    if not few:
        lacking = "clear" if kinds[True] else "marked"
        raise NotMeasured(
            f"round {guess.round}: of the {len(there)} clients whose messages are attacked none is"
            f" {lacking}."
        )
    return sorted(kinds[True][:few] + kinds[False][:few])


def shares(guess: Guess, answer: Answer, scores: Tensor) -> list[Score]:
    """Per client that counts, the share of its rows that ``scores`` tell right.

    ``scores`` (rows,): above 0 for marked. There are as many marked as clear clients, so the mean
    is the balanced accuracy over clients.
    """
    marked, client = _marked(answer), guess.tensors["client"]
    right = ((scores > 0) == marked[client]).double()
    return [
        Score(f"client/{i}/{guess.unit}", f"client/{i}", float(right[client == i].mean()))
        for i in scored(guess, answer)
    ]


def accuracies(guess: Guess, answer: Answer) -> list[float]:
    """(G,) the balanced accuracy with each number of samples that the guess tried."""

    def mean(scores: list[Score]) -> float:
        return math.fsum(s.value for s in scores) / len(scores)

    return [mean(shares(guess, answer, s)) for s in guess.tensors["score"]]


def _marked(answer: Answer) -> Tensor:
    """(C,) bool."""
    truth = answer.truth.data
    if "context" not in truth:
        raise NotMeasured("the task plants no context marker, so there is none to tell.")
    marked: Tensor = truth["context"].bool()
    return marked


def _most(guess: Guess, answer: Answer) -> list[Score]:
    return shares(guess, answer, guess.tensors["score"][-1])


def _shuffled(guess: Guess, answer: Answer) -> list[Score]:
    return shares(guess, answer, guess.tensors["shuffled"])


def _coin(guess: Guess, answer: Answer) -> list[Score]:
    return [Score(s.unit, s.cluster, 0.5) for s in _most(guess, answer)]


def _left(guesses: Sequence[Guess], answer: Answer, scores: Sequence[Score]) -> str:
    """How many clients are not counted, of the guesses that were made."""
    made = next((g for g in guesses if not g.failed), None)
    there = len(set(made.tensors["client"].tolist())) if made else 0
    counted = len({s.cluster for s in scores})
    kind = f"{there - counted} of {there} clients are not counted: as many marked as clear ones are"
    return f"round {guesses[0].round}: {kind}" if there > counted else ""


def _needed(guess: Guess, answer: Answer) -> list[Score]:
    """The smallest number tried that reaches 0.90.

    A draw that never does scores the largest, and counts as failed.
    """
    sizes = guess.tensors["sizes"].tolist()
    tried = zip(sizes, accuracies(guess, answer), strict=True)
    reached = [n for n, a in tried if a >= AIM]
    least = reached[0] if reached else sizes[-1]
    return [Score(guess.unit, guess.unit, float(least), failed=not reached)]


def _all(guess: Guess, answer: Answer) -> list[Score]:
    scored(guess, answer)  # where accuracy cannot be measured, neither can this
    return [Score(guess.unit, guess.unit, float(guess.tensors["sizes"][-1]))]


def _beyond(guesses: Sequence[Guess], answer: Answer, scores: Sequence[Score]) -> str:
    """Whether the number lies past the most that was tried.

    Raises:
        NotMeasured: in more than half of the draws, then a mean would be made of what was not
            reached.
    """
    most = int(max(s.value for s in scores))
    failed = sum(s.failed for s in scores) + sum(bool(g.failed) for g in guesses)
    why = (
        f"{failed} of {len(scores)} draws of the attacker's samples did not reach accuracy"
        f" {AIM:.2f} with {most}"
    )
    if 2 * failed > len(scores):
        raise NotMeasured(f">{most} in round {guesses[0].round}: {why}")
    return f"round {guesses[0].round}: {why} and count as {most}" if failed else ""


CONTEXT_ACCURACY = Metric(
    Meaning(
        name="context_accuracy",
        direction="up",
        low=0.0,
        high=1.0,
        unit="client",
        title="balanced accuracy of telling the context",
        verb="tells contexts apart with accuracy",
        about=(
            "Balanced accuracy of an attacker who tells the context of held-out clients' features:"
            " 0.5 is a coin."
        ),
        topic=topics.CONTEXT,
    ),
    needs=("sizes", "client", "score", "shuffled"),
    score=_most,
    floor=_coin,
    beside=(("context_shuffled", _shuffled),),
    remark=_left,
)
"""Balanced accuracy over clients with the most samples tried.

Each client is scored in each of the draws of the attacker's samples. These come from auxiliary
data, so every client is held out. Clients are the clusters; ``context_shuffled`` is the same of a
classifier whose samples had shuffled labels.
"""

SAMPLES_TO_90 = Metric(
    Meaning(
        name="samples_to_90",
        direction="down",
        low=10.0,
        high=None,
        unit="draw",
        # Ten samples fewer of twenty matter, of a thousand they do not.
        scale="log",
        margin=math.log(2),
        title="samples until accuracy 0.90",
        verb="needs for accuracy 0.90 only so many samples:",
        about=(
            "Smallest number of samples with which the attacker reaches accuracy 0.90: fewer is"
            " worse."
        ),
        decimals=0,
        topic=topics.CONTEXT,
        rank=1,
    ),
    needs=("sizes", "client", "score"),
    score=_needed,
    floor=_all,
    remark=_beyond,
)
"""The smallest number of samples tried with which ``CONTEXT_ACCURACY`` reaches 0.90.

Mean over draws. Only a few numbers are tried, so draws may agree exactly: an interval without width
is no finer than the steps between them.
"""
