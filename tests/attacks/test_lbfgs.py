"""L-BFGS: on hard functions, with walls, and as gradient inversion of a digit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

from attacks._lbfgs import minimise
from leakbench.scoring.image_distances import psnr


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def by_scipy(f, x0, steps, memory):
    calls = 0

    def both(v):
        nonlocal calls
        calls += 1
        x = torch.tensor(v, requires_grad=True)
        value = f(x)
        return value.item(), torch.autograd.grad(value, x)[0].numpy()

    found = minimize(
        both,
        x0.numpy(),
        jac=True,
        method="L-BFGS-B",
        options={"maxcor": memory, "maxiter": steps, "ftol": 0, "gtol": 1e-9},
    )
    return found, calls


def counted(f):
    def g(x):
        g.calls += 1
        return f(x)

    g.calls = 0
    return g


@pytest.mark.parametrize("n", [2, 10, 50])
def test_rosenbrock_as_good_as_scipy(n):
    start = torch.full((n,), -1.2, dtype=torch.float64)
    start[1::2] = 1.0
    f = counted(rosenbrock)
    ours = minimise(f, start, steps=1000, tolerance=1e-9)
    theirs, calls = by_scipy(rosenbrock, start, 1000, 20)
    assert ours.converged
    assert ours.gradient_norm <= 1e-9
    assert ours.value <= max(theirs.fun, 1e-18)
    assert f.calls <= 2 * calls
    torch.testing.assert_close(ours.x, torch.ones(n, dtype=torch.float64), rtol=0, atol=1e-8)


def test_ill_conditioned_quadratic():
    scale = torch.logspace(0, 4, 40, dtype=torch.float64)
    turn = torch.linalg.qr(
        torch.randn(40, 40, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ).Q
    target = torch.linspace(-1, 1, 40, dtype=torch.float64)

    def f(x):
        return 0.5 * (scale * (turn @ (x - target)).square()).sum()

    ours = minimise(f, torch.zeros(40, dtype=torch.float64), steps=600, memory=40, tolerance=1e-8)
    theirs, _ = by_scipy(f, torch.zeros(40, dtype=torch.float64), 500, 40)
    assert ours.converged
    np.testing.assert_allclose(ours.x.numpy(), target.numpy(), atol=1e-7)
    assert ours.value <= max(10 * theirs.fun, 1e-16)
    few = minimise(f, torch.zeros(40, dtype=torch.float64), steps=600, memory=1, tolerance=1e-8)
    assert few.steps > ours.steps  # so memory does something


def test_value_never_rises_and_steps_are_kept():
    start = torch.tensor([-1.2, 1.0], dtype=torch.float64)
    values = [minimise(rosenbrock, start, steps=k).value for k in range(1, 13)]
    assert values == sorted(values, reverse=True)
    assert values[0] < rosenbrock(start).item()
    assert minimise(rosenbrock, start, steps=3).steps == 3


def test_stops_at_the_floor_of_rounding():
    found = minimise(
        lambda x: (x - 3).square().sum(), torch.zeros(3, dtype=torch.float64), steps=10**6
    )
    assert found.converged
    assert found.steps < 100
    torch.testing.assert_close(found.x, torch.full((3,), 3.0, dtype=torch.float64))


@pytest.mark.parametrize("start", [0.001, 5.0, 20.0, 1e6])
def test_walls_are_not_crossed(start):
    found = minimise(
        lambda x: (x - x.log()).sum(),
        torch.full((4,), start, dtype=torch.float64),
        steps=200,
        tolerance=1e-9,
    )
    torch.testing.assert_close(found.x, torch.ones(4, dtype=torch.float64))


def test_it_ends_where_the_value_is_low_enough_and_gives_that_point():
    start = torch.tensor([-1.2, 1.0], dtype=torch.float64)
    found = minimise(rosenbrock, start, steps=1000, enough=1e-3)
    assert 1e-12 < found.value <= 1e-3
    assert rosenbrock(found.x).item() == found.value
    assert found.steps < minimise(rosenbrock, start, steps=1000).steps


def test_numbers_come_back_as_they_were_given():
    start = torch.full((2,), 0.5, dtype=torch.float32)
    found = minimise(rosenbrock, start, steps=50)
    assert found.x.dtype == torch.float32
    assert start.tolist() == [0.5, 0.5]


def test_what_cannot_be_minimised_is_said():
    with pytest.raises(ValueError, match="vector"):
        minimise(rosenbrock, torch.zeros(2, 2, dtype=torch.float64), steps=1)
    with pytest.raises(ValueError, match="not finite"):
        minimise(lambda x: x.log().sum(), -torch.ones(2, dtype=torch.float64), steps=1)


def small_net(out):
    net = nn.Sequential(
        nn.Conv2d(1, 12, 5, 2, 2),
        nn.Tanh(),
        nn.Conv2d(12, 12, 5, 2, 2),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(48, out),
    ).double()
    dice = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(
                (torch.rand(p.shape, generator=dice, dtype=p.dtype) - 0.5)
                * 4
                * (3 / p[0].numel()) ** 0.5
                if p.dim() > 1
                else p * 0
            )
    return net


def digits():
    data = load_digits()
    return torch.tensor(data.images / 16.0)[:, None], torch.tensor(data.target)


@pytest.mark.parametrize("row", [3, 50, 700])
def test_inverts_a_gradient(row):
    net, (images, labels) = small_net(10), digits()
    x, y, weights = images[row : row + 1], labels[row : row + 1], list(net.parameters())
    true = torch.autograd.grad(F.cross_entropy(net(x), y), weights)
    size = sum(g.square().sum() for g in true)

    def mismatch(v):
        guess = torch.autograd.grad(
            F.cross_entropy(net(v.view(1, 1, 8, 8)), y), weights, create_graph=True
        )
        return sum((a - b).square().sum() for a, b in zip(guess, true, strict=True)) / size

    start = torch.rand(64, generator=torch.Generator().manual_seed(row), dtype=torch.float64)
    found = minimise(mismatch, start, steps=200, memory=50)
    assert found.value < 1e-9
    assert psnr(found.x.view(1, 1, 8, 8), x).item() > 60


@pytest.mark.parametrize("row", [3, 50])
def test_recovers_an_unknown_prototype_with_the_image(row):
    net, (images, _) = small_net(32), digits()
    x, weights = images[row : row + 1], list(net.parameters())
    dice = torch.Generator().manual_seed(row)
    secret = torch.randn(32, generator=dice, dtype=torch.float64)

    def loss(x, w):
        return (1 - F.normalize(net(x), dim=1) @ F.normalize(w, dim=0)).square().mean()

    true = torch.autograd.grad(loss(x, secret), weights)
    size = sum(g.square().sum() for g in true)

    def mismatch(v):
        guess = torch.autograd.grad(
            loss(v[:64].view(1, 1, 8, 8), v[64:]), weights, create_graph=True
        )
        return sum((a - b).square().sum() for a, b in zip(guess, true, strict=True)) / size

    start = torch.cat(
        [
            torch.rand(64, generator=dice, dtype=torch.float64),
            torch.randn(32, generator=dice, dtype=torch.float64),
        ]
    )
    found = minimise(mismatch, start, steps=400, memory=100)
    assert psnr(found.x[:64].view(1, 1, 8, 8), x).item() > 60
    assert F.cosine_similarity(found.x[64:], secret, dim=0).item() > 0.99
