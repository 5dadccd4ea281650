"""An update that is damaged, or made in another way, does its neighbours' searches no harm."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

from attacks.gradient_inversion import GradientInversion
from leakbench.attacking import Replay
from leakbench.attacking.transcript import Transcript
from leakbench.attacking.view import View
from leakbench.federation import Batch
from leakbench.scoring.image_distances import psnr

DIGITS = load_digits()
IMAGES = torch.tensor(DIGITS.images / 16.0).float()[:, None]
LABELS = torch.tensor(DIGITS.target)
SHAPE = (1, 8, 8)
RATE = 1e-3


def dice():
    return torch.Generator().manual_seed(0)


def small_net():
    net = nn.Sequential(nn.Conv2d(1, 24, 3, 2, 1), nn.Tanh(), nn.Flatten(), nn.Linear(16 * 24, 10))
    rng = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for p in net.parameters():
            p.copy_((torch.rand(p.shape, generator=rng) - 0.5) * 4 / max(p[0].numel(), 4) ** 0.5)
    return net


def slopes(net, rows):
    """The gradient of the batch ``rows`` (slice), by name."""
    loss = F.cross_entropy(net(IMAGES[rows]), LABELS[rows])
    names = [k for k, _ in net.named_parameters()]
    return dict(zip(names, torch.autograd.grad(loss, list(net.parameters())), strict=True))


def adam(net, rows, clipped=()):
    """A transcript of one step of Adam on each of ``rows``; some shortened to a third."""
    said = Transcript(net, F.cross_entropy, shape=SHAPE, batch=1, lr=RATE, optimizer="adam")
    start = {k: p.detach() for k, p in net.named_parameters()}
    for i, row in enumerate(rows):
        slope = slopes(net, slice(row, row + 1))
        moved = {k: -RATE * g / (g.abs() + 1e-8) for k, g in slope.items()}
        share = 0.3 if i in clipped else 1.0
        update = {k: share * ((p + moved[k]) - p) for k, p in start.items()}
        said.add("update", update, sender=f"client/{i}", labels=LABELS[row : row + 1])
    return said


def sgd(net, batches):
    """A transcript of one step of SGD on each of ``batches`` of two."""
    said = Transcript(net, F.cross_entropy, shape=SHAPE, batch=2, lr=0.1)
    for i, rows in enumerate(batches):
        update = {k: -0.1 * g for k, g in slopes(net, rows).items()}
        said.add("update", update, sender=f"client/{i}", labels=LABELS[rows])
    return said


@pytest.mark.parametrize("clipped", [0, 1])
def test_a_clipped_step_of_adam_leaves_the_steps_beside_it_as_they_are(clipped):
    rows = [3, 10]
    attack = GradientInversion(message="update", engine="signed_adam", steps=300)
    found = attack.run(View(attack.threat, adam(small_net(), rows, [clipped]), 1), dice())
    whole = 1 - clipped
    true = IMAGES[rows[whole] : rows[whole] + 1].double()
    assert found[whole].accepted
    assert psnr(found[whole].tensors["x"].double(), true).item() > 20


@pytest.mark.parametrize("labels", ["given", "inferred"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_an_update_that_is_not_finite_fails_alone(labels, bad, monkeypatch):
    attack = GradientInversion(message="update", labels=labels, steps=3)
    view = View(attack.threat, sgd(small_net(), [slice(3, 5), slice(10, 12)]), 1)
    whole = view.messages

    def messages(*args, **kwargs):
        out = []
        for m in whole(*args, **kwargs):
            if m.kind == "update" and m.sender == "client/0":
                last = {k: torch.full_like(v, bad) for k, v in list(m.payload.items())[-1:]}
                m = replace(m, payload={**m.payload, **last})
            out.append(m)
        return out

    monkeypatch.setattr(view, "messages", messages)
    first, second = attack.run(view, dice())
    assert first.failed == "the update is not finite"
    assert not first.tensors
    assert not second.failed


def test_what_a_wrapper_leaves_out_moves_between_the_steps_that_are_replayed():
    """The last bias is in no update, and every local step after the first starts where it moved."""
    net, steps, rate = small_net(), 3, 0.5
    said = Transcript(small_net(), F.cross_entropy, shape=SHAPE, batch=2, steps=steps, lr=rate)
    start = {k: p.detach().clone() for k, p in net.named_parameters()}
    for i in range(steps):
        slope = slopes(net, slice(2 * i, 2 * i + 2))
        with torch.no_grad():
            for k, p in net.named_parameters():
                p -= rate * slope[k]
    update = {k: p.detach() - start[k] for k, p in net.named_parameters() if k != "3.bias"}
    said.add("update", update, sender="client/0", labels=LABELS[: 2 * steps])
    view = View(GradientInversion(message="update").threat, said, 1)
    (m,) = view.messages("update")
    replay = Replay(view, m, dice(), sizes=[2] * steps, dtype=torch.float64)
    batch = Batch(IMAGES[: 2 * steps].double(), LABELS[: 2 * steps])
    found = replay.gradient(batch, {})
    assert set(found) == set(update)
    torch.testing.assert_close(found, replay.observed(), rtol=1e-4, atol=1e-5)
