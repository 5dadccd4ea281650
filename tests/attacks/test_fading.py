"""How far back a mean reaches is told by the messages; points are found at known distances."""

import math

import pytest
import torch

from attacks._fading import faded, reach, weights
from attacks._spheres import common_point, trust
from attacks.prototype_centring import deviations


def normal(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_weights_halve():
    age = torch.tensor([0.0, 5.0, 10.0], dtype=torch.float64)
    assert weights(age, 5.0).tolist() == [1, 0.5, 0.25]
    assert weights(age, 0.0).tolist() == [1, 0, 0]
    assert weights(age, math.inf).tolist() == [1, 1, 1]


def test_the_mean_of_all_and_of_the_newest():
    sent = normal(0, 7, 3)
    assert torch.allclose(faded(sent, math.inf), sent.mean(0))
    assert torch.equal(faded(sent, 0.0), sent[-1])
    two = faded(sent[-2:], 1.0)
    assert torch.allclose(two, (2 * sent[-1] + sent[-2]) / 3)


@pytest.mark.parametrize("cosine", [True, False])
def test_fresh_noise_around_what_stands_still_is_averaged_over_everything(cosine):
    sent = [normal(c, 32) + 2 * normal(100 + c, 80, 32) for c in range(8)]
    assert reach(sent, cosine=cosine) >= 50


@pytest.mark.parametrize("cosine", [True, False])
def test_of_what_walks_without_noise_the_newest_tells_most(cosine):
    sent = [normal(c, 80, 32).cumsum(0) for c in range(8)]
    assert reach(sent, cosine=cosine) == 0


def test_what_drifts_under_noise_is_averaged_over_less():
    sent = [0.3 * normal(c, 200, 32).cumsum(0) + 2 * normal(50 + c, 200, 32) for c in range(8)]
    assert 1 < reach(sent, cosine=False) < 20


def test_nobody_with_two_messages_leaves_nothing_to_choose():
    assert reach([], cosine=True) == math.inf
    assert reach([normal(0, 1, 4)], cosine=True) == math.inf


def test_two_messages_are_both_averaged():
    assert reach([normal(0, 2, 4), normal(1, 2, 4)], cosine=True) == math.inf


def test_deviations_are_from_what_others_sent_as_many_messages_ago():
    a, b = normal(0, 3, 2), normal(1, 2, 2)
    own, other = deviations([a, b])
    assert torch.allclose(own[0], torch.zeros(2, dtype=torch.float64))  # nobody else was there
    assert torch.allclose(own[1:], (a[1:] - b) / 2)
    assert torch.allclose(own[1:] + other, torch.zeros(2, 2, dtype=torch.float64))
    assert deviations([normal(0, 1, 2)]) == []


def shown(seed, n, dim, still=True):
    """A centre, points at known distances around it, and these."""
    centre, turn = normal(seed, dim), normal(seed + 1, n, dim)
    far = 2 + 0.1 * normal(seed + 2, n)
    moves = 0 if still else 0.05 * normal(seed + 3, n, dim)
    around = centre + moves + far[:, None] * torch.nn.functional.normalize(turn, dim=-1)
    return centre, around, far


def test_more_distances_than_dimensions_give_the_point_exactly():
    centre, around, far = shown(0, 12, 8)
    found = common_point(around, far, math.inf, 0.0)
    assert float((found - centre).norm()) < 1e-5 < float((around.mean(0) - centre).norm())


def test_an_infinite_ridge_is_the_mean():
    _, around, far = shown(0, 12, 8)
    assert torch.allclose(common_point(around, far, math.inf, math.inf), around.mean(0))


def test_fewer_distances_than_dimensions_do_no_harm():
    made = [shown(7 * c, 6, 64) for c in range(20)]
    found = [common_point(a, f, math.inf, 1.0) for _, a, f in made]
    of_mean = sum(float((a.mean(0) - c).norm()) for c, a, _ in made)
    assert sum(float((p - c).norm()) for p, (c, *_) in zip(found, made, strict=True)) < of_mean


def test_distances_are_trusted_less_where_the_centre_moves():
    def chosen(still):
        made = [shown(5 * c, 60, 16, still) for c in range(10)]
        return trust([a for _, a, _ in made], [f for *_, f in made], math.inf)

    assert chosen(True) < chosen(False) < math.inf


def test_too_few_messages_trust_the_mean():
    _, around, far = shown(0, 9, 4)
    assert trust([around], [far], math.inf) == math.inf
