"""How well those who trained are told from others who have the like and did not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from leakbench.attacking.guess import Guess
from leakbench.attacking.metric import Metric, Score
from leakbench.base.meaning import Meaning
from leakbench.metrics import topics
from leakbench.scoring.truth import Answer


def _in_pairs(guesses: Sequence[tuple[Guess, Answer]]) -> Callable[[Guess, Answer], list[Score]]:
    """Does each who trained outrank the one who did not that it is paired with? Ties count a half.

    By their numbers in the task, which are drawn, the i-th who trained is paired with the i-th who
    did not. So no two pairs share anybody, and pairs are independent, which all combinations would
    not be; and of other seeds they are the same pairs, of one name: whose data are learnt easily is
    so in all of them, and more seeds are no more people. Of a pair with who observes nothing is
    asked: it knows itself.
    """
    told = {guess.unit: float(guess.tensors["user"]) for guess, _ in guesses}

    def score(guess: Guess, answer: Answer) -> list[Score]:
        people = answer.truth.users.tolist()
        there = sorted((n, i) for i, n in enumerate(people) if n >= 0)
        away = sorted((-n, i) for i, n in enumerate(people) if n < 0)
        pairs = zip(there, away, strict=True)
        for i, ((client, own), (_, other)) in enumerate(pairs):
            if own == answer.client and client not in answer.truth.observers:
                there_is, name = f"user/{other}" in told, f"pair/{i}"
                gap = told[guess.unit] - told[f"user/{other}"] if there_is else 0.0
                value = 0.5 + 0.5 * (gap > 0) - 0.5 * (gap < 0)
                return [Score(name, name, value, failed=not there_is)]
        return []

    return score


def _alone(guess: Guess, answer: Answer) -> list[Score]:
    return _in_pairs([(guess, answer)])(guess, answer)


USER_AUC = Metric(
    Meaning(
        name="user_auc",
        direction="up",
        low=0.0,
        high=1.0,
        unit="user",
        share=True,
        title="clients told from others",
        verb="tells who trained from who did not in a share of pairs of",
        about=(
            "How often somebody who trained is ranked above somebody who has the like and did not:"
            " 0.5 is chance."
        ),
        topic=topics.USERS,
    ),
    needs=("user",),
    score=_alone,
    across=_in_pairs,
)
"""The chance that a client outranks somebody who was dealt data alike and never trained.

``user``: one number for each of these people, the higher the likelier it is a client.
"""
