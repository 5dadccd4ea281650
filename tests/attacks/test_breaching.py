"""The adapter to breaching: it reconstructs, any loss will do, and it leaves no trace in the global
dice.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

from attacks._breaching import invert
from leakbench.base.errors import UnknownName, UsageError
from leakbench.scoring.image_distances import psnr

DIGITS = load_digits()
IMAGES, LABELS = torch.tensor(DIGITS.images / 16.0).float()[:, None], torch.tensor(DIGITS.target)
X, Y = IMAGES[50:51], LABELS[50:51]


def drawn(net):
    dice = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(
                (torch.rand(p.shape, generator=dice) - 0.5) * 4 * (3 / p[0].numel()) ** 0.5
                if p.dim() > 1
                else torch.zeros_like(p)
            )
    return net


def small_net(out=10, channels=1, side=8):
    layers = [
        nn.Conv2d(channels, 12, 5, 2, 2),
        nn.Tanh(),
        nn.Conv2d(12, 12, 5, 2, 2),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(12 * (side // 4) ** 2, out),
    ]
    return drawn(nn.Sequential(*layers))


def gradient(net, loss, x, y):
    found = torch.autograd.grad(loss(net(x), y), list(net.parameters()))
    return {name: g for (name, _), g in zip(net.named_parameters(), found, strict=True)}


def dice(seed=0):
    return torch.Generator().manual_seed(seed)


def test_reconstructs_a_digit_and_leaves_the_global_dice_alone():
    net, loss = small_net(), nn.CrossEntropyLoss()
    g = gradient(net, loss, X, Y)
    weights = {k: v.clone() for k, v in net.state_dict().items()}
    # It is the old global state that must stay.
    numpy_state = np.random.get_state()[1].copy()  # noqa: NPY002
    before = (torch.get_rng_state(), random.getstate(), numpy_state)
    calls = []
    kinds = {"generator": dice(), "steps": 300, "total_variation": 1e-3}
    found = invert(net, g, loss, (1, 1, 8, 8), Y, progress=lambda: calls.append(1), **kinds)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert (np.random.get_state()[1] == before[2]).all()  # noqa: NPY002
    assert len(calls) == 300
    assert net.training
    assert all(torch.equal(v, weights[k]) for k, v in net.state_dict().items())

    floor = psnr(IMAGES[LABELS == Y].mean(0, keepdim=True), X).item()
    assert psnr(found.image, X).item() > floor + 15
    assert 0 <= found.loss < 1e-4
    # Another pairing of gradient and image is not reconstructed: the attack reads the gradient and
    # nothing else.
    other = invert(
        net, gradient(net, loss, 1 - X, Y), loss, (1, 1, 8, 8), Y, **kinds | {"generator": dice()}
    )
    assert psnr(other.image, X).item() < floor


def test_same_dice_same_bytes():
    net, loss = small_net(), nn.CrossEntropyLoss()
    g = gradient(net, loss, X, Y)

    def run(seed, **more):
        torch.rand(3)  # the global dice stand elsewhere each time
        return invert(net, g, loss, (1, 1, 8, 8), Y, generator=dice(seed), steps=40, **more)

    first, again, other = run(1), run(1), run(2)
    assert torch.equal(first.image, again.image)
    assert first.loss == again.loss
    assert not torch.equal(first.image, other.image)
    assert run(1, restarts=3).loss <= first.loss


def test_any_loss_and_a_part_of_the_parameters():
    net = small_net(32)
    secret = F.normalize(torch.randn(32, generator=dice(5)), dim=0)

    def prototype(f, _):
        return (1 - F.normalize(f, dim=1) @ secret).square().mean()

    g = gradient(net, prototype, X, Y)
    g = {k: v for k, v in g.items() if k.startswith(("0.", "2."))}
    found = invert(
        net, g, prototype, (1, 1, 8, 8), Y, generator=dice(), steps=400, total_variation=1e-3
    )
    assert psnr(found.image, X).item() > 30


def test_labels_are_inferred_from_a_classifier():
    net, loss = small_net(), nn.CrossEntropyLoss()
    found = invert(
        net, gradient(net, loss, X, Y), loss, (1, 1, 8, 8), None, generator=dice(), steps=5
    )
    assert found.labels.tolist() == Y.tolist()


def test_colour_norm_layers_and_layers_that_are_not_used():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.norm, self.other = (
                small_net(10, 3, 32),
                nn.BatchNorm2d(3),
                nn.Linear(2, 2),
            )

        def forward(self, x):
            return self.body(self.norm(x))

    net, loss = Net().eval(), nn.CrossEntropyLoss()
    net.norm.running_mean.fill_(0.5)
    at = torch.arange(32) / 5
    x = torch.stack(
        [
            0.5 + 0.45 * torch.sin(at[:, None] * a + at * b)
            for a, b in ((1.0, 0.3), (0.2, 1.0), (0.7, -0.6))
        ]
    )[None]
    used = {k: v for k, v in net.named_parameters() if not k.startswith("other")}
    g = dict(zip(used, torch.autograd.grad(loss(net(x), Y), list(used.values())), strict=True))
    g |= {k: torch.zeros_like(v) for k, v in net.named_parameters() if k.startswith("other")}
    found = invert(net, g, loss, (1, 3, 32, 32), Y, generator=dice(), steps=300)
    assert (
        psnr(found.image, x).item()
        > psnr(x.mean((2, 3), keepdim=True).expand(x.shape), x).item() + 8
    )
    wei = invert(net, g, loss, (1, 3, 32, 32), Y, generator=dice(), steps=2, attack="wei")
    assert wei.image.shape == x.shape


def test_flat_images_and_other_attacks():
    net, loss = (
        drawn(nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10))).double(),
        nn.CrossEntropyLoss(),
    )
    g = gradient(net, loss, X.double().flatten(1), Y)
    kinds = {"generator": dice(), "takes": (64,)}
    found = invert(net, g, loss, (1, 1, 8, 8), Y, steps=300, total_variation=1e-3, **kinds)
    assert found.image.dtype == torch.float64
    assert psnr(found.image, X.double()).item() > 30
    for attack in ("wei", "beyondinfering"):
        assert invert(
            net, g, loss, (1, 1, 8, 8), Y, steps=2, attack=attack, **kinds
        ).image.shape == (1, 1, 8, 8)


def test_what_is_printed_and_what_interrupts(capsys):
    net, loss = small_net(), nn.CrossEntropyLoss()
    g = gradient(net, loss, X, Y)

    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        invert(net, g, loss, (1, 1, 8, 8), Y, generator=dice(), steps=5, progress=stop)
    out = capsys.readouterr()
    assert out.out == out.err == ""


def test_nothing_finite_is_an_infinite_loss():
    net, loss = small_net(), nn.CrossEntropyLoss()
    # No direction to match.
    g = {k: torch.zeros_like(v) for k, v in gradient(net, loss, X, Y).items()}
    found = invert(net, g, loss, (1, 1, 8, 8), Y, generator=dice(), steps=3)
    assert found.loss == float("inf")
    assert not found.image.any()


def test_wrong_inputs():
    net, loss = small_net(), nn.CrossEntropyLoss()
    g = gradient(net, loss, X, Y)

    def run(g=g, shape=(1, 1, 8, 8), loss=loss, **more):
        return invert(net, g, loss, shape, Y, generator=dice(), steps=1, **more)

    with pytest.raises(UnknownName, match="invertinggradients"):
        run(attack="invertingradients")
    with pytest.raises(UsageError, match="B, C, H, W"):
        run(shape=(1, 64))
    with pytest.raises(UsageError, match=r"'0\.weight'"):
        run(g={"0.weight": torch.zeros(3)})
    with pytest.raises(UsageError, match="not finite"):
        run(g={**g, "0.bias": g["0.bias"] * torch.nan})
    with pytest.raises(UsageError, match="empty"):
        run(g={})
    with pytest.raises(UsageError, match="depends on none"):
        run(loss=lambda f, y: f.detach().sum())
