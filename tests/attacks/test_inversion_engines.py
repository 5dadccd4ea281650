"""The engines of gradient inversion: side by side is as one by one, starts are each victim's own,
what is planted is found, and what cannot be found is not.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

from attacks import _updates
from attacks._inversion import engines, lbfgs, signed_adam
from attacks._inversion.stack import Stack
from attacks._inversion.variation import variation, weight
from attacks._inversion.victims import Victim
from attacks.gradient_inversion import GradientInversion
from leakbench.attacking.transcript import Transcript
from leakbench.attacking.view import View
from leakbench.scoring.image_distances import psnr

DIGITS = load_digits()
IMAGES = torch.tensor(DIGITS.images / 16.0).float()[:, None]
LABELS = torch.tensor(DIGITS.target)
SHAPE = (1, 8, 8)


@dataclass
class How:
    steps: int = 60
    restarts: int = 2
    total_variation: float = 0.1
    side_by_side: int = 0


def dice(seed=0):
    return torch.Generator().manual_seed(seed)


def smooth_net(width=24, norm=None):
    torch_net = nn.Sequential(
        nn.Conv2d(1, width, 3, 2, 1), nn.Tanh(), nn.Flatten(), nn.Linear(16 * width, 10)
    )
    if norm is not None:
        torch_net.insert(1, norm)
    rng = dice(7)
    with torch.no_grad():
        for p in torch_net.parameters():
            p.copy_((torch.rand(p.shape, generator=rng) - 0.5) * 4 / max(p[0].numel(), 4) ** 0.5)
    return torch_net


def kinked_net():
    net = smooth_net()
    net[1] = nn.ReLU()
    return net


def sent(net, batches, noise=0.0):
    """A transcript of one step of SGD on each of ``batches``, and its view."""
    said = Transcript(net, F.cross_entropy, shape=SHAPE, batch=len(batches[0]), lr=0.1)
    rng = dice(3)
    for i, rows in enumerate(batches):
        loss = F.cross_entropy(net(IMAGES[rows]), LABELS[rows])
        slopes = torch.autograd.grad(loss, list(net.parameters()))
        size = torch.stack([g.square().sum() for g in slopes]).sum().sqrt()
        n = sum(g.numel() for g in slopes) ** 0.5
        moved = [
            -0.1 * (g + noise * size / n * torch.randn(g.shape, generator=rng)) for g in slopes
        ]
        said.add("update", moved, sender=f"client/{i}", labels=LABELS[rows])
    return View(GradientInversion(message="update").threat, said, 1)


def victims(view):
    found = _updates.shortest(view, probe=False, most=8)
    return [Victim(view, b, b.labels, {}, (), i) for i, b in enumerate(found)]


class TestStack:
    @pytest.mark.parametrize("net", [smooth_net, kinked_net])
    def test_is_every_replay_by_itself(self, net):
        who = victims(sent(net(), [[3, 4], [10, 11], [20, 21]]))
        stack = Stack(who, torch.float64)
        x = torch.rand(3, 2, *SHAPE, generator=dice(), dtype=torch.float64)
        together = stack.gradient(x, {})
        for j, victim in enumerate(who):
            alone = Stack([victim], torch.float64).gradient(x[j : j + 1], {})
            for k, g in together.items():
                torch.testing.assert_close(g[j], alone[k][0], rtol=1e-10, atol=1e-12)

    def test_the_true_batch_matches_and_no_other_does(self):
        rows = [[3, 4], [10, 11]]
        stack = Stack(victims(sent(smooth_net(), rows)), torch.float64)
        x = torch.stack([IMAGES[r] for r in rows]).double()
        assert stack.mismatch(x, {}).max() < 1e-12  # the updates were single precision
        assert stack.mismatch(x.flip(0), {}).min() > 1e-3

    def test_differentiates_each_by_its_own_images_alone(self):
        stack = Stack(victims(sent(smooth_net(), [[3], [10]])), torch.float64)
        x = torch.rand(2, 1, *SHAPE, generator=dice(), dtype=torch.float64, requires_grad=True)
        (slope,) = torch.autograd.grad(stack.mismatch(x, {})[0], x)
        assert slope[0].abs().max() > 0
        assert not slope[1].any()

    def test_statistics_of_a_batch_forbid_it(self):
        (one, *_) = victims(sent(smooth_net(norm=nn.BatchNorm2d(24)), [[3, 4], [5, 6]]))
        assert not one.replay(torch.float32).vectorises
        assert engines._most(one, How()) == 1
        assert engines._most(one, How(side_by_side=5)) == 1
        assert victims(sent(smooth_net(), [[3]]))[0].replay(torch.float32).vectorises

    def test_what_was_left_out_as_zeros_is_not_compared(self):
        net = smooth_net()
        said = Transcript(net, F.cross_entropy, shape=SHAPE, batch=1, lr=0.1)
        slopes = torch.autograd.grad(
            F.cross_entropy(net(IMAGES[3:4]), LABELS[3:4]), list(net.parameters())
        )
        moved = [-0.1 * g for g in slopes]
        moved[0] = torch.zeros_like(moved[0])
        said.add("update", moved, sender="client/0", labels=LABELS[3:4])
        stack = Stack(
            victims(View(GradientInversion(message="update").threat, said, 1)), torch.float64
        )
        assert stack.mismatch(IMAGES[None, 3:4].double(), {}) < 1e-12


class TestSignedAdam:
    def test_neighbours_change_nothing_but_rounding(self):
        who = victims(sent(smooth_net(), [[3], [10], [20]]))
        x = torch.rand(3, 1, *SHAPE, generator=dice(), dtype=torch.float64)
        how = {"steps": 25, "weight": 0.05, "box": True}
        together, _, _ = signed_adam.descend(Stack(who, torch.float64), x, {}, **how)
        for j, victim in enumerate(who):
            alone, _, _ = signed_adam.descend(
                Stack([victim], torch.float64), x[j : j + 1], {}, **how
            )
            torch.testing.assert_close(together[j], alone[0], rtol=0, atol=1e-6)

    def test_what_is_matched_stays_and_the_others_go_on(self):
        rows = [[3], [10]]
        stack = Stack(victims(sent(smooth_net(), rows)), torch.float64)
        x = torch.stack([IMAGES[3:4], torch.full((1, *SHAPE), 0.5)]).double()
        found, _, mismatch = signed_adam.descend(stack, x, {}, steps=30, weight=0.0, box=True)
        assert torch.equal(found[0], x[0])
        assert mismatch[0] < 1e-12
        assert not torch.equal(found[1], x[1])

    def test_a_victim_whose_numbers_end_does_not_take_others_along(self):
        stack = Stack(victims(sent(smooth_net(), [[3], [10]])), torch.float64)
        x = torch.rand(2, 1, *SHAPE, generator=dice(), dtype=torch.float64)
        x[0, 0, 0, 0, 0] = float("inf")
        found, _, _ = signed_adam.descend(stack, x, {}, steps=40, weight=0.01, box=False)
        assert torch.equal(found[0], x[0])
        assert found[1].isfinite().all()
        assert not torch.equal(found[1], x[1])

    def test_box(self):
        stack = Stack(victims(sent(kinked_net(), [[3]])), torch.float32)
        x = torch.randn(1, 1, *SHAPE, generator=dice())
        how = {"steps": 15, "weight": 0.0}
        inside, _, _ = signed_adam.descend(stack, x, {}, box=True, **how)
        outside, _, _ = signed_adam.descend(stack, x, {}, box=False, **how)
        assert inside.min() >= 0
        assert inside.max() <= 1
        assert outside.min() < 0

    def test_says_how_far_it_is(self):
        stack, told = Stack(victims(sent(smooth_net(), [[3]])), torch.float32), []
        x = torch.rand(1, 1, *SHAPE, generator=dice())
        signed_adam.descend(stack, x, {}, steps=4, weight=0.0, box=True, tell=told.append)
        assert told == [0.25, 0.5, 0.75, 1.0]


class TestVariation:
    def test_of_a_step_edge(self):
        x = torch.zeros(1, 1, 1, 4, 4, dtype=torch.float64)
        x[..., 2:] = 1.0  # four pixels in sixteen have a slope of 1
        assert float(variation(x)) == pytest.approx(0.25, abs=1e-4)

    def test_of_grey_edges_colours_add_nothing_but_their_share(self):
        x = torch.zeros(1, 1, 3, 4, 4, dtype=torch.float64)
        x[..., 2:] = 1.0  # alike in all channels: the three differences have none
        assert float(variation(x)) == pytest.approx(0.125, abs=1e-3)

    def test_weighs_by_pixels_and_signals_nothing(self):
        assert weight(0.3, (3, 32, 32)) == 0.3
        assert weight(0.3, (3, 64, 64)) == 0.3
        assert weight(0.32, (1, 8, 8)) == pytest.approx(0.02)
        assert weight(0.3, (9, 128)) == 0.0
        assert weight(0.3, (1, 128, 1)) == 0.0


class TestSearch:
    def test_auto_is_exact_where_the_net_is_smooth(self):
        rows = [[3], [10]]
        found = engines.search(victims(sent(smooth_net(), rows)), How(), "auto", dice())
        for r, candidates in zip(rows, found, strict=True):
            best = min(candidates, key=lambda c: c.mismatch)
            assert psnr(best.x, IMAGES[r].double()).item() > 40

    def test_auto_of_a_net_with_kinks_is_signed_adam(self):
        who = victims(sent(kinked_net(), [[3]]))
        (found,) = engines.search(who, How(steps=250), "auto", dice())
        assert [c.engine for c in found] == ["signed_adam"] * 2
        assert max(psnr(c.x, IMAGES[3:4].double()).item() for c in found) > 20

    @pytest.mark.parametrize("engine", ["auto", "signed_adam", "lbfgs"])
    def test_a_victims_candidates_do_not_depend_on_who_is_beside(self, engine):
        view, how = sent(kinked_net(), [[3], [10], [20]]), How(steps=8)
        wide = engines.search(victims(view), how, engine, dice())
        narrow = engines.search(victims(view), How(steps=8, side_by_side=1), engine, dice())
        again = engines.search(victims(view), how, engine, dice())
        for a, b, c in zip(wide, narrow, again, strict=True):
            for one, other, same in zip(a, b, c, strict=True):
                assert torch.equal(one.x, same.x)
                torch.testing.assert_close(one.x, other.x, rtol=0, atol=1e-3)

    def test_mismatch_is_that_of_the_images_returned(self):
        who = victims(sent(smooth_net(), [[3, 4]]))
        for c in engines.search(who, How(steps=10), "auto", dice())[0]:
            value = Stack(who, torch.float64).mismatch(c.x[None], {})
            assert float(value) == pytest.approx(c.mismatch, rel=1e-9)

    def test_all_that_is_done_is_told(self):
        told = []
        who = victims(sent(smooth_net(), [[3], [10]]))
        engines.search(who, How(steps=5), "auto", dice(), told.append)
        assert told == sorted(told)
        assert told[-1] == pytest.approx(1.0)


def test_lbfgs_keeps_to_its_box():
    stack = Stack(victims(sent(smooth_net(), [[3]])), torch.float64)
    x = torch.full((1, 1, *SHAPE), 1.5, dtype=torch.float64)
    inside, _, _ = lbfgs.descend(stack, x, {}, steps=40, box=True)
    assert inside.min() >= 0
    assert inside.max() <= 1
    free, _, end = lbfgs.descend(stack, x, {}, steps=40)
    assert end.steps > 0
    assert not torch.equal(free.clamp(0, 1), free)
