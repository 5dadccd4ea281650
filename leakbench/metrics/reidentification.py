"""How re-identification is scored: was the set that the client sent later ranked first among all
that were sent then?
"""

from __future__ import annotations

from leakbench.attacking.guess import Guess
from leakbench.attacking.metric import Metric, Score
from leakbench.base.errors import NotMeasured
from leakbench.base.meaning import Meaning
from leakbench.metrics import topics
from leakbench.scoring.truth import Answer

_TIE = 1e-9


def _senders(answer: Answer, round: int) -> list[int]:
    """The clients whose features of this round were recorded, in order."""
    clients = answer.truth.round(round).get("client", {})
    found = sorted(
        int(i)
        for i, phases in clients.items()
        if any("features" in p.get("inputs", {}) for p in phases.values())
    )
    if not found:
        raise NotMeasured(
            f"the truth of round {round} does not say whose features are whose (the method's"
            " `inputs` names none)"
        )
    return found


def _reidentified(guess: Guess, answer: Answer) -> list[Score]:
    alike = guess.tensors["likeness"].double().cpu()
    senders = _senders(answer, int(guess.tensors["round"]))
    if len(senders) != len(alike):
        raise ValueError(
            f"expected a likeness for each of {len(senders)} sets of round"
            f" {int(guess.tensors['round'])}, got {len(alike)}"
        )
    if answer.client not in senders:  # only of another run's truth
        return [Score(guess.unit, guess.unit, 0.0)]
    best = alike >= alike.max() - _TIE
    return [
        Score(guess.unit, guess.unit, float(best[senders.index(answer.client)]) / int(best.sum()))
    ]


def _one_of_all(guess: Guess, answer: Answer) -> list[Score]:
    return [Score(guess.unit, guess.unit, 1 / len(guess.tensors["likeness"]))]


REIDENTIFIED = Metric(
    Meaning(
        name="reidentified",
        direction="up",
        low=0.0,
        high=1.0,
        unit="client",
        share=True,
        title="share of clients recognised in a later round",
        verb="recognises",
        noun="clients",
        about=(
            "Share of clients whose features of a later round are, of all sent then, the likest to"
            " what they sent before."
        ),
        topic=topics.IDENTITY,
    ),
    needs=("likeness", "round"),
    score=_reidentified,
    floor=_one_of_all,
)
"""Share of clients whose set of a later round is the likest, of all sets of that round, to the set
they sent before; ties count 1/ties. ``likeness`` (sets,): in the order of the senders' numbers;
``round`` (): the later round. Floor: 1/sets.
"""
