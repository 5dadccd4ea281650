"""Pictures from prototypes: as good as what was recovered, and nothing where nothing was."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from helpers.small_runs import (
    FEW_PROBES,
    again,
    build,
    copied,
    noise,
    obstacle,
    results,
    seconds,
    units,
)

import attacks.prototype_picture as pictures
from attacks import _pictures
from attacks.prototype_leakage import PrototypeLeakage
from leakbench import api
from leakbench.attacking import guessing
from leakbench.attacking.guess import Guess
from leakbench.attacking.view import View
from leakbench.metrics.pictures import PICTURE_NAMES, PICTURE_PSNR, means
from leakbench.record.folders import load
from leakbench.reporting import pictures as reported
from leakbench.reporting.pictures import Media
from leakbench.scoring.truth import Truth

WAYS = ("pixels", "components", "decoder")
NAME = "prototype_picture"


class Dice(PrototypeLeakage):
    """Prototypes that have nothing to do with any client."""

    def run(self, view, rng):
        return self.blind(view, rng)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """FedAwS sends the prototypes themselves."""
    out = tmp_path_factory.mktemp("runs")
    small = {"model": "mlp", "width": 32, "evaluations": 10}
    return api.train("fedaws", task_params=small, rounds=100, seed=3, out=out, record=FEW_PROBES)


@pytest.fixture(scope="module")
def attacked(run):
    return {w: api.attack(run, NAME, source="message", way=w, device="cpu").path for w in WAYS}


@pytest.mark.parametrize("way", WAYS)
def test_from_the_prototype_itself_a_picture_names_its_client(attacked, way):
    row = results(attacked[way], "picture_names", "all")
    assert (row["n"], row["floor"], row["failed"]) == (10, pytest.approx(0.1), 0)
    assert row["value"] >= (0.3 if way == "pixels" else 0.9)
    assert row["rung"] == ("method" if way == "pixels" else "public")
    assert ("aux_data" in row["knowledge"]) == (way != "pixels")


@pytest.mark.parametrize("way", WAYS[1:])
def test_it_looks_more_like_the_client_than_the_mean_of_all_does(attacked, way):
    row = results(attacked[way], "picture_psnr", "all")
    assert row["low"] > row["floor_high"]


@pytest.mark.parametrize("way", WAYS)
def test_random_prototypes_name_as_many_as_chance(run, tmp_path, monkeypatch, way):
    monkeypatch.setitem(pictures.SOURCES, "message", Dice)
    mine, named = copied(run, tmp_path), []
    for seed in range(5):
        few = {"source": "message", "way": way, "steps": 30, "restarts": 1, "seed": seed}
        named.append(
            results(api.attack(mine, NAME, **few, device="cpu").path, "picture_names", "all")
        )
    assert sum(row["value"] for row in named) / 5 <= 0.25
    assert all(row["floor"] == pytest.approx(0.1) for row in named)


def test_scored_with_other_clients_images_it_names_nobody_it_should_not(attacked, run):
    """Each picture under its neighbour's name: what was all right is all wrong."""
    truth, scored = Truth(run), []
    for g in guessing.saved(attacked["decoder"]):
        if g.role == "attack":
            other = (int(g.guess.unit.split("/")[1]) + 1) % 10
            guess = Guess(f"client/{other}", g.guess.round, g.guess.tensors)
            scored += PICTURE_NAMES.score(guess, truth.answer(guess))
    assert sum(s.value for s in scored) / len(scored) <= 0.1


class TestMetrics:
    def guess(self, x, client=3):
        return Guess(f"client/{client}", 100, {"picture": x})

    def score(self, metric, run, x):
        guess = self.guess(x)
        return metric.score(guess, Truth(run).answer(guess))[0].value

    def test_of_a_clients_own_mean(self, run):
        own = means(Truth(run))[3]
        assert self.score(PICTURE_NAMES, run, own) == 1
        assert self.score(PICTURE_PSNR, run, own) == 100

    def test_of_what_all_have_in_common_everybody_is_named_alike(self, run):
        assert self.score(PICTURE_NAMES, run, means(Truth(run)).mean(0)) == pytest.approx(0.1)

    def test_contrast_does_not_matter_to_names_and_does_to_psnr(self, run):
        every = means(Truth(run))
        faint = every.mean(0) + 0.1 * (every[3] - every.mean(0))
        assert self.score(PICTURE_NAMES, run, faint) == 1
        assert self.score(PICTURE_PSNR, run, faint) < 30


class TestSearch:
    HOW = SimpleNamespace(steps=200, restarts=2, prior=0.0, total_variation=0.0, ridge=1e-6)

    def embed(self, x):
        """Linear, of four of five numbers' worth of pixels."""
        return x.flatten(1) @ noise(1, 12, 4).float()

    @pytest.mark.parametrize("way", ["pixels", "components"])
    def test_what_is_found_is_embedded_where_it_should_be(self, way):
        x, rng = noise(2, 40, 1, 3, 4).float(), torch.Generator().manual_seed(0)
        wanted = self.embed(0.25 + 0.5 * x[:6])
        if way == "pixels":
            space = _pictures.pixels((1, 3, 4), self.HOW, rng)
        else:
            space = _pictures.components(x, self.HOW, rng)
        found = _pictures.sought(self.embed, wanted, space, self.HOW)
        assert torch.allclose(self.embed(found), wanted, atol=0.05)
        assert way == "components" or bool(((found >= 0) & (found <= 1)).all())

    def test_a_linear_embedding_is_decoded_as_far_as_it_goes(self):
        x = noise(3, 40, 1, 3, 4).float()
        x = x.mean(0) + (self.embed(x - x.mean(0)) @ noise(4, 4, 12).float()).view_as(x)
        found = _pictures.decoded(self.embed, self.embed(x[:5]), x, self.HOW)
        assert torch.allclose(found, x[:5], atol=1e-2)

    def test_a_flat_picture_has_no_variation(self):
        assert float(_pictures.variation(torch.full((1, 1, 3, 4), 0.7))) == 0
        assert float(_pictures.variation(torch.eye(2)[None, None])) == 2


def test_where_the_prototype_is_not_recovered_there_is_no_picture(run, monkeypatch):
    class Half(PrototypeLeakage):
        def run(self, view, rng):
            first, *rest = super().run(view, rng)
            return [Guess(first.unit, first.round, failed="no luck"), *rest]

    monkeypatch.setitem(pictures.SOURCES, "message", Half)
    attack = build(NAME, source="message", way="decoder")
    found = {g.unit: g for g in attack(View(attack.threat, again(run), 100))}
    assert len(found) == 10
    assert found["client/0"].failed == "no luck"
    assert sum(not g.failed for g in found.values()) == 9


def test_what_fedhide_mixed_in_is_drawn_once_it_is_solved_for(tmp_path):
    """Un-mixed and out of its updates prototypes are as good as sent."""
    run = api.train(
        "fedhide",
        task_params={"model": "mlp", "width": 32, "evaluations": 10},
        params={"alpha": 0.1, "k": 3},
        rounds=300,
        seed=3,
        out=tmp_path,
        device="cpu",
    )
    rows = {
        s: results(api.attack(run, NAME, source=s, device="cpu").path, "picture_names", "all")
        for s in ("message", "unmixed", "update")
    }
    named = {s: row["value"] for s, row in rows.items()}
    assert named["message"] <= 0.5
    assert named["unmixed"] >= named["message"] + 0.4
    assert named["update"] >= named["message"] + 0.4


def test_who_sends_no_prototype_gives_nothing_to_draw(tmp_path):
    small = {"model": "mlp", "width": 8, "evaluations": 10}
    run = api.train("fedavg", task_params=small, rounds=1, out=tmp_path, device="cpu")
    assert "prototype" in obstacle(build(NAME), again(run))


def test_predicted_time_follows_the_work(run):
    recording = again(run)
    few, many = (seconds(build(NAME, way="pixels", steps=n), recording) for n in (10, 10_000))
    assert few < 3
    assert many > 10 * few
    assert seconds(build(NAME, way="decoder"), recording) < few + 2


def test_the_report_shows_pictures_beside_the_mean_of_what_clients_hold(run, attacked):
    images = Media()
    found = [p for p in reported.run_pictures(load(run.path), images) if p.of == "client"]
    assert {p.role for p in found} == {"original", "floor", "control", "attack"}
    assert {p.params["way"] for p in found} == set(WAYS)
    drawn = [p for p in found if p.role == "attack" and p.params["way"] == "decoder"]
    assert len({p.unit for p in drawn}) == 8
    scores = units(attacked["decoder"], "picture_psnr")
    assert {p.unit: p.psnr for p in drawn}.items() <= scores.items()
