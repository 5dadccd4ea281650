"""What auxiliary images teach of gradients: granted or refused, found where it is planted, nothing
made of noise.
"""

import pytest
import torch
from helpers.small_runs import obstacle, seconds
from torch import nn
from torch.nn import functional as F

from attacks import _updates
from attacks._inversion import check, engines, priors
from attacks._inversion.victims import Victim
from attacks.gradient_inversion import GradientInversion
from leakbench.attacking.transcript import Transcript
from leakbench.attacking.view import View
from leakbench.base import LeakbenchError
from leakbench.federation import Examples

SHAPE, CLASSES = (1, 8, 8), 4
TAUGHT = {"message": "update", "prior": "decoder", "engine": "signed_adam", "restarts": 1}


def dice(seed=0):
    return torch.Generator().manual_seed(seed)


def drawn(count, seed):
    """Images of one family: mixtures of five smooth pictures."""
    rng = dice(99)
    coarse = torch.rand(5, *SHAPE[:1], 3, 3, generator=rng)
    pictures = F.interpolate(coarse, size=SHAPE[1:], mode="bilinear")
    rng = dice(seed)
    shares = torch.rand(count, 5, generator=rng)
    x = torch.einsum("nk,k...->n...", shares / shares.sum(1, keepdim=True), pictures)
    return Examples(x, torch.randint(CLASSES, (count,), generator=rng), torch.float32)


AUX = drawn(200, 1)
SECRET = drawn(4, 2)  # of other dice: none of the attacker's own
SECRET.y.copy_(torch.tensor([0, 3, 1, 2]))


def net():
    """With a ReLU, strides and a normalisation that hides the scale: hard to invert."""
    made = nn.Sequential(
        *(nn.Conv2d(1, 6, 3, 2, 1, bias=False), nn.GroupNorm(1, 6), nn.ReLU()),
        *(nn.Conv2d(6, 8, 3, 2, 1, bias=False), nn.GroupNorm(1, 8), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, CLASSES)),
    )
    rng = dice(7)
    with torch.no_grad():
        for p in made.parameters():
            if p.dim() > 1:
                p.copy_((torch.rand(p.shape, generator=rng) - 0.5) * 4 / p[0].numel() ** 0.5)
        made[-1].bias.zero_()
    return made


def sent(batches=((0,), (1,)), *, aux=AUX, noise=False, times=1.0):
    """A transcript of one step on each of ``batches``; or of noise in the updates' place."""
    module, rng = net(), dice(3)
    granted = None if aux is None else (aux.x, aux.y)
    said = Transcript(
        module, F.cross_entropy, shape=SHAPE, batch=len(batches[0]), lr=0.1, aux_data=granted
    )
    for i, rows in enumerate(batches):
        x, y = SECRET.x[list(rows)], SECRET.y[list(rows)]
        slopes = torch.autograd.grad(F.cross_entropy(module(x), y), list(module.parameters()))
        if noise:
            slopes = [10 * torch.randn(g.shape, generator=rng) for g in slopes]
        moved = [-0.1 * times * g for g in slopes]
        said.add("update", moved, sender=f"client/{i}", labels=y)
    return said


def victims(said):
    view = View(GradientInversion(message="update").threat, said, 1)
    found = _updates.shortest(view, probe=False, most=8)
    return [Victim(view, b, b.labels, {}, (), i) for i, b in enumerate(found)]


def error(x, rows):
    return float((x.clamp(0, 1) - SECRET.x[list(rows)]).square().mean())


class TestKnowledge:
    def test_is_declared(self):
        plain, taught = GradientInversion(), GradientInversion(prior="decoder")
        assert "aux_data" not in plain.threat.knows
        assert "aux_data" in taught.threat.knows
        assert (plain.threat.rung, taught.threat.rung) == ("method", "public")
        assert taught.floor_threat.knows.count("aux_data") == 1

    def test_is_not_there_for_who_did_not_declare_it(self):
        view = View(GradientInversion(message="update").threat, sent(), 1)
        with pytest.raises(LeakbenchError, match="aux_data"):
            GradientInversion(**TAUGHT).run(view, dice())

    @pytest.mark.parametrize(
        ("fields", "aux", "why"),
        [
            ({}, None, "auxiliary data"),
            ({}, Examples(AUX.x[:5], AUX.y[:5], torch.float32), "5 auxiliary examples are too few"),
            ({"engine": "lbfgs"}, AUX, "lbfgs starts at random"),
            ({}, AUX, ""),
        ],
    )
    def test_what_is_lacking_is_said(self, fields, aux, why):
        said = obstacle(GradientInversion(**TAUGHT | fields), sent(aux=aux))
        assert why in said
        assert bool(said) is bool(why)

    def test_takes_its_time(self):
        plain, taught = (
            seconds(GradientInversion(**TAUGHT | {"prior": p}), sent()) for p in ("none", "decoder")
        )
        assert taught > plain + len(priors.NEAR)


class TestGuess:
    def test_finds_what_the_family_makes(self):
        for i, victim in enumerate(victims(sent())):
            made = priors.guess(victim, AUX, dice())
            assert made.shape == (1, *SHAPE)
            assert error(made, [i]) < 0.2 * error(AUX.x.mean(0)[None], [i])

    def test_a_batch_in_the_order_of_its_labels(self):
        (victim,) = victims(sent([(0, 1)]))
        assert victim.labels[0] != victim.labels[1]
        made = priors.guess(victim, AUX, dice())
        assert error(made, (0, 1)) < error(AUX.x.mean(0).expand(2, *SHAPE), (0, 1))
        assert error(made, (0, 1)) < error(made, (1, 0))

    def test_reads_the_direction_alone(self):
        (one,), (other,) = victims(sent([(0,)])), victims(sent([(0,)], times=0.01))
        made = [priors.guess(v, AUX, dice()) for v in (one, other)]
        torch.testing.assert_close(*made, atol=1e-3, rtol=0)

    def test_same_dice_same_bytes(self):
        made = [priors.guess(victims(sent())[0], AUX, dice(5)) for _ in range(2)]
        assert torch.equal(*made)


class TestSearch:
    def searched(self, said, *, aux):
        who = victims(said)
        how = GradientInversion(**TAUGHT | {"steps": 60})
        found = engines.search(who, how, how.engine, dice(), aux=aux)
        return [check.judge(v, c, how) for v, c in zip(who, found, strict=True)]

    def test_is_nearer_than_without(self):
        with_it, without = (self.searched(sent(), aux=aux) for aux in (AUX, None))
        for i, (one, other) in enumerate(zip(with_it, without, strict=True)):
            assert error(one.best.x, [i]) < 0.5 * error(other.best.x, [i])

    def test_noise_gives_the_floor(self):
        for i, verdict in enumerate(self.searched(sent(noise=True), aux=AUX)):
            assert not verdict.accepted
            assert error(verdict.best.x, [i]) > 0.5 * error(AUX.x.mean(0)[None], [i])

    def test_same_seed_same_bytes(self):
        attack = GradientInversion(**TAUGHT | {"steps": 10})
        made = [attack.run(View(attack.threat, sent(), 1), dice(4)) for _ in range(2)]
        for one, other in zip(*made, strict=True):
            assert torch.equal(one.tensors["x"], other.tensors["x"])
