"""Feature inversion: planted inputs come back exactly, its steps are told by the attacker's own
data, and what it cannot explain it does not believe.
"""

from __future__ import annotations

import itertools
import math
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from helpers.small_runs import (
    FEW_PROBES,
    Lazily,
    again,
    build,
    copied,
    noise,
    obstacle,
    results,
    seconds,
)
from torch import nn

from attacks import _decoders, _feature_search, _feature_trial
from attacks._decoders import Known
from leakbench import api
from leakbench.attacking import guessing
from leakbench.attacking.view import View
from leakbench.federation import Examples
from leakbench.scoring import score
from leakbench.scoring.truth import Truth

NAME = "feature_inversion"
FLEA = {"layer": "first", "fraction": 1.0, "epochs": 1, "lam2": 3.0}
FAST = {"epochs": 1, "steps": 80, "network": "linear"}
INVERT = {**FAST, "iterations": 5}
HOW = SimpleNamespace(network="linear", epochs=1, steps=40, lr=0.001, batch=32, held_out=0.15)
NONE = _feature_trial.Noise(0.0, torch.Generator())
FREE = (-math.inf, math.inf)


def shared(out, seed=3, **more):
    how = {"device": "cpu", "record": FEW_PROBES, "params": FLEA, **more}
    return api.train("flea", rounds=1, seed=seed, out=out, **how)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")

    def noisy(level):
        how = {"kinds": ["features"], "clip": 1e3, "noise": level / 1e3}
        return shared(out, wrappers=(("clip_noise", how),))

    return Lazily(
        flea=partial(shared, out),
        other=partial(shared, out, seed=4),
        noisy=partial(noisy, 0.1),
        drowned=partial(noisy, 1.0),
    )


@pytest.fixture(scope="module")
def attacked(runs):
    def of(name):
        return api.attack(runs[name], NAME, **INVERT).path

    return Lazily(**{name: partial(of, name) for name in ("flea", "noisy", "drowned")})


def network(seed):
    """Two convolutions with ReLUs, more features than inputs."""
    net = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 16, 3, padding=1), nn.ReLU()
    ).double()
    rng = torch.Generator().manual_seed(seed)
    for p in net.parameters():
        with torch.no_grad():
            p.copy_((torch.rand(p.shape, generator=rng, dtype=torch.float64) - 0.5) * 0.8)
    return net.requires_grad_(requires_grad=False)


def ends(net, features, start, bounds=FREE, steps=40):
    return [*_feature_search.search(net, features, start, bounds, steps)]


class TestSearch:
    def test_planted_inputs_come_back_exactly(self):
        net, x = network(0), noise(1, 6, 1, 6, 6)
        path = ends(net, net(x), x + 0.1 * (noise(2, 6, 1, 6, 6) - 0.5))
        assert float((path[-1].x - x).abs().max()) < 1e-5
        assert float(path[0].off.min()) > 1e-3

    def test_no_step_raises_the_residual_and_residuals_are_those_of_the_points(self):
        net, x = network(0), noise(1, 6, 1, 6, 6)
        path = ends(net, net(x), noise(2, 6, 1, 6, 6))
        for a, b in itertools.pairwise(path):
            assert (b.off <= a.off).all()
        for p in path:
            assert torch.allclose(p.off, (net(p.x) - net(x)).square().flatten(1).sum(1))

    def test_examples_do_not_touch_each_other(self):
        """One alone ends where it ends among others."""
        net, x = network(0), noise(1, 5, 1, 6, 6)
        start = x + 0.1 * (noise(2, 5, 1, 6, 6) - 0.5)
        many, one = ends(net, net(x), start, steps=3), ends(net, net(x[2:3]), start[2:3], steps=3)
        assert torch.allclose(many[-1].x[2], one[-1].x[0], atol=1e-7)

    def test_it_stays_in_the_box_and_finds_what_lies_on_its_walls(self):
        net, x = network(0), (noise(1, 6, 1, 6, 6) * 2 - 0.5).clamp(0, 1)
        path = ends(net, net(x), (x + 0.2 * (noise(2, 6, 1, 6, 6) - 0.5)).clamp(0, 1), (0.0, 1.0))
        for p in path:
            assert float(p.x.min()) >= 0
            assert float(p.x.max()) <= 1
        assert float((path[-1].x - x).abs().max()) < 1e-4

    def test_what_features_do_not_say_stays_as_it_was(self):
        def half(t):
            return t[:, :, :3] ** 3 + t[:, :, :3]

        x, start = noise(1, 4, 1, 6, 6), noise(2, 4, 1, 6, 6)
        found = ends(half, half(x), start)[-1].x
        assert torch.allclose(found[:, :, :3], x[:, :, :3], atol=1e-5)
        assert torch.equal(found[:, :, 3:], start[:, :, 3:])

    def test_features_that_are_not_finite_move_nothing(self):
        net, x = network(0), noise(1, 2, 1, 6, 6)
        target = net(x)
        target[0] = math.nan
        path = ends(net, target, x + 0.01)
        assert torch.equal(path[-1].x[0], x[0] + 0.01)
        assert float((path[-1].x[1] - x[1]).abs().max()) < 1e-5


class Through:
    """A network in the place of an extractor."""

    def __init__(self, net):
        self.net = net

    def __call__(self, x):
        return self.net(x)

    def of(self, x):
        return self.net(x)


class TestTrial:
    def made(self, net, n=120):
        x, y = noise(1, n, 1, 6, 6), torch.arange(n) % 3
        known = Known(net(x).float(), x.float(), y)
        return Examples(x, y), _decoders.train(known, 3, HOW, torch.Generator().manual_seed(0))

    def test_a_search_that_helps_is_used_and_believed(self):
        net = network(0)
        aux, decoder = self.made(net)
        trial = _feature_trial.tried(Through(net), decoder, aux, aux.y, 10, NONE)
        assert trial.steps > 0
        assert trial.accepted
        assert float(trial.errors[0]) < 1e-3 * float(trial.curve[0, 0])
        assert trial.unexplained < 1e-6

    def test_one_that_does_not_is_left_out(self):
        """Noise on features that hardly depend on their inputs: what explains them best is far from
        what made them, and the decoder knows better.
        """
        x, y = noise(1, 120, 1, 6, 6), torch.arange(120) % 3
        noisy = Through(lambda x: 1e-3 * x)
        noisy.of = lambda x: 1e-3 * x + 1e-2 * torch.randn(x.shape, generator=rng).double()
        rng = torch.Generator().manual_seed(0)
        known = Known(noisy.of(x).float(), x.float(), y)
        decoder = _decoders.train(known, 3, HOW, torch.Generator().manual_seed(0))
        trial = _feature_trial.tried(noisy, decoder, Examples(x, y), y, 5, NONE)
        assert trial.steps == 0
        assert not trial.accepted
        assert float(trial.curve[-1, 0]) > 1.5 * float(trial.curve[0, 0])
        assert float(trial.errors[0]) == pytest.approx(float(trial.curve[0, 0]))

    def test_held_out_examples_are_those_that_the_decoder_never_saw(self):
        aux, decoder = self.made(network(0))
        order = torch.randperm(len(aux.y), generator=torch.Generator().manual_seed(0))
        assert torch.equal(decoder.held, order[: round(0.15 * len(aux.y))])


class TestAttack:
    def test_it_finds_what_the_decoder_comes_near(self, runs, attacked):
        decoded = api.attack(runs["flea"], "decoder", **FAST).path
        mse, found = results(attacked["flea"], "mse"), results(attacked["flea"], "identification")
        assert mse["value"] < 0.1 * results(decoded, "mse")["value"]
        assert mse["high"] < mse["floor_low"]
        assert found["value"] > 0.95
        assert (mse["rung"], mse["observer"]) == ("public", "server")
        attack = [g for g in guessing.saved(attacked["flea"]) if g.role == "attack"]
        assert all(g.guess.accepted for g in attack)
        assert {g.guess.flags for g in attack} == {()}

    def test_what_it_predicts_is_what_comes(self, attacked):
        """The held-out examples' error beside the victims'."""
        guess = next(g.guess for g in guessing.saved(attacked["flea"]) if g.role == "attack")
        predicted = float(guess.tensors["held_out"][0])
        assert results(attacked["flea"], "mse")["value"] < 5 * predicted + 1e-4

    def test_in_the_control_the_features_are_the_inputs(self, attacked):
        exact = {"mse": 0, "psnr": 100, "ssim": 1, "identification": 1}
        assert {m: results(attacked["flea"], m)["control"] for m in exact} == pytest.approx(exact)

    def test_scored_with_another_runs_truth_it_falls_to_the_floor(self, runs, tmp_path):
        attack, recording = build(NAME, **INVERT), again(copied(runs["flea"], tmp_path))
        folder = guessing.guess(recording, NAME, attack)
        score.score(recording, NAME, attack, truth=Truth(runs["other"]))
        mse, found = results(folder, "mse"), results(folder, "identification")
        assert mse["value"] > mse["floor"]
        assert found["value"] < 0.1

    def test_with_noise_it_tells_what_it_errs_and_errs_no_more_than_the_decoder(
        self, runs, attacked
    ):
        decoded = api.attack(runs["noisy"], "decoder", **FAST).path
        mse = results(attacked["noisy"], "mse")["value"]
        assert mse < 1.1 * results(decoded, "mse")["value"]
        attack = [g.guess for g in guessing.saved(attacked["noisy"]) if g.role == "attack"]
        told = [float(g.tensors["held_out"][0]) for g in attack]
        assert 0.5 * mse < sum(told) / len(told) < 2 * mse
        assert max(told) > 10 * results(attacked["flea"], "mse")["value"]

    def test_features_that_no_input_has_are_not_believed(self, attacked):
        """Noise as large as the features, which the decoder lets pass."""
        attack = [g.guess for g in guessing.saved(attacked["drowned"]) if g.role == "attack"]
        assert not any(g.accepted or g.failed for g in attack)
        assert {g.flags for g in attack} == {("loss_did_not_fall",)}
        assert results(attacked["drowned"], "identification")["value"] < 0.5

    def test_without_the_model_it_says_so(self, runs, tmp_path, monkeypatch):
        real = View.messages
        monkeypatch.setattr(
            View,
            "messages",
            lambda self, kind, **k: [] if kind == "model" else real(self, kind, **k),
        )
        folder = api.attack(copied(runs["flea"], tmp_path), NAME, seed=1, **INVERT).path
        assert {g.guess.failed for g in guessing.saved(folder) if g.role == "attack"} == {
            "the model that made the features was not kept"
        }
        row = results(folder, "mse")
        assert (row["value"], row["failed"]) == (row["floor"], row["n"])

    def test_the_time_grows_with_the_iterations(self, runs):
        recording = again(runs["flea"])
        few, more = (seconds(build(NAME, iterations=i), recording) for i in (10, 100))
        assert 0 < seconds(build("decoder"), recording) < few < more < 600
        assert obstacle(build(NAME), recording) == ""
