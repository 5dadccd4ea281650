"""What is read off one step of Adam: every sign, and the numbers that rounding left."""

from __future__ import annotations

import pytest
import torch

from defenses.fedavg import FedAvg
from leakbench.attacking.adam_step import AdamStep
from leakbench.attacking.replay import Replay
from leakbench.attacking.transcript import Transcript
from leakbench.attacking.view import ThreatModel, View
from leakbench.federation.optimizer import Optimizer
from leakbench.federation.parties import Batch

RATE = 1e-3
THREAT = ThreatModel(kinds=("update", "model"), knows=("method", "facts", "labels"))


def gradients(dtype, scale=1e-3):
    rng = torch.Generator().manual_seed(0)
    size = torch.logspace(-9, 0, 500, dtype=torch.float64)
    sign = torch.randn(500, generator=rng, dtype=torch.float64).sign()
    return {"a": (size * sign).to(dtype), "b": (scale * torch.randn(300, generator=rng)).to(dtype)}


def step(gradient, dtype, optimizer="adam"):
    """(the update, the weights before), as a client in ``dtype`` would have made it."""
    rng = torch.Generator().manual_seed(1)
    weights = {k: torch.rand(v.shape, generator=rng).to(dtype) - 0.5 for k, v in gradient.items()}
    leaves = {f"model/{k}": v for k, v in weights.items()}
    method = FedAvg(optimizer=optimizer, lr=RATE)
    after = Optimizer(method, 1).step(leaves, list(gradient.values()))
    update = {k: (after[f"model/{k}"] - v).double() for k, v in weights.items()}
    return update, {k: v.double() for k, v in weights.items()}


@pytest.mark.parametrize("optimizer", ["adam", "adam_each_step"])
@pytest.mark.parametrize(("dtype", "known"), [(torch.float32, 0.3), (torch.float64, 0.95)])
def test_numbers_stand_where_they_are_not_lost_in_rounding(dtype, known, optimizer):
    gradient = gradients(dtype)
    adam = AdamStep(*step(gradient, dtype, optimizer), RATE, dtype)
    assert not adam.rough
    known_at = {k: adam.told[f"most/{k}"].isinf() for k in gradient}
    told = torch.cat([*known_at.values()])
    assert float(told.double().mean()) > known
    for k, g in gradient.items():
        own, seen = g.double(), adam.observed[k]
        assert torch.equal(seen.sign(), own.sign())
        at = known_at[k]
        assert float(((seen - own).abs() / own.abs())[at].max()) < 0.15
        assert bool((seen.abs() <= own.abs() * 1.15).all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_victims_own_gradient_compares_as_equal_and_a_wrong_sign_does_not(dtype):
    gradient = gradients(dtype)
    adam = AdamStep(*step(gradient, dtype), RATE, dtype)
    own = {k: g.double() for k, g in gradient.items()}
    for k, v in adam.compared(own).items():
        torch.testing.assert_close(v, adam.observed[k], rtol=0.15, atol=1e-15)
    turned = {k: -g.requires_grad_() for k, g in own.items()}
    made = adam.compared(turned)
    far = sum((made[k] - adam.observed[k]).square().sum() for k in made)
    slopes = torch.autograd.grad(far, list(own.values()))
    assert all(bool((s != 0).all()) for s in slopes)


@pytest.mark.parametrize("share", [0.9, 0.3, 0.01])
def test_a_clipped_step_tells_what_the_whole_one_did(share):
    gradient = gradients(torch.float32)
    update, weights = step(gradient, torch.float32)
    clipped = {k: share * v for k, v in update.items()}
    whole, adam = (AdamStep(u, weights, RATE, torch.float32) for u in (update, clipped))
    assert not adam.rough
    own = {k: g.double() for k, g in gradient.items()}
    for made in (whole, adam):
        flat = [
            torch.cat([t.flatten() for t in v.values()])
            for v in (made.compared(own), made.observed)
        ]
        assert float(torch.cosine_similarity(*flat, dim=0)) > 0.99


@pytest.mark.parametrize("spoilt", ["noise", "noise and clipped"])
def test_noise_leaves_signs(spoilt):
    gradient = {"b": gradients(torch.float32)["b"]}
    update, weights = step(gradient, torch.float32)
    rng = torch.Generator().manual_seed(2)
    for k, v in update.items():
        noise = RATE * torch.randn(v.shape, generator=rng, dtype=torch.float64)
        update[k] = (1.0 if spoilt == "noise" else 0.01) * (v + 0.3 * noise)
    adam = AdamStep(update, weights, RATE, torch.float32)
    assert adam.rough
    own = {k: g.double() for k, g in gradient.items()}
    flat = [torch.cat([*t.values()]) for t in (adam.compared(own), adam.observed)]
    assert float(torch.cosine_similarity(*flat, dim=0)) > 0.7


def test_moved_is_the_optimisers_step():
    gradient = {k: g.double() for k, g in gradients(torch.float64).items()}
    update, _ = step(gradient, torch.float64)
    for k, v in ((k, -RATE * g / (g.abs() + 1e-8)) for k, g in gradient.items()):
        torch.testing.assert_close(v, update[k], rtol=1e-9, atol=1e-15)


def seen(steps, optimizer):
    """A transcript of one client's ``steps`` on a small network in float64, and its batch."""
    rng = torch.Generator().manual_seed(3)
    net = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(16, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4)
    ).double()
    x, y = torch.rand(1, 1, 4, 4, generator=rng, dtype=torch.float64), torch.tensor([2])
    method = FedAvg(optimizer=optimizer, lr=RATE, steps=steps, batch=1)
    start = {k: v.detach().clone() for k, v in net.named_parameters()}
    own, taken = {f"model/{k}": v for k, v in start.items()}, Optimizer(method, 1)
    for _ in range(steps):
        leaves = {k: v.detach().requires_grad_() for k, v in own.items()}
        weights = {k.removeprefix("model/"): v for k, v in leaves.items()}
        out = torch.func.functional_call(net, weights, (x,))
        loss = torch.nn.functional.cross_entropy(out, y)
        own = taken.step(leaves, torch.autograd.grad(loss, list(leaves.values())))
    told = Transcript(
        net, method="fedavg", shape=(1, 4, 4), lr=RATE, optimizer=optimizer, steps=steps, batch=1
    )
    told.add(
        "update",
        {k: own[f"model/{k}"].detach() - v for k, v in start.items()},
        labels=y.repeat(steps),
    )
    return told, Batch(x, y)


def test_a_replay_compares_what_adam_left():
    told, batch = seen(1, "adam")
    view = View(THREAT, told, 1)
    (m,) = view.messages("update")
    replay = Replay(view, m, torch.Generator().manual_seed(0))
    gradient, observed = replay.gradient(batch, {}), replay.observed()
    for k, v in replay.compared(gradient).items():
        torch.testing.assert_close(v.detach(), observed[k], rtol=0.01, atol=1e-12)
    for k, v in replay.update(batch, {}).items():
        torch.testing.assert_close(v.detach(), m.payload[k], rtol=1e-6, atol=1e-14)


def test_an_image_is_found_behind_one_step_of_adam():
    told, batch = seen(1, "adam")
    (guess,) = told.attack("gradient_inversion", message="update", steps=200)
    assert float((guess.tensors["x"].clamp(0, 1) - batch.x).square().mean()) < 1e-3


@pytest.mark.parametrize("optimizer", ["adam", "adam_each_step"])
def test_several_steps_are_replayed_to_the_last_digit(optimizer):
    """The slope that a search follows is a softer one, the update itself is the victim's."""
    told, batch = seen(3, optimizer)
    view = View(THREAT, told, 1)
    (m,) = view.messages("update")
    replay = Replay(view, m, torch.Generator().manual_seed(0), rows=[[0]] * 3)
    assert replay.adam is None
    x = batch.x.requires_grad_()
    made = replay.update(Batch(x, batch.y), {})
    for k, v in made.items():
        torch.testing.assert_close(v.detach(), m.payload[k], rtol=1e-9, atol=1e-14)
    observed = replay.observed()
    for k, v in replay.compared(replay.gradient(Batch(x, batch.y), {})).items():
        torch.testing.assert_close(v.detach(), observed[k], rtol=1e-9, atol=1e-10)
    size = sum(v.square().sum() for v in made.values())
    (slope,) = torch.autograd.grad(size, x)
    assert bool(slope.isfinite().all())
