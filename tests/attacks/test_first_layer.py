"""What a linear first layer gives away is found by the attack as it is, not by a package alone."""

from __future__ import annotations

import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

from attacks import _updates
from attacks._inversion import engines, first_layer
from attacks._inversion.victims import Victim
from attacks.gradient_inversion import GradientInversion
from leakbench import InputRange
from leakbench.attacking.transcript import Transcript
from leakbench.attacking.view import View
from leakbench.scoring.image_distances import psnr

DIGITS = load_digits()
IMAGES = torch.tensor(DIGITS.images / 16.0).float()[:, None]
LABELS = torch.tensor(DIGITS.target)
SHAPE = (1, 8, 8)
QUICK = {"steps": 5, "restarts": 1}  # far too few for a search


def dice():
    return torch.Generator().manual_seed(0)


def relu_net(first=None):
    first, rng = first or nn.Linear(64, 40), torch.Generator().manual_seed(3)
    last = nn.Linear(30, 10)
    net = nn.Sequential(nn.Flatten(), first, nn.ReLU(), nn.Linear(40, 30), nn.ReLU(), last)
    with torch.no_grad():
        for p in net.parameters():
            p.copy_((torch.rand(p.shape, generator=rng) - 0.5) * 2 / p[0].numel() ** 0.5)
    return net


def sent(net, rows, noise=0.0, images=IMAGES, **how):
    """The transcript of one step on the examples ``rows``."""
    said = Transcript(net, F.cross_entropy, shape=SHAPE, batch=len(rows), lr=0.1, **how)
    loss = F.cross_entropy(net(images[rows]), LABELS[rows])
    slopes = torch.autograd.grad(loss, list(net.parameters()))
    moved = [-0.1 * (g + noise * torch.randn(g.shape, generator=dice())) for g in slopes]
    said.add("update", moved, sender="client/0", labels=LABELS[rows])
    return said


def found(said, **how):
    attack = GradientInversion(message="update", **{**QUICK, **how})
    (guess,) = attack.run(View(attack.threat, said, 1), dice())
    return guess


def read(said):
    view = View(GradientInversion(message="update").threat, said, 1)
    (behind,) = _updates.shortest(view, probe=False, most=8)
    return first_layer.images(Victim(view, behind, behind.labels, {}, (), 0), 2)


@pytest.mark.parametrize("noise", [0.0, 1e-6])
def test_a_single_image_of_a_net_with_kinks_is_found_without_a_search(noise):
    guess = found(sent(relu_net(), [5], noise))
    assert psnr(guess.tensors["x"].double(), IMAGES[5:6].double()).item() > 60
    assert guess.accepted


def test_it_lies_where_inputs_lie():
    net, lies = relu_net(), InputRange((-1.0,), (1.0,))
    said = sent(net, [5], images=2 * IMAGES - 1, input_range=lies)
    assert torch.allclose(found(said).tensors["x"], 2 * IMAGES[5:6] - 1, atol=1e-4)


def test_much_noise_leaves_two_halves_that_differ_and_the_search_decides():
    said = sent(relu_net(), [5], 0.3)
    one, other = read(said)
    assert (one - other).square().mean() > 1e-2
    assert not found(said).accepted


def test_of_several_images_no_first_layer_without_bias_and_convolutions_it_says_nothing():
    assert len(read(sent(relu_net(), [5]))) == 2
    assert read(sent(relu_net(), [5, 6])) == []
    assert read(sent(relu_net(nn.Linear(64, 40, bias=False)), [5])) == []
    conv = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(144, 10))
    assert read(sent(conv, [5])) == []
    assert read(sent(relu_net(), [5], optimizer="adam")) == []


def test_a_victim_that_is_read_off_is_searched_no_more(monkeypatch):
    """And whoever is beside it is, from starts that do not depend on that."""
    monkeypatch.setattr(engines, "_adam", lambda *_: pytest.fail("it was searched"))
    assert found(sent(relu_net(), [5])).accepted
