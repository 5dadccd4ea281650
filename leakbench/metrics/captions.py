"""How guesses from shared captions are scored: which image is meant, and which words are held."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leakbench.attacking.guess import Guess
from leakbench.attacking.metric import Metric, Score
from leakbench.base.errors import NotMeasured
from leakbench.base.meaning import Meaning
from leakbench.base.tokens import SPECIAL
from leakbench.metrics import topics
from leakbench.scoring.truth import Answer

if TYPE_CHECKING:
    from torch import Tensor

_TIE = 1e-9
WORDS = len(SPECIAL)  # the first token that is one


def _places(answer: Answer) -> Tensor:
    """Where the gallery of the newest caption's image stands, the image first."""
    if "shown" not in answer.truth.data:
        raise NotMeasured("the truth does not say which examples show one image: no captions")
    return answer.look_alikes(int(answer.rows("labels")[0]))


def _found(guess: Guess, answer: Answer) -> list[Score]:
    alike, places = guess.tensors["likeness"].double().cpu(), _places(answer)
    if alike.ndim != 1 or int(places.max()) >= len(alike):
        raise ValueError(
            f"{guess.unit}: expected a likeness for every image of the gallery, got"
            f" {tuple(alike.shape)}."
        )
    some = alike[places]
    best = some >= some.max() - _TIE
    return [Score(guess.unit, guess.unit, float(best[0]) / int(best.sum()))]


def _one_of_all(guess: Guess, answer: Answer) -> list[Score]:
    return [Score(guess.unit, guess.unit, 1 / len(_places(answer)))]


IMAGE_FOUND = Metric(
    Meaning(
        name="image_found",
        direction="up",
        low=0.0,
        high=1.0,
        unit="client",
        share=True,
        title="share of captions whose image is found",
        short="image found",
        verb="finds the image behind the shared caption of",
        noun="clients",
        about=(
            "Share of clients whose captioned image is, of up to 100 look-alikes, the one that the"
            " attacker takes the shared caption to be about."
        ),
        topic=topics.CAPTIONS,
    ),
    needs=("likeness",),
    score=_found,
    floor=_one_of_all,
)
"""Is the image behind a client's newest caption ranked first among up to 100 look-alikes?

Images of its topic, the client's own first, then others; ties count 1/ties. ``likeness`` (m,): of
all images of the gallery that the attacker was granted, in its order. Floor: 1 / look-alikes.
"""


def _both(guess: Guess, answer: Answer) -> tuple[Tensor, Tensor]:
    """The words (V,) bool that were named, and those that the client's captions have."""
    if "targets" not in answer.truth.data:
        raise NotMeasured("the truth holds no captions")
    named = guess.tensors["words"].cpu() > 0
    held = answer.truth.data["targets"][answer.examples]
    true = named.new_zeros(len(named)).index_fill(0, held.unique().long(), value=True)
    true[:WORDS] = False
    return named, true


def _precision(guess: Guess, answer: Answer) -> list[Score]:
    named, true = _both(guess, answer)
    return [Score(guess.unit, guess.unit, int((named & true).sum()) / max(int(named.sum()), 1))]


def _recall(guess: Guess, answer: Answer) -> list[Score]:
    named, true = _both(guess, answer)
    return [Score(guess.unit, guess.unit, int((named & true).sum()) / max(int(true.sum()), 1))]


WORD_PRECISION = Metric(
    Meaning(
        name="word_precision",
        direction="up",
        low=0.0,
        high=1.0,
        unit="client",
        title="share of the named words that are the client's",
        short="words right",
        verb="names words of a client's private captions, right a share of",
        about=(
            "Of the uncommon words that the attacker says stand in a client's captions, the share"
            " that do. The floor names as many, the most frequent elsewhere."
        ),
        topic=topics.CAPTIONS,
        rank=1,
    ),
    needs=("words",),
    score=_precision,
    floor=_precision,
)
"""Of the words named (V,), the share that the client's training captions have; () of none is 0."""

WORD_RECALL = Metric(
    Meaning(
        name="word_recall",
        direction="up",
        low=0.0,
        high=1.0,
        unit="client",
        title="share of the client's words that are named",
        short="words known",
        verb="names of the words of a client's private captions a share of",
        about="Of the words that stand in a client's captions, the share that the attacker names.",
        topic=topics.CAPTIONS,
        rank=2,
    ),
    needs=("words",),
    score=_recall,
    floor=_recall,
)
"""Of the words that the client's training captions have, common ones too, the share named."""
