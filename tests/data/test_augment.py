"""Flips and rotations: exact, by named draws, and the same for many clients at once as for each
alone.
"""

from __future__ import annotations

import pytest
import torch

from leakbench.base.streams import Rng
from leakbench.data.augment import flip, rotate, turned
from leakbench.tasks.cifar100 import Cifar100
from leakbench.tasks.mnist import Mnist


def dice(party=3, *, seed=0, round=1, step=0):
    return Rng(
        seed, "augment", torch.tensor(party), torch.float64, round=round, phase="2", step=step
    )


def pictures(*lead, channels=3, height=8, breadth=8):
    return torch.rand(
        *lead,
        channels,
        height,
        breadth,
        dtype=torch.float64,
        generator=torch.Generator().manual_seed(0),
    )


def both(x, rng):
    return rotate(flip(x, rng), rng, 15.0)


def test_a_flip_is_the_image_or_its_mirror_image():
    x = pictures(40)
    seen = flip(x, dice())
    mirrored = [bool(torch.equal(a, b.flip(-1))) for a, b in zip(seen, x, strict=True)]
    kept = [bool(torch.equal(a, b)) for a, b in zip(seen, x, strict=True)]
    assert all(m != k for m, k in zip(mirrored, kept, strict=True))
    assert 0 < sum(mirrored) < 40


def test_half_of_the_images_are_flipped():
    x = pictures(500, 20, channels=1, height=2, breadth=2)
    seen = flip(x, dice(range(500)))
    rate = float((seen != x).flatten(2).any(-1).double().mean())
    assert abs(rate - 0.5) < 0.02  # four standard deviations of 10,000 draws


def test_angles_fill_the_range_on_both_sides(monkeypatch):
    from leakbench.data import augment

    angles = []
    monkeypatch.setattr(augment, "turned", lambda x, angle: angles.append(angle) or x)
    rotate(pictures(50, 200, channels=1, height=1, breadth=1), dice(range(50)), 30.0)
    (drawn,) = angles
    assert drawn.shape == (50, 200)
    assert -30 <= float(drawn.min()) < -29.9
    assert 29.9 < float(drawn.max()) <= 30
    assert abs(float(drawn.mean())) < 0.7  # four standard deviations
    assert float(drawn.std()) == pytest.approx(60 / 12**0.5, rel=0.02)


@pytest.mark.parametrize("change", [flip, both])
def test_draws_depend_on_seed_round_step_and_client_alone(change):
    x = pictures(8)
    one = change(x, dice())
    torch.rand(5)
    assert torch.equal(one, change(x, dice()))
    # An image's draw does not depend on how many follow.
    assert torch.equal(one[:3], change(x[:3], dice()))
    others = [
        change(x, dice(**other)) for other in ({"seed": 1}, {"round": 2}, {"step": 1}, {"party": 4})
    ]
    assert not any(torch.equal(one, o) for o in others)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_many_clients_at_once_are_each_alone_bit_for_bit(dtype):
    x = pictures(5, 16).to(dtype)
    clients = [7, 2, 9, 0, 4]
    together = both(x, dice(clients))
    assert together.dtype == dtype
    for j, c in enumerate(clients):
        assert torch.equal(together[j], both(x[j], dice(c)))


def degrees(*angles):
    return torch.tensor(angles, dtype=torch.float64)


def test_no_turn_changes_nothing():
    x = pictures(4, height=7, breadth=10)
    assert torch.allclose(turned(x, torch.zeros(4)), x, rtol=0, atol=1e-12)
    assert torch.allclose(rotate(x, dice(), 0.0), x, rtol=0, atol=1e-12)


@pytest.mark.parametrize("size", [7, 8])
def test_right_angles_are_those_of_torch(size):
    x = pictures(4, height=size, breadth=size)
    seen = turned(x, degrees(90, 180, -90, 360))
    for image, whole, quarters in zip(seen, x, (1, 2, 3, 0), strict=True):
        assert torch.allclose(image, torch.rot90(whole, quarters, (-2, -1)), rtol=0, atol=1e-12)


def test_an_oblong_image_is_turned_not_sheared():
    x = torch.zeros(1, 1, 21, 41, dtype=torch.float64)
    x[..., 10, 10:31] = 1  # a line across the middle stands upright after a quarter turn
    upright = torch.zeros_like(x)
    upright[..., :, 20] = 1
    assert torch.allclose(turned(x, degrees(90)), upright, rtol=0, atol=1e-12)


def test_two_turns_of_a_smooth_image_are_one():
    """Bilinear interpolation and black corners aside: only the inner part is compared."""
    side = torch.linspace(-1, 1, 41, dtype=torch.float64)
    x = (1 + torch.sin(2 * side)[:, None] * torch.cos(side + 0.3))[None, None] / 2
    twice, once = turned(turned(x, degrees(10)), degrees(5)), turned(x, degrees(15))
    assert float((twice - once)[..., 12:29, 12:29].abs().max()) < 2e-3
    assert float((turned(x, degrees(-15)) - once)[..., 12:29, 12:29].abs().max()) > 0.1


def test_what_comes_from_outside_is_black():
    seen = turned(torch.ones(1, 1, 32, 32, dtype=torch.float64), degrees(45))
    assert float(seen[0, 0, 0, 0]) == 0
    assert float(seen[0, 0, 16, 16]) == pytest.approx(1)
    assert 0 <= float(seen.min()) <= float(seen.max()) <= 1 + 1e-12


def test_a_task_augments_as_its_fields_say():
    x = pictures(2, 16, height=32, breadth=32)
    rng = dice([1, 2])
    assert torch.equal(Cifar100.build({}, "task").augment(x, rng), both(x, rng))
    assert torch.equal(Cifar100.build({"rotation": 0}, "task").augment(x, rng), flip(x, rng))
    assert torch.equal(
        Cifar100.build({"flip": False}, "task").augment(x, rng), rotate(x, rng, 15.0)
    )
    assert Mnist.build({}, "task").augment(x, rng) is x
