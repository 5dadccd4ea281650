"""How a guess of a client's labels is scored.

How many of them it gets right as a multiset, and whether it knows which classes occur.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from leakbench.attacking.guess import Guess
from leakbench.attacking.metric import Metric, Score
from leakbench.base.lazy import torch
from leakbench.base.meaning import Meaning
from leakbench.metrics import topics
from leakbench.scoring.truth import Answer

if TYPE_CHECKING:
    from torch import Tensor


def _both(guess: Guess, answer: Answer) -> tuple[Tensor, Tensor]:
    """The shares (K,) of the classes as guessed and as they are, float64.

    Raises:
        ValueError: what was guessed are no shares.
    """
    found = guess.tensors["shares"].double().cpu()
    if bool((found < 0).any()) or abs(float(found.sum()) - 1) > 1e-6:
        raise ValueError(
            f"{guess.unit}: shares must be 0 or more and sum to 1, got a sum of"
            f" {float(found.sum())}."
        )
    phase = guess.tensors.get("phase")
    y = answer.labels(None if phase is None else int(phase))
    true = y.bincount(minlength=len(found)).double() / len(y)
    if len(true) != len(found):
        raise ValueError(
            f"{guess.unit}: expected the shares of at least {len(true)} classes, got {len(found)}."
        )
    return found, true


def _overlap(guess: Guess, answer: Answer) -> list[Score]:
    found, true = _both(guess, answer)
    both = float(torch.minimum(found, true).sum())
    return [Score(guess.unit, guess.unit, min(1.0, both))]


def _set(guess: Guess, answer: Answer) -> list[Score]:
    found, true = (v > 0 for v in _both(guess, answer))
    both, either = int((found & true).sum()), int((found | true).sum())
    return [Score(guess.unit, guess.unit, both / either)]


def _right(guess: Guess, answer: Answer) -> list[Score]:
    """1 or 0 for each example: of a class that was guessed k times, k are right."""
    found = guess.tensors["labels"].cpu()
    if found.ndim != 1 or found.is_floating_point():
        raise ValueError(f"{guess.unit}: labels must be integers (B,), got {tuple(found.shape)}.")
    true, rows = answer.classes(guess)
    left = Counter(found.tolist())
    # Who guesses an example anew in every epoch names its label as often.
    left = Counter({c: k * len(true) // len(found) for c, k in left.items()})
    out = []
    for y, row in zip(true.tolist(), rows.tolist(), strict=True):
        out.append(Score(f"{guess.unit}/{row}", guess.unit, float(left[y] > 0)))
        left[y] -= 1
    return out


# A prior is no draw: where all clients score the same on it the floor has no width, so it is
# declared as a formula.
LABEL_OVERLAP = Metric(
    Meaning(
        name="label_overlap",
        direction="up",
        low=0.0,
        high=1.0,
        unit="client",
        title="share of labels recovered",
        verb="recovers a share of a client's labels of",
        about=(
            "Share of a client's labels, or of those of a batch, that the attacker recovers,"
            " counted as multisets."
        ),
        topic=topics.LABELS,
    ),
    needs=("shares",),
    score=_overlap,
    floor=_overlap,
)
"""Share of the labels recovered, as multisets: sum over the classes of min(guessed share, true
share).

That is |A and B| / n of n true labels and n guessed ones. True are the labels behind the update of
``phase`` (), all steps together, or without a ``phase`` those of all of the client's data. A guess
that names the right classes and not how often they occur scores less than 1 where they are uneven:
read it beside ``label_set``.
"""

LABEL_SET = Metric(
    Meaning(
        name="label_set",
        direction="up",
        low=0.0,
        high=1.0,
        unit="client",
        title="classes named rightly",
        verb="names a client's classes with a Jaccard index of",
        about=(
            "Classes that the attacker names and the client has, among all that are named or held:"
            " 1 is exactly the client's classes."
        ),
        topic=topics.LABELS,
        rank=1,
    ),
    needs=("shares",),
    score=_set,
    floor=_set,
)
"""Are the right classes named? Jaccard index of the classes with a guessed share above 0 and those
that occur; 1: exactly these.

Of a guess that gives every class a share (the blind one) it is (classes that occur) / K.
"""

LABEL_ACCURACY = Metric(
    Meaning(
        name="label_accuracy",
        direction="up",
        low=0.0,
        high=1.0,
        unit="image",
        share=True,
        title="share of a batch's labels inferred rightly",
        short="labels inferred",
        verb="infers the labels of",
        noun="images",
        about=(
            "Share of the images whose label the attacker inferred from the update before it solved"
            " for them, counted as multisets."
        ),
        topic=topics.LABELS,
        rank=2,
    ),
    needs=("labels",),
    score=_right,
    of_examples={
        "noun": "examples",
        "about": (
            "Share of the examples whose label the attacker inferred from the update before it"
            " solved for them, counted as multisets."
        ),
    },
)
"""Share of the images behind an update whose label is among those guessed, as multisets.

Of a class that was guessed k times, k of its images count as right, whichever. An image over
several epochs is one. Floor: the likeliest labels by their frequency in the auxiliary data.
"""
