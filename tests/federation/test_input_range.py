"""Where inputs lie: declared once, kept by searches, mapped onto [0, 1] where images are scored."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import leakbench
from leakbench import InputRange
from leakbench.attacking.guess import Guess
from leakbench.attacking.replay import Replay
from leakbench.attacking.transcript import Transcript
from leakbench.attacking.view import ThreatModel, View
from leakbench.base.errors import NotMeasured, UsageError
from leakbench.federation.parties import Batch
from leakbench.metrics import FEATURES_WITHIN, MSE, PSNR, SSIM
from leakbench.scoring import KnownAnswer

MEAN, STD = (0.49, 0.45), (0.25, 0.2)


def dice(seed=0):
    return torch.Generator().manual_seed(seed)


def pictures(count, channels=2, seed=1):
    return torch.rand(count, channels, 8, 8, generator=dice(seed), dtype=torch.float64)


def normalised(u):
    mean, std = (torch.tensor(v, dtype=u.dtype).view(2, 1, 1) for v in (MEAN, STD))
    return (u - mean) / std


# name: what is declared, and what the network sees of pictures on [0, 1]
RANGES = {
    "unit": (None, lambda u: u),
    "bytes": ((0, 255), lambda u: u * 255),
    "signed": ((-1, 1), lambda u: 2 * u - 1),
    "normalised": (InputRange.normalised(MEAN, STD), normalised),
    "standardised": (InputRange.unbounded(), lambda u: (u - 0.5) * math.sqrt(12)),
    "narrow": (InputRange((0.2, -3.0), (0.4, 5.0)), lambda u: u * ends(0.2, 8.0) + ends(0.2, -3.0)),
}


def ends(*each):
    return torch.tensor(each, dtype=torch.float64).view(2, 1, 1)


def net(scale=1.0, kind=nn.Sigmoid):
    layers = nn.Flatten(), nn.Linear(128, 160), kind(), nn.Linear(160, 3)
    made, rng = nn.Sequential(*layers).double(), dice(3)
    with torch.no_grad():
        for p in made.parameters():
            p.copy_(
                (2 * torch.rand(p.shape, generator=rng, dtype=p.dtype) - 1) / p.shape[-1] ** 0.5
            )
        made[1].weight /= scale  # type: ignore[operator]
    return made


@pytest.mark.parametrize("name", RANGES)
def test_a_range_and_the_unit_interval_are_one_to_one(name):
    given, sees = RANGES[name]
    lies = InputRange.of(InputRange() if given is None else given, (2, 8, 8))
    u = pictures(3)
    x = sees(u)
    assert lies.beyond(x) == ""
    if lies.bounded:
        assert torch.allclose(lies.unit(x), u, atol=1e-12)
        assert torch.allclose(lies.native(u), x, atol=1e-12)
        assert torch.equal(lies.kept(x), x)
        far = x.clone()
        far[1, 1] += 2 * (x.max() - x.min())
        assert "lie between" in lies.beyond(far)
        assert lies.unit(lies.kept(far)).max() <= 1 + 1e-12
    else:
        assert lies.unit(x) is x
        assert lies.native(x) is x
        assert lies.kept(1e9 * x).max() > 1e8
    assert torch.allclose(torch.vmap(lies.native)(u), lies.native(u))


@pytest.mark.parametrize("name", RANGES)
def test_an_image_is_found_and_scored_alike_wherever_inputs_lie(name):
    """The mismatch at the truth is nothing, and a score does not depend on the range."""
    given, sees = RANGES[name]
    u, y = pictures(1), torch.tensor([1])
    x = sees(u)
    model = net(255.0 if name == "bytes" else 1.0)
    gradients = torch.autograd.grad(cross_entropy(model(x), y), list(model.parameters()))
    seen = Transcript(model, cross_entropy, shape=(2, 8, 8), lr=0.1, input_range=given)
    seen.add("update", [-0.1 * g for g in gradients], labels=y)
    view = View(ThreatModel(knows=("method", "facts")), seen, 1)
    replay = Replay(view, view.messages("update")[0], dice())
    made = torch.cat([g.flatten() for g in replay.gradient(Batch(x, y), {}).values()])
    true = torch.cat([g.flatten() for g in gradients])
    assert 1 - float(torch.cosine_similarity(made, true, 0)) < 1e-12
    (found,) = seen.attack("gradient_inversion", message="update", restarts=1)
    answer = KnownAnswer(x=x, input_range=given)
    error = MSE.score(found, answer)[0].value
    assert error < 1e-4
    # by hand: a guess that is off by a hundredth of the range
    lies = InputRange.of(InputRange() if given is None else given, (2, 8, 8))
    off = lies.unit(x) * 0.99
    guess = Guess("client/0", 1, {"x": lies.native(off)})
    by_hand = float((off - lies.unit(x)).square().mean())
    assert MSE.score(guess, answer)[0].value == pytest.approx(by_hand)
    if lies.bounded:
        assert PSNR.score(guess, answer)[0].value == pytest.approx(-10 * math.log10(by_hand))
        assert PSNR.score(Guess("client/0", 1, {"x": x}), answer)[0].value == 100
        plain = KnownAnswer(x=u)
        same = Guess("client/0", 1, {"x": off})
        assert SSIM.score(guess, answer)[0].value == pytest.approx(SSIM.score(same, plain)[0].value)
    else:
        with pytest.raises(NotMeasured, match="signals or rows"):
            PSNR.score(guess, answer)


def test_a_search_through_relus_keeps_to_the_declared_range():
    """On [0, 1] alone it ended far from inputs between -1 and 1, and nobody said so."""
    u, y = pictures(1), torch.tensor([1])
    x, model = 2 * u - 1, net(kind=nn.ReLU)
    gradients = torch.autograd.grad(cross_entropy(model(x), y), list(model.parameters()))
    errors = {}
    for given in ((-1, 1), (0, 1)):
        seen = Transcript(model, cross_entropy, shape=(2, 8, 8), lr=0.1, input_range=given)
        seen.add("update", [-0.1 * g for g in gradients], labels=y)
        how = {"engine": "signed_adam", "steps": 200, "restarts": 1, "total_variation": 0.0}
        (found,) = seen.attack("gradient_inversion", message="update", **how)
        assert found.tensors["x"].min() >= given[0]
        assert found.tensors["x"].max() <= given[1]
        errors[given] = float((found.tensors["x"] - x).square().mean())
    assert errors[-1, 1] < 1e-3 < 0.1 < errors[0, 1]


def test_bytes_stand_for_the_unit_interval_unless_a_range_is_declared():
    u = (pictures(1) * 255).to(torch.uint8)
    right = Guess("client/0", 1, {"x": u.double() / 255})
    for guess in (right, Guess("client/0", 1, {"x": u})):
        assert PSNR.score(guess, KnownAnswer(x=u))[0].value == 100
    whole = KnownAnswer(x=u, input_range=(0, 255))
    for x in (u, u.double()):
        assert PSNR.score(Guess("client/0", 1, {"x": x}), whole)[0].value == 100
    assert PSNR.score(right, whole)[0].value < 10


def test_what_lies_elsewhere_is_refused():
    u = pictures(2)
    guess = Guess("client/0", 1, {"x": u[:1]})
    for x in (2 * u[:1] - 1, 255 * u[:1], (255 * u[:1]).long()):
        with pytest.raises(
            UsageError, match=r"the true inputs lie between .*, outside \[0, 1\]: say"
        ):
            MSE.score(guess, KnownAnswer(x=x))
    with pytest.raises(UsageError, match=r"aux_data lie between .*: say Transcript\(input_range="):
        Transcript(net(), cross_entropy, aux_data=(2 * u - 1, [0, 1]))
    Transcript(net(), cross_entropy, aux_data=(2 * u - 1, [0, 1]), input_range=(-1, 1))


def test_a_guess_says_where_the_inputs_lie_that_it_was_sought_among():
    u = pictures(1)
    guess = Guess("client/0", 1, {"x": 2 * u - 1}, input_range=InputRange((-1.0,), (1.0,)))
    assert PSNR.score(guess, KnownAnswer(x=2 * u - 1))[0].value == 100
    with pytest.raises(UsageError, match=r"was made for inputs in \[-1, 1\], .* says \[0, 255\]"):
        PSNR.score(guess, KnownAnswer(x=255 * u, input_range=(0, 255)))


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (3, "expected (low, high)"),
        ((1, 0), "every low below its high"),
        ((0, float("nan")), "finite"),
        (("a", 1), "finite"),
        (InputRange((0.0,) * 3, (1.0,) * 3), "3 channels, and inputs are (2, 8, 8)"),
    ],
)
def test_a_range_that_is_none(given, why):
    with pytest.raises(UsageError) as error:
        Transcript(net(), cross_entropy, shape=(2, 8, 8), input_range=given)
    assert why in str(error.value)
    with pytest.raises(UsageError, match="either that or input_range"):
        Transcript(net(), cross_entropy, shape=(2, 8, 8), input_range=(0, 1), signal=True)
    with pytest.raises(UsageError, match="every std above 0"):
        InputRange.normalised((0.5, 0.5), (0.1, 0.0))


def test_tables_have_a_share_of_features_within_a_tenth():
    x = torch.tensor([[0.0, 1.0, -2.0, 5.0]])
    guess = Guess("client/0", 1, {"x": torch.tensor([[0.05, 1.2, -2.09, 9.0]])})
    assert FEATURES_WITHIN.score(guess, KnownAnswer(x=x, signal=True))[0].value == 0.5
    wide = KnownAnswer(x=x, input_range=(-10, 10))
    assert FEATURES_WITHIN.score(guess, wide)[0].value == 0.75
    with pytest.raises(NotMeasured, match="rows of 4 features"):
        PSNR.score(guess, wide)


def test_it_is_public():
    assert leakbench.InputRange is InputRange
