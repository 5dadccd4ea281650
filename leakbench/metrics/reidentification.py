"""How re-identification is scored.

Was the set that the client sent later ranked first among all that were sent then?
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
    found = []
    for i, phases in answer.truth.round(round).get("client", {}).items():
        if any("features" in p.get("inputs", {}) for p in phases.values()):
            found.append(int(i))
    if not found:
        raise NotMeasured(
            f"the truth of round {round} does not say whose features are whose (the method's"
            " `inputs` names none)"
        )
    return sorted(found)


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
    own = float(best[senders.index(answer.client)])
    return [Score(guess.unit, guess.unit, own / int(best.sum()))]


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
"""Share of clients whose later set is the likest to the one they sent before.

Of all sets of that later round; ties count 1/ties. ``likeness`` (sets,): in the order of the
senders' numbers; ``round`` (): the later round. Floor: 1/sets.
"""
