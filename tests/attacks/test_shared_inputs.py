"""Inputs that are shared with noise on them are not taken for the inputs."""

from __future__ import annotations

import pytest
import torch
from sklearn.datasets import load_digits

from attacks._shared_inputs import plain, restored
from leakbench.federation import Examples

DIGITS = load_digits()
IMAGES = torch.tensor(DIGITS.images / 16.0)[:, None]
LABELS = torch.tensor(DIGITS.target)
AUX = Examples(IMAGES[300:], LABELS[300:])
X, Y = IMAGES[:60], LABELS[:60]


def noise(level):
    return level * torch.randn(X.shape, generator=torch.Generator().manual_seed(0)).double()


def error(found):
    return float((found - X).square().mean())


def test_inputs_as_they_are_are_plain_one_by_one_too():
    assert plain(X, AUX, signal=False)
    assert all(plain(x[None], AUX, signal=False) for x in X)


@pytest.mark.parametrize("changed", [X + noise(0.1), 5 * X, X / 5])
def test_noise_and_other_sizes_are_not(changed):
    assert not plain(changed, AUX, signal=False)


def test_noise_on_signals_is_seen_by_its_size():
    assert plain(X + noise(0.1), AUX, signal=True)
    assert not plain(X + noise(3.0), AUX, signal=True)


@pytest.mark.parametrize("level", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_the_filter_errs_less_than_the_message_and_than_the_class_mean(level, scale):
    sent = scale * (X + noise(level))
    found, match = restored(sent, Y, AUX, 10, signal=False)
    means = torch.stack([AUX.x[AUX.y == c].mean(0) for c in range(10)])[Y]
    assert error(found) < error((sent / scale).clamp(0, 1))
    assert error(found) < 1.1 * error(means)
    assert error(match) < 1.2 * error(X + noise(level))


def test_a_message_that_was_only_made_smaller_comes_back():
    found, match = restored(X / 5, Y, AUX, 10, signal=False)
    assert error(found) < 0.01
    assert error(match) < 0.01
