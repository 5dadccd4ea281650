"""What gradient inversion believes of what it found, what it says of it, and under what conditions
it was made.
"""

from __future__ import annotations

import math

import pytest
import torch
from helpers.small_runs import again, build, trained
from torch import nn
from torch.nn.functional import cross_entropy

from attacks import _updates
from attacks._inversion import check, engines
from attacks._inversion.check import Support
from attacks._inversion.conditions import letter
from attacks._inversion.victims import Candidate, Victim
from leakbench.attacking import guessing
from leakbench.attacking.transcript import Transcript
from leakbench.attacking.view import ThreatModel, View
from leakbench.base.files import read_sealed
from leakbench.scoring import flags

RATE = 0.1


def dice(seed=0):
    return torch.Generator().manual_seed(seed)


def net(seed=0):
    layers = nn.Flatten(), nn.Linear(16, 24), nn.Sigmoid(), nn.Linear(24, 3)
    made = nn.Sequential(*layers)
    with torch.no_grad():
        for p in made.parameters():
            p.copy_(torch.randn(p.shape, generator=dice(seed)) / p.shape[-1] ** 0.5)
    return made


X, Y = torch.rand(1, 1, 4, 4, generator=dice(1)), torch.tensor([1])
ATTACK = build("gradient_inversion", message="update", steps=100)


def gradient(model, x=X, y=Y):
    return [*torch.autograd.grad(cross_entropy(model(x), y), model.parameters())]


def victim_of(model, update, y=Y, side=4):
    seen = Transcript(model, cross_entropy, shape=(1, side, side), lr=RATE, batch=len(y))
    seen.add("update", update, sender="client/0", labels=y)
    view = View(ATTACK.threat, seen, 1)
    (behind,) = _updates.shortest(view, probe=False, most=1)
    return Victim(view, behind, behind.labels, {}, (), 0)


def judged(update, y=Y):
    victim = victim_of(net(), update, y)
    (found,) = engines.search([victim], ATTACK, "auto", dice())
    return check.judge(victim, found, ATTACK)


def stepped(slope):
    return [-RATE * g for g in slope]


def test_an_image_that_its_gradient_tells_is_accepted_and_its_error_foretold():
    verdict = judged(stepped(gradient(net())))
    assert verdict.accepted
    assert verdict.flags == ()
    assert float((verdict.best.x - X).square().mean()) < 1e-4
    assert verdict.error < 1e-3


def test_neither_noise_nor_another_label_is_accepted():
    slope = gradient(net())
    noise = [torch.randn(g.shape, generator=dice(i)) for i, g in enumerate(slope)]
    size = sum(float(g.square().sum()) for g in slope) ** 0.5
    loud = sum(float(n.square().sum()) for n in noise) ** 0.5
    noisy = [g + 10 * size / loud * n for g, n in zip(slope, noise, strict=True)]
    for update, told in ((noisy, Y), (noise, Y), (slope, torch.tensor([2]))):
        verdict = judged(stepped(update), told)
        assert not verdict.accepted
        assert "loss_did_not_fall" in verdict.flags


def test_a_batch_that_many_others_match_is_not_accepted():
    """Eight images behind a gradient of fewer numbers than they have: all are matched, none is
    known.
    """
    x, y = torch.rand(24, 1, 4, 4, generator=dice(2)), torch.arange(24) % 3
    made = nn.Sequential(nn.Flatten(), nn.Linear(16, 2), nn.Tanh(), nn.Linear(2, 3))
    victim = victim_of(made, stepped(gradient(made, x, y)), y)
    (found,) = engines.search([victim], ATTACK, "lbfgs", dice())
    two = [Candidate(c.x, {}, c.mismatch, c.variation, "lbfgs", c.restart) for c in found]
    if len(two) == 1:  # the first match ends that engine's search
        (more,) = engines.search([victim], ATTACK, "lbfgs", dice(5))
        two += [Candidate(c.x, {}, c.mismatch, c.variation, "lbfgs", 1) for c in more[:1]]
    verdict = check.judge(victim, two, ATTACK)
    assert verdict.best.mismatch < 1e-3
    assert not verdict.accepted
    assert "restarts_disagree" in verdict.flags


@pytest.mark.parametrize(("batch", "kept"), [(1, "nearest"), (5, "likeliest")])
def test_of_a_batch_the_likeliest_images_are_kept_and_of_one_the_nearest_match(batch, kept):
    """A rough picture that matches a thousandth better is no picture, where many match."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(256, 24), nn.Sigmoid(), nn.Linear(24, 3))
    x, y = torch.rand(batch, 1, 16, 16, generator=dice(3)), torch.arange(batch) % 3
    victim = victim_of(model, stepped(gradient(model, x, y)), y, side=16)
    nearest = Candidate(x.double(), {}, 1e-5, 0.4, "polished", 0)
    likeliest = Candidate(x.double() / 2, {}, 1e-4, 0.1, "polished", 1)
    best = check.judge(victim, [nearest, likeliest], ATTACK).best
    assert best is {"nearest": nearest, "likeliest": likeliest}[kept]


def test_what_was_polished_is_no_witness_for_where_it_began():
    update = stepped(gradient(net()))
    victim = victim_of(net(), update)
    truth = X.double()
    begun = Candidate(truth + 0.001, {}, 1e-6, 0.0, "signed_adam", 0)
    ended = Candidate(truth, {}, 1e-9, 0.0, "polished", 0)
    other = Candidate(truth + 0.002, {}, 1e-8, 0.0, "polished", 1)
    assert not check.judge(victim, [begun, ended], ATTACK).accepted
    assert check.judge(victim, [begun, ended, other], ATTACK).accepted


def test_a_single_search_is_never_accepted():
    victim = victim_of(net(), stepped(gradient(net())))
    alone = [Candidate(X.double(), {}, 0.0, 0.0, "lbfgs", 0)]
    assert not check.judge(victim, alone, ATTACK).accepted


@pytest.mark.parametrize("others", [(), (0.4,)])
def test_what_no_other_search_confirms_is_open(others):
    """It fell by half, and that was all: nobody may read it as all that can be found."""
    victim = victim_of(net(), stepped(gradient(net())))
    mismatches = (1e-4, *others)
    found = [Candidate(X.double(), {}, m, 0.0, "signed_adam", r) for r, m in enumerate(mismatches)]
    verdict = check.judge(victim, found, ATTACK)
    assert not verdict.accepted
    assert flags.UNSETTLED & {*verdict.flags}


def test_a_blank_is_said_to_be_one_and_never_accepted():
    victim = victim_of(net(), stepped(gradient(net())))
    blank = torch.full((1, 1, 4, 4), 0.5, dtype=torch.float64)
    both = [Candidate(blank, {}, 1e-9, 0.0, "signed_adam", r) for r in (0, 1)]
    verdict = check.judge(victim, both, ATTACK)
    assert not verdict.accepted
    assert "below_class_mean" in verdict.flags
    assert set(verdict.flags) <= set(flags.UNFOUND)


@pytest.mark.parametrize(("size", "faint"), [(1.0, False), (1e-4, False), (1e-8, True)])
def test_an_update_of_the_size_of_the_weights_rounding_has_vanished(size, faint):
    update = [size * u for u in stepped(gradient(net()))]
    assert check.faint(victim_of(net(), update)) is faint


def test_the_share_that_is_open_is_what_is_unmatched_or_apart():
    seen = Support(mismatch=0.01, blank=0.1, apart=0.01, spread=0.05, least=0.2, witnesses=1)
    assert seen.open == pytest.approx(0.2)
    assert seen.error == pytest.approx(0.02)
    assert seen.accepted
    alone = Support(mismatch=0.0, blank=0.1, apart=math.inf, spread=0.05, least=0.2)
    unmatched = Support(mismatch=0.09, blank=0.1, apart=0.0, spread=0.05, least=0.2, witnesses=1)
    assert not alone.accepted
    assert not unmatched.accepted


def test_where_images_hardly_show_in_the_gradient_agreement_must_be_exact():
    near = Support(mismatch=1e-9, blank=0.001, apart=0.005, spread=0.05, least=0.2, witnesses=1)
    exact = Support(mismatch=1e-9, blank=0.001, apart=1e-6, spread=0.05, least=0.2, witnesses=1)
    assert near.open < check.OPEN
    assert not near.accepted
    assert exact.accepted


def test_a_row_says_under_what_conditions_it_was_made(tmp_path):
    run = trained(tmp_path, "fedavg", 1, record="all")
    attack = build("gradient_inversion", targets=1, steps=2, restarts=1, at=["final"])
    folder = guessing.guess(again(run), "gradient_inversion", attack)
    assert read_sealed(folder / "attack.json")["conditions"] == {
        "assumes": "threat model C of Carletti et al., USENIX Security 2025",
        "batch": "1 image a step",
        "mode": "in the mode of training",
        "labels": "labels given",
    }


@pytest.mark.parametrize(
    ("knows", "expected"),
    [
        ((), "A"),
        (("labels",), "B"),
        (("method", "facts"), "C"),
        (("method", "aux_data"), "D"),
        (("method", "aux_data", "norm_statistics"), "E"),
    ],
)
def test_the_attackers_class_follows_from_what_it_knows(knows, expected):
    assert letter(ThreatModel(knows=knows)) == expected


def test_the_bar_moves_within_one_attack(tmp_path):
    run = trained(tmp_path, "fedavg", 1, record="all")
    attack = build(
        "gradient_inversion", engine="signed_adam", targets=2, steps=10, restarts=1, at=["final"]
    )
    told = []
    guessing.guess(again(run), "gradient_inversion", attack, progress=lambda *a: told.append(a))
    done = [d for d, _, _ in told]
    assert done == sorted(done)
    first = [d for d in done if d < guessing.PARTS]
    assert len(first) > 5, "steps within the first call"
    assert all(d < whole for d, whole, _ in told)
