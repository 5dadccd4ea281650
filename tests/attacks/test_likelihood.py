"""Images behind noised updates: the likeliest are nearer than the best match, and than a guess."""

from __future__ import annotations

import pytest
import torch
from helpers.small_runs import again, build, trained
from torch import nn
from torch.nn.functional import cross_entropy

from attacks import _updates
from attacks._input_prior import InputPrior
from attacks._inversion import engines, likelihood
from attacks._inversion.victims import Victim
from leakbench.attacking.transcript import Transcript
from leakbench.attacking.view import View
from leakbench.base import UsageError
from leakbench.federation import Examples
from leakbench.federation.input_range import UNIT

SIDE, CLASSES, RATE = 6, 3, 0.1
PLAIN = build("gradient_inversion", message="update", steps=60)


def dice(seed=0):
    return torch.Generator().manual_seed(seed)


def pictures(count, seed):
    """Smooth pictures of three classes, (count, 1, 6, 6) on [0, 1], and their classes."""
    y = torch.arange(count) % CLASSES
    ways = torch.linspace(-1, 1, SIDE).expand(SIDE, SIDE)
    shapes = torch.stack([ways, ways.T, ways * ways.T])
    long = torch.randn(count, 3, generator=dice(seed))
    mixed = torch.einsum("nk,kij->nij", long, shapes)
    x = 0.5 + 0.2 * shapes[y] + 0.08 * mixed
    return x[:, None].clamp(0, 1), y


def net():
    made = nn.Sequential(nn.Flatten(), nn.Linear(36, 40), nn.Sigmoid(), nn.Linear(40, CLASSES))
    with torch.no_grad():
        for i, p in enumerate(made.parameters()):
            p.copy_(torch.randn(p.shape, generator=dice(i)) / p.shape[-1] ** 0.5)
    return made


def victim(x, y, noise, seed=0):
    """Of one step on ``x``, clipped to a norm of 1, with ``noise`` of it on each number."""
    model = net()
    slopes = torch.autograd.grad(cross_entropy(model(x), y), [*model.parameters()])
    size = torch.stack([s.square().sum() for s in slopes]).sum().sqrt()
    sent = []
    for i, s in enumerate(slopes):
        sent.append(-s / size + noise * torch.randn(s.shape, generator=dice(100 * seed + i)))
    seen = Transcript(model, cross_entropy, shape=(1, SIDE, SIDE), lr=RATE, batch=len(y))
    seen.add("update", sent, sender="client/0", labels=y)
    view = View(PLAIN.threat, seen, 1)
    (behind,) = _updates.shortest(view, probe=False, most=1)
    return Victim(view, behind, behind.labels, {}, (), 0)


PRIOR = InputPrior(Examples(*pictures(120, 7)), UNIT)


def error(found, x):
    return float((found.clamp(0, 1) - x).square().mean())


def test_of_a_noised_update_the_likeliest_image_is_nearer_than_the_best_match_and_the_guess():
    x, y = pictures(12, 8)
    errors = {"likely": 0.0, "match": 0.0, "guess": 0.0}
    for i in range(6):
        one = victim(x[i : i + 1], y[i : i + 1], 0.02, seed=i)
        errors["likely"] += error(likelihood.search(one, PRIOR, 60, 2, dice())[0].x, x[i : i + 1])
        (found,) = engines.search([one], PLAIN, "auto", dice())
        errors["match"] += error(min(found, key=lambda c: c.mismatch).x, x[i : i + 1])
        errors["guess"] += error(PRIOR.means(one.labels.tolist()), x[i : i + 1])
    assert errors["likely"] < 0.5 * errors["guess"]
    assert errors["likely"] < 0.5 * errors["match"]


def test_of_noise_alone_it_stays_at_the_guess():
    """Ten nulls: noise of ten times the update's norm on each of its numbers."""
    x, y = pictures(12, 9)
    likely = guess = 0.0
    for i in range(10):
        one = victim(x[i : i + 1], y[i : i + 1], 10.0, seed=i)
        likely += error(likelihood.search(one, PRIOR, 60, 1, dice())[0].x, x[i : i + 1])
        guess += error(PRIOR.means(one.labels.tolist()), x[i : i + 1])
    assert likely > 0.9 * guess
    assert likely < 1.5 * guess


def test_without_noise_it_comes_near():
    x, y = pictures(3, 10)
    one = victim(x[:1], y[:1], 0.0)
    assert error(likelihood.search(one, PRIOR, 100, 1, dice())[0].x, x[:1]) < 1e-4


def test_searches_that_end_apart_are_open():
    x, y = pictures(3, 10)
    one = victim(x[:1], y[:1], 0.0)
    (alone,) = likelihood.search(one, PRIOR, 20, 1, dice())
    assert "restarts_disagree" in likelihood.judge(one, [alone]).flags
    assert likelihood.judge(one, [alone, alone]).flags == ()
    assert not likelihood.judge(one, [alone, alone]).accepted


def test_it_is_for_updates_that_are_covered(tmp_path):
    from leakbench.attacking.public_facts import Outline

    attack = build("gradient_inversion", prior="principal")
    bare, noised = (
        trained(tmp_path / name, "fedgn", rounds=2, wrappers=wrappers)
        for name, wrappers in (("bare", []), ("noised", [("clip_noise", {})]))
    )
    for run, fits in ((bare, False), (noised, True)):
        why = attack.obstacle(Outline(again(run), attack.threat))
        assert (why == "") is fits


def test_an_unknown_prior_is_refused():
    with pytest.raises(UsageError, match="principal"):
        build("gradient_inversion", prior="principle")
