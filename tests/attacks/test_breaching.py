"""The package `breaching` beside our engine: it reconstructs, it solves what ours solves, in the
victim's mode, and it leaves no trace in the global dice.
"""

from __future__ import annotations

import random
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers.small_runs import obstacle
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

from attacks import _updates
from attacks._inversion import breaching, check, engines, package
from attacks._inversion.packaged import VictimLoss, told
from attacks._inversion.signed_adam import patterned
from attacks._inversion.stack import Stack
from attacks._inversion.variation import variation
from attacks._inversion.victims import Victim
from attacks.gradient_inversion import GradientInversion
from leakbench import models
from leakbench.attacking import View
from leakbench.attacking.transcript import Transcript
from leakbench.base import UsageError
from leakbench.scoring.image_distances import psnr

DIGITS = load_digits()
IMAGES, LABELS = torch.tensor(DIGITS.images / 16.0).float()[:, None], torch.tensor(DIGITS.target)
X, Y = IMAGES[50:51], LABELS[50:51]
AT = torch.arange(16) / 3
COLOUR = torch.stack(
    [
        0.5 + 0.45 * torch.sin(AT[:, None] * a + AT * b)
        for a, b in ((1.0, 0.3), (0.2, 1.0), (0.7, -0.6))
    ]
)[None]


def dice(seed=0):
    return torch.Generator().manual_seed(seed)


def drawn(net):
    rng = dice()
    with torch.no_grad():
        for p in net.parameters():
            wide = (torch.rand(p.shape, generator=rng) - 0.5) * 4 * (3 / p[0].numel()) ** 0.5
            p.copy_(wide if p.dim() > 1 else torch.zeros_like(p))
    return net


def lenet(channels=1, side=8, out=10):
    return drawn(
        nn.Sequential(
            nn.Conv2d(channels, 12, 5, 2, 2),
            nn.Tanh(),
            nn.Conv2d(12, 12, 5, 2, 2),
            nn.Tanh(),
            nn.Flatten(),
            nn.Linear(12 * (side // 4) ** 2, out),
        )
    )


def mlp():
    return drawn(nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)))


def sent(net, x=X, y=Y, loss=F.cross_entropy, change=lambda g: g, **fields):
    """What a client sent, in memory."""
    said = Transcript(net, loss, shape=tuple(x.shape[1:]), batch=len(x), lr=0.1, **fields)
    value = loss(net(x), y)
    found = torch.autograd.grad(value, list(net.parameters()), allow_unused=True)
    both = zip(found, net.parameters(), strict=True)
    slopes = [torch.zeros_like(p) if g is None else g for g, p in both]
    said.add("update", [-0.1 * change(g) for g in slopes], sender="client/0", labels=y)
    return said


def victim(*args, **kwargs):
    view = View(GradientInversion(message="update").threat, sent(*args, **kwargs), 1)
    (behind,) = _updates.shortest(view, probe=False, most=1)
    return Victim(view, behind, behind.labels, {}, (), 0)


def how(**fields):
    usual = {"package": "invertinggradients", "steps": 150, "restarts": 1, "total_variation": 0.05}
    return SimpleNamespace(**{**usual, "side_by_side": 0, **fields})


def floor(x=X, y=Y):
    return psnr(IMAGES[y == LABELS].mean(0, keepdim=True), x).item()


@pytest.mark.parametrize("name", ["invertinggradients", "modern"])
def test_reconstructs_a_digit_and_leaves_the_global_dice_alone(name):
    net = lenet()
    weights = {k: v.clone() for k, v in net.state_dict().items()}
    # It is the old global state that must stay.
    numpy_state = np.random.get_state()[1].copy()  # noqa: NPY002
    before = (torch.get_rng_state(), random.getstate(), numpy_state)
    shares = []
    ((found,),) = breaching.search([victim(net)], how(package=name), dice(), shares.append)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert (np.random.get_state()[1] == before[2]).all()  # noqa: NPY002
    assert shares[:2] == pytest.approx([1 / 150, 2 / 150])
    assert shares[-1] == 1
    assert net.training
    assert all(torch.equal(v, weights[k]) for k, v in net.state_dict().items())

    assert psnr(found.x.float(), X).item() > floor() + 10
    assert 0 <= found.mismatch < 1e-3
    assert found.engine == "breaching"
    # Another gradient of the same label is not reconstructed as this image.
    ((other,),) = breaching.search([victim(net, 1 - X)], how(package=name), dice())
    assert psnr(other.x.float(), X).item() < floor()


def test_same_dice_same_bytes_and_restarts_are_candidates_that_are_judged():
    seen = victim(lenet())
    short = how(steps=15, restarts=3)

    def run(seed):
        torch.rand(3)  # the global dice stand elsewhere each time
        return breaching.search([seen], short, dice(seed))[0]

    first, again, other = run(1), run(1), run(2)
    assert [c.restart for c in first] == [0, 1, 2]
    assert all(torch.equal(a.x, b.x) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0].x, other[0].x)
    assert not torch.equal(first[0].x, first[1].x)
    best = check.judge(seen, first, short).best
    assert any(c is best for c in first)


@pytest.mark.parametrize("name", ["invertinggradients", "modern"])
@pytest.mark.parametrize("channels", [1, 3])
def test_its_objective_is_ours(name, channels):
    """Mismatch, total variation, and the slope of both, of the same image."""
    side = 16
    x = COLOUR if channels == 3 else COLOUR[:, :1]
    seen = victim(lenet(channels, side), x)
    at = torch.rand(1, channels, side, side, generator=dice(1), dtype=torch.float64)
    # Where images end the package sees a step to black: there is none if they end black.
    at[..., -1, :] = at[..., -1] = 0
    weight = 0.2
    loss = VictimLoss(seen, torch.float64)
    config = package.configured(name, steps=1, variation=weight, channels=channels)
    attacker = package.prepared(loss, config, at, None)
    attacker.objective.initialize(attacker.loss_fn, config.impl)
    theirs = at.clone().requires_grad_()
    value, _ = attacker.objective(loss, loss.gradient, theirs, seen.labels)
    mine = at.clone().requires_grad_()
    ours = Stack([seen], torch.float64).mismatch(mine[None], {})[0]
    assert value.item() == pytest.approx(ours.item(), abs=1e-5)
    (prior,) = attacker.regularizers
    value, ours = value + prior(theirs), ours + weight * _prior(mine, name)
    assert value.item() == pytest.approx(ours.item(), abs=1e-5)
    value.sum().backward()
    ours.backward()
    inside = (..., slice(0, -1), slice(0, -1))
    assert torch.allclose(theirs.grad[inside], mine.grad[inside], atol=1e-5)


def _prior(x, name):
    """`modern`'s is our own; that of `invertinggradients` adds the sides and knows no opponents."""
    if name == "modern":
        return variation(x[None])[0]
    down = F.pad((x[..., 1:, :] - x[..., :-1, :]).abs(), (0, 0, 0, 1))
    across = F.pad((x[..., 1:] - x[..., :-1]).abs(), (0, 1))
    return (down + across).mean()


@pytest.mark.parametrize("name", ["invertinggradients", "modern"])
def test_at_equal_evaluations_ours_matches_at_least_as_well(name):
    seen = victim(lenet(3, 16), COLOUR)
    same = how(package=name, steps=100, total_variation=0.3)
    ((theirs,),) = breaching.search([seen], same, dice())
    prior = how(steps=100, total_variation=0.3 * breaching.SHARES[name])  # as strong at first
    ((ours,),) = engines.search([seen], prior, "signed_adam", dice())
    assert ours.mismatch <= theirs.mismatch
    assert psnr(ours.x.float(), COLOUR).item() > psnr(theirs.x.float(), COLOUR).item() - 0.3


class Normed(nn.Module):
    """A net with BatchNorm and a layer that nothing goes through."""

    def __init__(self):
        super().__init__()
        self.norm, self.body, self.other = nn.BatchNorm2d(3), lenet(3, 16), nn.Linear(2, 2)

    def forward(self, x):
        return self.body(self.norm(x))


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
def test_the_mode_is_the_victims_and_layers_that_are_not_used_are_left_out(training):
    net = Normed().train(training)
    net.norm.running_mean.fill_(0.5)
    x = torch.cat([COLOUR, COLOUR.flip(3) ** 2])
    y = torch.tensor([3, 5])
    seen = victim(net, x, y)
    loss = VictimLoss(seen, torch.float32)
    assert not any(name.startswith("other") for name in loss.names)
    slopes = torch.autograd.grad(loss(x), list(loss.free))
    assert len(slopes) == 8
    for mine, theirs in zip(slopes, loss.gradient, strict=True):
        assert torch.allclose(mine, theirs, atol=1e-5)
    ((found,),) = breaching.search([seen], how(steps=5), dice())
    assert found.x.shape == x.shape
    assert found.mismatch < 2


def test_the_last_layers_inputs_are_told_and_found():
    net = lenet()
    features = told(victim(net))
    with torch.no_grad():
        true = net[:-1](X)
    assert torch.allclose(features.wanted, true, atol=1e-4)
    assert features.told.all()
    # A batch: each label's row, where labels differ and the net is sure of nothing.
    x, y = IMAGES[:4], LABELS[:4]
    flat = lenet()
    with torch.no_grad():
        flat[-1].weight.mul_(1e-3)
    rows = told(victim(flat, x, y)).wanted
    with torch.no_grad():
        each = flat[:-1](x)
    nearest = torch.cdist(rows, each).argmin(1)
    assert nearest.tolist() == [0, 1, 2, 3]
    # Nothing is told by a layer without a bias, nor is anything hooked then.
    bare = nn.Sequential(nn.Flatten(), nn.Linear(64, 10, bias=False))
    assert told(victim(bare)) is None
    assert not bare[1]._forward_pre_hooks


def test_features_pull_the_image_to_what_is_told():
    seen = victim(lenet())
    features = told(seen)
    features.scale = 1.0
    loss = VictimLoss(seen, torch.float32)
    loss(X.clone().requires_grad_())
    assert features(X).item() < 1e-6
    away = torch.zeros_like(X).requires_grad_()
    loss(away)
    value = features(away)
    assert value.item() > 1e-2
    value.backward()
    assert away.grad.any()
    features.told[:] = False
    assert features(away).item() == 0


def test_analytic_is_exact_for_one_image_of_a_linear_first_layer():
    net = mlp()
    seen, twice = victim(net), how(package="analytic", restarts=3)
    found, other = breaching.search([seen], twice, dice())[0]
    assert not torch.equal(found.x, other.x)
    assert check.judge(seen, [found, other], twice).accepted
    assert psnr(found.x.float(), X).item() > 60
    assert found.mismatch < 1e-8
    # Through an attack: clipped or not.
    attack = GradientInversion(**ANALYTIC)
    (guess,) = attack.run(View(attack.threat, sent(net, change=lambda g: 0.1 * g), 1), dice())
    assert psnr(guess.tensors["x"].float(), X).item() > 60
    with pytest.raises(UsageError, match="one image"):
        breaching.search([victim(net, IMAGES[:2], LABELS[:2])], how(package="analytic"), dice())
    with pytest.raises(UsageError, match="first layer"):
        breaching.search([victim(lenet())], how(package="analytic"), dice())


ANALYTIC = {
    "attacker": "naive",
    "engine": "breaching",
    "package": "analytic",
    "message": "update",
    "at": ("final",),
}


def test_a_step_of_adam_is_no_gradient_to_match():
    attack = GradientInversion(**{**ANALYTIC, "package": "modern"})
    assert obstacle(attack, sent(lenet())) == ""
    assert "Adam" in obstacle(attack, sent(lenet(), optimizer="adam"))


def test_what_analytic_cannot_do_is_said_before_it_starts():
    attack = GradientInversion(**ANALYTIC)
    assert obstacle(attack, sent(mlp())) == ""
    assert "linear" in obstacle(attack, sent(lenet()))
    assert "a batch has 2" in obstacle(attack, sent(mlp(), IMAGES[:2], LABELS[:2]))
    assert models.first_linear(mlp(), (1, 8, 8)) == "1"
    behind = nn.Sequential(nn.Flatten(), nn.Tanh(), nn.Linear(64, 10))
    assert models.first_linear(behind, (1, 8, 8)) == ""
    bare = nn.Sequential(nn.Flatten(), nn.Linear(64, 10, bias=False))
    assert models.first_linear(bare, (1, 8, 8)) == ""


def test_what_is_printed_and_what_interrupts(capsys):
    def stop(share):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        breaching.search([victim(lenet())], how(steps=5), dice(), stop)
    out = capsys.readouterr()
    assert out.out == out.err == ""


def test_a_loss_that_is_never_finite_is_no_match():
    seen = victim(lenet(), loss=lambda out, y: F.cross_entropy(out, y), change=lambda g: g)
    seen.behind.message.payload["0.bias"].fill_(torch.nan)
    short = how(steps=3)
    ((found,),) = breaching.search([seen], short, dice())
    assert found.mismatch == float("inf")
    assert not check.judge(seen, [found], short).accepted
    assert "loss_did_not_fall" in check.judge(seen, [found], short).flags


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_any_number_of_channels_and_no_rate_that_never_rises(channels):
    for name in ("invertinggradients", "modern"):
        config = package.configured(name, steps=10, variation=0.1, channels=channels)
        assert config.optim.warmup <= 2
        x = torch.rand(2, channels, 8, 8, generator=dice())
        made = package.prepared(nn.Linear(1, 1), config, x, None)
        assert next(float(r(x)) for r in made.regularizers) > 0
        assert patterned(x.shape, dice()).shape == x.shape
