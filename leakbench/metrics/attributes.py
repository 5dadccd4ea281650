"""Whose data are these? How well an attribute of a client's examples, as the person, is inferred.

Floor of both: what the classes alone tell somebody who knows of each class how often each value
occurs in it (of the examples that an attacker may be told), and the true classes of the client's
examples, and no message. Where that tells everything the question is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from leakbench.attacking.guess import Guess
from leakbench.attacking.metric import Metric, Score
from leakbench.base.errors import NotMeasured
from leakbench.base.lazy import torch
from leakbench.base.meaning import Meaning
from leakbench.metrics import topics
from leakbench.scoring.originals import ROWS
from leakbench.scoring.truth import Answer

if TYPE_CHECKING:
    from torch import Tensor

CHANCE = 0.01  # that classes and values are taken to hang together where they do not
TOLD = 0.99  # of the known examples, that the class alone tells right: there is nothing to infer


def _by_class(answer: Answer) -> Tensor:
    """(K, V) float64: of the known examples of each class the share of each value.

    Of all alike where class and value are independent, as far as these tell.

    Raises:
        NotMeasured: the record has none; or the class tells the value.
    """
    from scipy.stats import chi2_contingency

    memo = answer.truth.memo
    if "attribute_by_class" not in memo:
        known = answer.truth.attributed
        y, value = known["y"], known["attribute"]
        classes = 1 + max(int(y.max()), int(answer.truth.data["y"].max()))
        count = torch.zeros(classes, int(value.max()) + 1, dtype=torch.float64)
        count.index_put_((y, value), torch.ones(len(y), dtype=torch.float64), accumulate=True)
        told = float(count.max(1).values.sum() / count.sum())
        values = int((count.sum(0) > 0).sum())
        there = count[count.sum(1) > 0][:, count.sum(0) > 0].numpy()
        if min(there.shape) < 2 or chi2_contingency(there).pvalue > CHANCE:
            count[:] = count.sum(0)  # else a few examples' chance would be worse than no guess
        count[count.sum(1) == 0] = count.sum(0)  # of a class that nobody knows: as of all
        memo["attribute_by_class"] = count / count.sum(1, keepdim=True), told, values
    shares, told, values = memo["attribute_by_class"]
    if told >= TOLD or values < 2:
        raise NotMeasured(
            f"an example's class alone tells its attribute, of {told:.1%} of the known examples, so"
            " there is nothing to infer."
        )
    found: Tensor = shares
    return found


def _concordance(guess: Guess, answer: Answer, score: Tensor) -> list[Score]:
    """How often the value of which the client has more is ranked higher; ties count a half.

    ``score`` (V,): the higher, the more examples. Values that the attacker does not know come last.
    Nothing is scored where the client has as many of each.
    """
    score, count = score.double().cpu(), answer.attribute_counts.double()
    if score.ndim != 1:
        raise ValueError(
            f"{guess.unit}: expected a score for each value (V,), got {tuple(score.shape)}."
        )
    values = max(len(score), len(count))
    count = torch.cat([count, count.new_zeros(values - len(count))])
    last = score.min().expand(values - len(score)) - 1
    score = torch.cat([score, last])
    more = count[:, None] > count[None]
    if not bool(more.any()):
        return []
    above = score[:, None] - score[None]
    right = (above > 0).double() + (above == 0).double() / 2
    return [Score(guess.unit, guess.unit, float(right[more].mean()))]


def _auc(guess: Guess, answer: Answer) -> list[Score]:
    _by_class(answer)
    return _concordance(guess, answer, guess.tensors["attribute"])


def _of_all(guesses: Sequence[tuple[Guess, Any]]) -> Callable[[Guess, Any], list[Score]]:
    """``_auc``, where there is a client whose examples are not as many of each value."""
    if guesses and not any(_auc(*one) for one in guesses):
        raise NotMeasured(
            f"each of {len(guesses)} clients has as many examples of each value of the attribute,"
            " so that nothing tells them apart."
        )
    return _auc


def _auc_of_classes(guess: Guess, answer: Answer) -> list[Score]:
    """Of who knows how many examples of each class the client has."""
    shares = _by_class(answer)
    y = answer.truth.data["y"][answer.examples]
    count = y.bincount(minlength=len(shares)).double()
    return _concordance(guess, answer, count @ shares)


def _rows(guess: Guess) -> tuple[str, Tensor]:
    """The kind of message whose rows were named, and which, (k,)."""
    name = next((k for k in guess.tensors if k.endswith(ROWS)), "")
    if not name:
        raise ValueError(f"{guess.unit}: which rows of which message were named is not said.")
    return name.removesuffix(ROWS), guess.tensors[name].cpu()


def _each(guess: Guess, answer: Answer, named: Callable[[Tensor], Tensor]) -> list[Score]:
    """1 or 0 for each row that was sent; ``named``: of rows of the task's data (k,) the value."""
    _by_class(answer)
    kind, at = _rows(guess)
    rows = answer.rows(kind)[at]
    right = named(rows).cpu() == answer.attribute[rows]
    told = zip(rows.tolist(), right.tolist(), strict=True)
    return [Score(f"{guess.unit}/{row}", guess.unit, float(is_so)) for row, is_so in told]


def _named(guess: Guess, answer: Answer) -> list[Score]:
    found = guess.tensors["named"]
    if found.is_floating_point() or found.shape != _rows(guess)[1].shape:
        raise ValueError(
            f"{guess.unit}: named must be an integer for each row, got {tuple(found.shape)}."
        )
    return _each(guess, answer, lambda rows: found)


def _named_by_class(guess: Guess, answer: Answer) -> list[Score]:
    """The value that is most frequent in the example's class."""
    shares = _by_class(answer)
    return _each(guess, answer, lambda rows: shares[answer.truth.data["y"][rows]].argmax(1))


def _left(guesses: Sequence[Guess], answer: Answer, scores: Sequence[Score]) -> str:
    """How many clients are not counted, because they have as many examples of each value."""
    few = len(guesses) - len(scores)
    why = "have as many examples of each value of the attribute"
    return f"round {guesses[0].round}: {few} of {len(guesses)} clients {why}" if few else ""


ATTRIBUTE_AUC = Metric(
    Meaning(
        name="attribute_auc",
        direction="up",
        low=0.0,
        high=1.0,
        unit="client",
        title="telling whose data a client has",
        verb="tells whose data a client has with an AUC of",
        about=(
            "How often, of two people of whom a client has more and fewer examples, the one with"
            " more is ranked higher: 0.5 is chance."
        ),
        topic=topics.ATTRIBUTES,
    ),
    needs=("attribute",),
    score=_auc,
    across=_of_all,
    floor=_auc_of_classes,
    remark=_left,
)
"""The chance that of two values the one of which the client has more examples is ranked higher.

Of a client that has examples of one value alone that is the area under the ROC. ``attribute`` (V,):
a score for each value, the higher, the more of its examples are the client's.
"""

ATTRIBUTE_ACCURACY = Metric(
    Meaning(
        name="attribute_accuracy",
        direction="up",
        low=0.0,
        high=1.0,
        unit="example",
        share=True,
        title="examples whose person is named",
        verb="names the person of",
        noun="examples",
        about="Share of the examples behind what was sent whose person is named.",
        topic=topics.ATTRIBUTES,
        rank=1,
    ),
    needs=("named",),
    score=_named,
    floor=_named_by_class,
)
"""Share of the examples that a client shared whose attribute is named rightly.

``named`` (k,) int64: a value for each of the message's rows "<kind>.rows". Clients are clusters.
"""
