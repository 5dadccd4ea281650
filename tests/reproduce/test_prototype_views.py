"""True prototypes beside what stood for them: cosines are the metric's, spheres the paper's, t-SNE
shows every pair.
"""

from __future__ import annotations

import json
import math
from importlib.resources import files

import numpy as np
import pytest
import torch
from helpers.small_runs import TASK, trained, tree_of, units

from leakbench import api
from leakbench.base import registry
from leakbench.base.errors import NotMeasured
from leakbench.base.files import read_csv
from leakbench.record.folders import load
from leakbench.reproduce import prototype_views
from leakbench.reproduce.prototype_views import (
    PrototypePairs,
    log10_sphere_ratio,
    log10_sphere_ratios,
    pairs,
    sphere_ratio,
    spread,
    true_proxy_cosine,
)
from leakbench.scoring.truth import Truth


@pytest.fixture(scope="module")
def noisy(tmp_path_factory):
    """FedGN on digits, ten clients, all in every round."""
    return trained(tmp_path_factory.mktemp("runs"), rounds=10, params={"sigma": 0.5})


@pytest.fixture(scope="module")
def turned(tmp_path_factory):
    """FedCS: two of ten clients a round, so that most proxies are older than the last round."""
    return trained(
        tmp_path_factory.mktemp("runs"),
        "fedcs",
        rounds=10,
        params={"cos_theta": 0.3, "fraction": 0.2},
    )


class TestCosine:
    @pytest.mark.parametrize("which", ["noisy", "turned"])
    def test_is_the_metrics_bit_for_bit(self, which, request):
        run = request.getfixturevalue(which)
        folder = api.attack(run, "prototype_leakage", device="cpu").path
        for t in (5, 10):  # both are stages
            found = pairs(run, t)
            mine = {
                f"client/{int(c)}": v
                for c, v in zip(found.clients, found.cosines().tolist(), strict=True)
            }
            assert mine == units(folder, "prototype_cosine", round=t)
        row = next(
            r
            for r in api.Results(folder).rows
            if (r["metric"], r["stage"]) == ("prototype_cosine", "final")
        )
        said = true_proxy_cosine(run)
        assert said.mean == row["value"]
        assert said.n == row["n"] == 10

    def test_std_is_that_of_the_clients(self, noisy):
        values = pairs(noisy).cosines().numpy()
        assert true_proxy_cosine(noisy).std == pytest.approx(
            float(np.std(values, ddof=1)), abs=1e-12
        )

    def test_fedcs_has_no_spread(self, turned):
        assert true_proxy_cosine(turned).mean == pytest.approx(0.3, abs=1e-6)
        assert true_proxy_cosine(turned).std < 1e-6

    def test_against_the_truth_by_hand(self, noisy):
        everyone = Truth(noisy).round(10)["everyone"]["prototype"].double()
        found = pairs(load(noisy.path))
        assert torch.equal(found.true, everyone)
        by_hand = (found.proxy * everyone).sum(1) / found.proxy.norm(dim=1) / everyone.norm(dim=1)
        assert torch.allclose(found.cosines(), by_hand, atol=1e-12)

    def test_of_a_single_client(self):
        assert spread([0.5]) == prototype_views.MeanAndStd(0.5, 0.0, 1)

    def test_where_nothing_is_shared_that_is_said(self, tmp_path):
        with pytest.raises(NotMeasured, match="no true prototype"):
            pairs(trained(tmp_path, "fedavg", rounds=2))


class TestSpheres:
    def test_the_papers_example(self):
        records = json.loads((files("leakbench") / "data_files" / "published.json").read_text())[
            "records"
        ]
        (paper,) = [r for r in records if r["metric"] == "exposure_probability"]
        p = paper["params"]
        # Printed with two digits.
        assert sphere_ratio(p["R"], p["D"], p["d"]) == pytest.approx(paper["value"], rel=0.02)
        assert sphere_ratio(p["R"], p["D"], p["d"]) == pytest.approx(2.0**-128, rel=1e-9)

    def test_the_logarithm_lives_where_the_ratio_does_not(self):
        assert sphere_ratio(0.1, 0.9, 512) == 0.0
        assert log10_sphere_ratio(0.1, 0.9, 512) == pytest.approx(-512)

    def test_ends(self):
        assert sphere_ratio(0.3, 0.0, 64) == 1.0
        assert log10_sphere_ratio(0.0, 0.1, 3) == -math.inf
        assert sphere_ratio(0.0, 0.1, 3) == 0.0
        for bad in ((0.0, 0.0, 3), (-0.1, 0.1, 3), (0.1, -0.1, 3), (0.1, 0.1, 0)):
            with pytest.raises(ValueError, match="ratio of spheres"):
                sphere_ratio(*bad)

    @pytest.mark.skipif(
        "fedmetric" not in registry.names("defenses"), reason="the method is not there"
    )
    def test_of_a_run_it_is_what_s_says(self, tmp_path):
        """D = s R, so every client's ratio is (1 + s)^-d: the margin gives D away to whoever knows
        s.
        """
        for scale in (0.0, 1.5):
            run = trained(
                tmp_path,
                "fedmetric",
                rounds=3,
                params={"scale": scale, "normalised": True, "lr": 0.01},
            )
            found = log10_sphere_ratios(run)
            assert found.shape == (10,)
            assert found.tolist() == pytest.approx(
                [-TASK["dim"] * math.log10(1 + scale)] * 10, abs=1e-4
            )

    def test_of_another_method_there_is_none(self, noisy):
        with pytest.raises(NotMeasured, match="FedMetric's"):
            log10_sphere_ratios(noisy)


class TestTSNE:
    def test_pairs_lie_together_where_proxies_are_near(self):
        rng = torch.Generator().manual_seed(0)
        true = torch.nn.functional.normalize(
            torch.randn(30, 16, generator=rng, dtype=torch.float64), dim=1
        )
        near = PrototypePairs(
            1,
            torch.arange(30),
            true,
            true + 0.02 * torch.randn(30, 16, generator=rng, dtype=torch.float64),
        )
        a, b = prototype_views.tsne(near)
        gap = torch.cdist(a, b)
        assert a.shape == b.shape == (30, 2)
        assert (gap.argmin(1) == torch.arange(30)).double().mean() > 0.9
        again, _ = prototype_views.tsne(near)
        assert torch.equal(a, again)

    def test_only_directions_count(self):
        rng = torch.Generator().manual_seed(1)
        true, proxy = (torch.randn(12, 8, generator=rng, dtype=torch.float64) for _ in range(2))
        one, two = (
            prototype_views.tsne(PrototypePairs(1, torch.arange(12), true * k, proxy))[0]
            for k in (1.0, 4.0)
        )
        assert torch.allclose(one, two, atol=1e-3)

    @pytest.mark.filterwarnings("error")
    def test_a_collapsed_run_can_be_drawn(self):
        same = torch.ones(10, 4, dtype=torch.float64)
        a, _ = prototype_views.tsne(PrototypePairs(1, torch.arange(10), same, same))
        assert a.isfinite().all()

    def test_files(self, noisy, turned, tmp_path):
        sets = {"FedGN": pairs(noisy), "FedCS": pairs(turned)}
        made = prototype_views.draw_tsne(sets, tmp_path / "out", "both")
        assert [p.name for p in made] == ["both.svg", "both.png", "both.csv"]
        assert made[0].read_text().lstrip().startswith("<?xml")
        assert made[1].read_bytes().startswith(b"\x89PNG")
        rows = read_csv(made[2], prototype_views.COORDINATES)
        assert len(rows) == 2 * 2 * 10
        assert {(r["set"], r["what"]) for r in rows} == {
            (s, w) for s in sets for w in ("true", "proxy")
        }
        before = tree_of(tmp_path)
        prototype_views.draw_tsne(sets, tmp_path / "out", "both")
        assert tree_of(tmp_path) == before
