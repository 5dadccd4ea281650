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

    The i-th who trained is paired with the i-th who did not; numbers were drawn. So no two pairs
    share anybody, and pairs are independent, which all combinations would not be.
    """
    told = {guess.unit: float(guess.tensors["user"]) for guess, _ in guesses}

    def score(guess: Guess, answer: Answer) -> list[Score]:
        people = answer.truth.users
        there = (people >= 0).nonzero().flatten().tolist()
        away = (people < 0).nonzero().flatten().tolist()
        if answer.client not in there:
            return []
        other = f"user/{away[there.index(answer.client)]}"
        gap = told[guess.unit] - told[other] if other in told else 0.0
        return [Score(guess.unit, guess.unit, 0.5 + 0.5 * (gap > 0) - 0.5 * (gap < 0))]

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
