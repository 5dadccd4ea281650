"""How a recovered codeword is scored: how many of its bits are right?"""

from __future__ import annotations

from leakbench.attacking.guess import Guess
from leakbench.attacking.metric import Metric, Score
from leakbench.base.errors import NotMeasured
from leakbench.base.meaning import Meaning
from leakbench.metrics import topics
from leakbench.scoring.truth import Answer


def _bits(guess: Guess, answer: Answer) -> list[Score]:
    true = answer.prototypes()[answer.client]
    if not bool((true.abs() == 1).all()):
        raise NotMeasured("what the method hides is no codeword: its numbers are not all -1 or 1.")
    agreed = guess.tensors["prototype"].to(true).sign() * true  # 0: neither right nor wrong
    return [Score(guess.unit, guess.unit, float((1 + agreed).mean() / 2))]


def _coin(guess: Guess, answer: Answer) -> list[Score]:
    return [Score(guess.unit, guess.unit, 0.5)]


CODEWORD_BITS = Metric(
    Meaning(
        name="codeword_bits",
        direction="up",
        low=0.0,
        high=1.0,
        unit="client",
        title="share of a codeword's bits that are right",
        short="bits",
        verb="gets right, of the bits of a client's secret codeword, a share of",
        about=(
            "Share of the bits of a client's secret codeword that the attacker gets right: half of"
            " them by throwing a coin, 1 is the whole codeword."
        ),
        topic=topics.PROTOTYPES,
        rank=5,
    ),
    needs=("prototype",),
    score=_bits,
    floor=_coin,
)
"""Share of the bits that the signs of the guess get right; a 0 counts as half a bit.

Floor: a coin, 0.5. With the public number of ten clients 4 of 127 bits are known beforehand: 0.516.
"""
