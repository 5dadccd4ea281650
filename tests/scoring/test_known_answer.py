"""A guess beside a truth that the user has: the metrics of run folders, without one."""

from __future__ import annotations

import math

import pytest
import torch
from helpers.small_runs import noise

from leakbench.attacking.guess import Guess
from leakbench.base.errors import NotMeasured, UsageError
from leakbench.metrics import (
    DCOR,
    IDENTIFICATION_MATCHED,
    LABEL_OVERLAP,
    LABEL_SET,
    MSE,
    P_LEAK,
    PROTOTYPE_COSINE,
    PSNR,
    REIDENTIFIED,
)
from leakbench.scoring import KnownAnswer

X = noise(0, 2, 1, 4, 4)


def value(metric, answer, **tensors):
    (score,) = metric.score(Guess("client/1", 1, tensors), answer)
    assert score.unit.startswith("client/1")
    return score.value


def test_images_of_a_batch_are_matched_whatever_their_order():
    off = 0.01 * torch.ones(1, 4, 4)
    guess = Guess("client/0", 1, {"x": torch.stack([X[1], (X[0] * 0.9 + 0.05) + off])})
    by_hand = [float((X[0] * 0.9 + 0.06 - X[0]).square().mean()), 0.0]
    found = MSE.score(guess, KnownAnswer(x=X.float()))
    assert [s.value for s in found] == pytest.approx(by_hand, abs=1e-7)
    first, second = (s.value for s in PSNR.score(guess, KnownAnswer(x=X)))
    assert first == pytest.approx(-10 * math.log10(by_hand[0]))
    assert second == 100


def test_of_several_guesses_of_an_image_the_nearest_counts():
    """Who trains on an image in two epochs is guessed twice."""
    guess = Guess("client/0", 1, {"x": torch.stack([X[0], X[1], 1 - X[0], 1 - X[1]])})
    assert [s.value for s in MSE.score(guess, KnownAnswer(x=X))] == pytest.approx([0, 0])


def test_rows_of_a_message_stay_in_their_order():
    rows = torch.tensor([1, 0])
    guess = Guess("client/0", 1, {"x": X[rows], "features.rows": rows})
    assert [s.value for s in MSE.score(guess, KnownAnswer(x=X))] == [0, 0]
    swapped = Guess("client/0", 1, {"x": X, "features.rows": rows})
    assert all(s.value > 0.01 for s in MSE.score(swapped, KnownAnswer(x=X)))


def test_signals_are_not_cut_off_at_one():
    assert value(MSE, KnownAnswer(x=X[:1] + 5, signal=True), x=X[:1] + 4) == pytest.approx(1)
    with pytest.raises(NotMeasured, match="images"):
        value(PSNR, KnownAnswer(x=X[:1], signal=True), x=X[:1])


def test_labels():
    answer = KnownAnswer(y=torch.tensor([0, 0, 0, 2]))
    shares = torch.tensor([0.5, 0.25, 0.25])
    assert value(LABEL_OVERLAP, answer, shares=shares) == pytest.approx(0.75)
    assert value(LABEL_SET, answer, shares=shares) == pytest.approx(2 / 3)


def test_labels_in_any_usual_shape():
    y = torch.tensor([0, 0, 0, 2])
    same = (y, y[:, None], y.double(), y.double()[:, None], torch.eye(3)[y], torch.eye(3).long()[y])
    shares = torch.tensor([0.5, 0.25, 0.25])
    for given in same:
        assert value(LABEL_OVERLAP, KnownAnswer(y=given), shares=shares) == pytest.approx(0.75)
    for wrong in (y + 0.5, 0.5 * torch.eye(3)[y], y.view(2, 2), y.view(2, 2, 1), y - 1):
        with pytest.raises(UsageError, match="the true y"):
            value(LABEL_OVERLAP, KnownAnswer(y=wrong), shares=shares)


def test_prototypes():
    true = torch.eye(3)
    guess = torch.tensor([0.1, 0.9, 0.0])
    for client, named in ((1, 1.0), (0, 0.0)):
        answer = KnownAnswer(client=client, prototypes=true)
        assert value(P_LEAK, answer, prototype=guess) == named
    cosine = value(PROTOTYPE_COSINE, KnownAnswer(client=0, prototypes=true), prototype=guess)
    assert cosine == pytest.approx(0.1 / math.hypot(0.1, 0.9))
    far = torch.tensor([[10.0, 10, 0], [0, 5, 0], [0, 0, 1]])
    near = {
        d: value(P_LEAK, KnownAnswer(client=2, prototypes=far, distance=d), prototype=guess)
        for d in ("cosine", "euclidean")
    }
    assert near == {"cosine": 0.0, "euclidean": 1.0}


def test_features():
    x = noise(1, 12, 1, 2, 2)
    assert value(DCOR, KnownAnswer(x=x), features=3 * x.flatten(1)) == pytest.approx(1)


def test_what_was_not_given_or_takes_a_run_is_said():
    with pytest.raises(UsageError, match=r"needs the true x: write KnownAnswer\(x=...\)"):
        value(PSNR, KnownAnswer(y=torch.tensor([1])), x=X[:1])
    with pytest.raises(NotMeasured, match="no gallery"):
        value(IDENTIFICATION_MATCHED, KnownAnswer(x=X[:1]), x=X[:1])
    likeness = {"likeness": torch.zeros(2), "round": torch.tensor(1)}
    with pytest.raises(NotMeasured, match="a whole run"):
        value(REIDENTIFIED, KnownAnswer(), **likeness)
