"""Steps of Adam tell signs, two of them directions; as such they are matched, and noise is not
believed.
"""

from __future__ import annotations

import pytest
import torch
from sklearn.datasets import load_digits
from torch.nn import functional as F

from attacks import _updates
from attacks._inversion import check, engines
from attacks._inversion.stack import Stack
from attacks._inversion.victims import Victim
from attacks.gradient_inversion import GradientInversion
from leakbench.attacking import replay
from leakbench.attacking.transcript import Transcript
from leakbench.attacking.view import View
from leakbench.base.streams import Rng
from leakbench.models.networks import MODELS, initialise
from leakbench.scoring.image_distances import psnr

DIGITS = load_digits()
IMAGES = torch.tensor(DIGITS.images / 16.0).float()[:, None]
LABELS = torch.tensor(DIGITS.target)
SHAPE = (1, 8, 8)
RATE = 1e-3
HOW = GradientInversion(message="update", engine="signed_adam", steps=150, restarts=2)


def dice():
    return torch.Generator().manual_seed(0)


def victims(rows, *, change=lambda update: update, sparse=False):
    """Steps of Adam of an untrained LeNet, one on each of ``rows``."""
    net = MODELS["lenet"](SHAPE, 10, 12)
    net.load_state_dict(initialise(net, Rng(0, "x", torch.tensor(0), torch.float32)))
    how = {"shape": SHAPE, "batch": 1, "lr": RATE, "optimizer": "adam"}
    said = Transcript(net, F.cross_entropy, **how)
    for i, row in enumerate(rows):
        loss = F.cross_entropy(net(IMAGES[row : row + 1]), LABELS[row : row + 1])
        slopes = torch.autograd.grad(loss, list(net.parameters()))
        update = {}
        for (name, p), g in zip(net.named_parameters(), slopes, strict=True):
            after = p.detach() - RATE * g / (g.abs() + 1e-8)
            update[name] = after - p.detach()
        who = {"sender": f"client/{i}", "labels": LABELS[row : row + 1], "sparse": sparse}
        said.add("update", change(update), **who)
    view = View(HOW.threat, said, 1)
    behind = _updates.shortest(view, probe=False, most=1)
    return [Victim(view, b, b.labels, {}, (), i) for i, b in enumerate(behind)]


def apart(some, x):
    stack = Stack(some, torch.float64)
    return stack.mismatch(x.double(), {})


def test_the_truth_has_every_sign_and_another_image_has_not():
    some = victims([3, 10])
    assert all(v.tells_signs for v in some)
    for v in some:
        v.by_signs = True
    true, other = IMAGES[[3, 10]][:, None], IMAGES[[4, 13]][:, None]
    assert float(apart(some, true).max()) < 1e-4
    assert float(apart(some, other).min()) > 1e-2
    alone = [apart([v], x[None])[0] for v, x in zip(some, other, strict=True)]
    torch.testing.assert_close(torch.stack(alone), apart(some, other))


def test_what_was_not_sent_is_not_compared():
    """Of half of the numbers the signs of the others are no mistake of a candidate's."""

    def halved(update):
        kept = {}
        for name, v in update.items():
            kept[name] = v * (torch.arange(v.numel()) % 2 == 0).view(v.shape)
        return kept

    some = victims([3], change=halved, sparse=True)
    some[0].by_signs = True
    assert float(apart(some, IMAGES[3:4][None])[0]) < 1e-4


def level(victim, found, row):
    return float(psnr(check.judge(victim, found, HOW).best.x.clamp(0, 1).float(), row)[0])


def test_a_large_image_is_found_by_signs_where_numbers_lead_elsewhere(monkeypatch):
    large = F.interpolate(IMAGES, size=(24, 24), mode="bilinear").clamp(0, 1)
    monkeypatch.setitem(globals(), "IMAGES", torch.cat([large, 1 - large, large / 2 + 0.2], 1))
    monkeypatch.setitem(globals(), "SHAPE", (3, 24, 24))
    (victim,) = victims([10])
    (before,) = engines.by_numbers([victim], HOW, "auto", dice(), lambda _: None, None)
    (after,) = engines.search([victim], HOW, "auto", dice())
    assert victim.by_signs
    true = IMAGES[10:11]
    assert level(victim, after, true) > level(victim, before, true) + 4


def test_where_numbers_lead_to_a_small_image_it_is_kept():
    (victim,) = victims([10])
    (found,) = engines.search([victim], HOW, "auto", dice())
    assert not victim.by_signs
    assert level(victim, found, IMAGES[10:11]) > 28


@pytest.mark.parametrize("seed", range(3))
def test_signs_of_noise_are_not_believed(seed):
    rng = torch.Generator().manual_seed(seed)

    def noise(update):
        thrown = {}
        for name, v in update.items():
            sign = torch.randint(0, 2, v.shape, generator=rng).float() * 2 - 1
            thrown[name] = v.abs() * sign
        return thrown

    (victim,) = victims([10], change=noise)
    (found,) = engines.search([victim], HOW, "auto", dice())
    kept = check.judge(victim, found, HOW)
    assert not kept.accepted


def pair(rows, *, change=lambda update: update, **more):
    """Two steps of Adam, on one image each."""
    net = MODELS["lenet"](SHAPE, 10, 12)
    net.load_state_dict(initialise(net, Rng(0, "x", torch.tensor(0), torch.float32)))
    before = {k: v.clone() for k, v in net.state_dict().items()}
    how = {"shape": SHAPE, "batch": 1, "lr": RATE, "optimizer": "adam", "steps": 2, "epochs": 0}
    how |= {"method": "fedavg_optim", **({"epsilon": more["eps"]} if more else {})}
    said = Transcript(net, **how)
    optimizer = torch.optim.Adam(net.parameters(), lr=RATE, **more)
    for row in rows:
        optimizer.zero_grad()
        F.cross_entropy(net(IMAGES[row : row + 1]), LABELS[row : row + 1]).backward()
        optimizer.step()
    update = {k: p.detach() - before[k] for k, p in net.named_parameters()}
    said.add("update", change(update), sender="client/0", labels=LABELS[rows])
    view = View(PAIRS.threat, said, 1)
    (behind,) = _updates.shortest(view, probe=False, most=2)
    return Victim(view, behind, behind.labels, {}, (), 0)


PAIRS = GradientInversion(message="update", local_steps=2, steps=150, restarts=2)


def test_two_steps_tell_more_than_a_replay_finds(monkeypatch):
    large = F.interpolate(IMAGES, size=(24, 24), mode="bilinear").clamp(0, 1)
    monkeypatch.setitem(globals(), "IMAGES", torch.cat([large, 1 - large, large / 2 + 0.2], 1))
    monkeypatch.setitem(globals(), "SHAPE", (3, 24, 24))
    levels = []
    for there in (True, False):
        if not there:
            monkeypatch.setattr(replay, "read_pair", lambda *_: None)
        victim = pair([10, 3])
        assert victim.paired == there
        (found,) = engines.search([victim], PAIRS, "signed_adam", dice())
        best = check.judge(victim, found, PAIRS).best.x.clamp(0, 1).float()
        levels.append(float(psnr(best, IMAGES[[10, 3]]).mean()))
    assert levels[0] > levels[1] + 2


def test_the_truth_has_the_directions_and_other_images_have_not():
    victim = pair([10, 3])
    victim.by_signs = True
    true, other = IMAGES[[10, 3]][None], IMAGES[[4, 13]][None]
    assert float(apart([victim], true)[0]) < 1e-3 < 1e-2 < float(apart([victim], other)[0])


def test_where_directions_are_misread_the_replay_decides(monkeypatch):
    """A large epsilon makes other steps, which are replayed as they are."""
    monkeypatch.setattr(engines, "MATCHED", -1.0)  # nothing settles: both are searched
    victim = pair([10, 3], eps=1e-4)
    (found,) = engines.search([victim], PAIRS, "signed_adam", dice())
    assert victim.paired
    assert len(found) == 2 * PAIRS.restarts
    best = check.judge(victim, found, PAIRS).best
    assert any(best is c for c in found[: PAIRS.restarts])
    assert float(psnr(best.x.clamp(0, 1).float(), IMAGES[[10, 3]]).min()) > 30


@pytest.mark.parametrize("seed", range(10))
def test_directions_of_noise_are_not_believed(seed):
    """Updates that two steps of Adam could have made, of gradients that are noise."""
    rng = torch.Generator().manual_seed(seed)

    def noise(update):
        thrown = {}
        for name, v in update.items():
            g, h = torch.randn(2, *v.shape, generator=rng, dtype=torch.float64)
            second = (0.9 * g + h) / (0.999 * g * g + h * h).sqrt() * 1.999**0.5 / 1.9
            thrown[name] = (-RATE * (g.sign() + second)).float()
        return thrown

    victim = pair([10, 3], change=noise)
    assert victim.paired
    (found,) = engines.search([victim], PAIRS, "auto", dice())
    assert not check.judge(victim, found, PAIRS).accepted
