from __future__ import annotations

from typing import Any

import pytest

from leakbench.federation.utility import METRICS
from leakbench.results import claims
from leakbench.results.cells import table_lines
from leakbench.results.number import Claim, Configuration, Utility
from leakbench.statistics.intervals import exact

FEDHIDE = {"alpha": 0.01, "k": 10, "lam": 10.0, "fraction": 0.1}
HERE = {"clients": 100, "fraction": 0.1, "rounds": 500}


def table1(**fields: Any) -> claims.Claim | None:
    return claims.find_claim("fedavg", {"fraction": 0.1}, "cifar10", "accuracy", fields)


def test_a_record_whose_parameters_are_a_subset_of_ours_is_found_and_scaled() -> None:
    claim = claims.find_claim("fedhide", FEDHIDE, "cifar100", "p_leak", HERE)
    assert claim is not None
    assert claim.value == 0.096
    assert claim.low is not None
    assert claim.high is not None
    assert claim.low < claim.value < claim.high
    assert claim.high - claim.value == pytest.approx(claim.value - claim.low)
    assert claim.source.startswith("FedHide Table 4; ± not stated, ")
    assert "rounds 100000 there, 500 here" in claim.source


def test_other_parameters_other_tasks_and_other_metrics_have_no_claim() -> None:
    assert (
        claims.find_claim("fedhide", FEDHIDE | {"alpha": 0.02}, "cifar100", "p_leak", HERE) is None
    )
    # k is not ours.
    assert claims.find_claim("fedhide", {"alpha": 0.01}, "cifar100", "p_leak", HERE) is None
    assert claims.find_claim("fedhide", FEDHIDE, "digits", "p_leak", HERE) is None
    assert claims.find_claim("fedhide", FEDHIDE, "cifar100", "p_leak_public", HERE) is None


def test_the_setting_that_contradicts_least_wins_and_a_tie_gives_none() -> None:
    dirichlet = table1(split="dir", split_param=0.5, clients=500, mean_local_size=100, rounds=100)
    assert dirichlet is not None
    assert dirichlet.value == pytest.approx(0.3258)
    # Our names of the same fields.
    quantity = table1(split="quantity", split_param=3, clients=500, size=100, rounds=100)
    assert quantity is not None
    assert quantity.value == pytest.approx(0.3025)
    # Three splits of the paper fit equally well.
    assert table1(clients=500, mean_local_size=100, rounds=100) is None


def test_a_contradiction_in_split_or_clients_gives_none_and_in_rounds_is_said() -> None:
    assert (
        table1(split="dir", split_param=0.7, clients=500, mean_local_size=100, rounds=100) is None
    )
    assert (
        table1(split="dir", split_param=0.5, clients=400, mean_local_size=100, rounds=100) is None
    )
    fewer = table1(split="dir", split_param=0.5, clients=500, mean_local_size=100, rounds=20)
    assert fewer is not None
    assert "rounds 100 there, 20 here" in fewer.source


def test_the_fraction_decides_between_the_settings_of_fedaa() -> None:
    fields = {"clients": 10, "rounds": 100}
    found = {
        f: claims.find_claim("fedaa", {}, "cifar10", "accuracy", fields | {"fraction": f})
        for f in (0.5, 0.8, 1.0)
    }
    assert [round(c.value, 4) for c in found.values() if c] == [0.2295, 0.4044, 0.4369]


def test_aliases_of_tasks_methods_and_metrics() -> None:
    har = claims.find_claim(
        "flea",
        {},
        "uci-har",
        "accuracy",
        {"split": "dir", "split_param": 0.1, "clients": 75, "mean_local_size": 100, "rounds": 100},
    )
    proxy = claims.find_claim(
        "fedmetric", {"variant": "proxy", "lam": 0.1}, "cifar10", "auroc", {"clients": 10}
    )
    cosine = claims.find_claim(
        "fedgn", {"sigma": 0.1}, "cifar100", "prototype_cosine", {"clients": 100}
    )
    captions = claims.find_claim(
        "fedaa", {}, "coco-captions", "bleu4", {"clients": 20, "fraction": 0.1, "rounds": 50}
    )
    ablation = claims.find_claim(
        "fedaa",
        {"identifier": False},
        "cifar100",
        "accuracy",
        {"clients": 100, "fraction": 0.1, "rounds": 100},
    )
    found = [c.value for c in (har, proxy, cosine, captions, ablation) if c]
    assert found == pytest.approx([0.7168, 0.942, 0.40, 0.0790, 0.0421])


def test_the_stage_of_the_model_and_the_round_must_be_the_records() -> None:
    setting = {"clients": 100, "rounds": 100}
    values = {
        s: claims.find_claim("fedgn", {"sigma": 0.05}, "cifar100", "lpips", setting, stage=s)
        for s in ("untrained", "early", "final")
    }
    assert [v and v.value for v in values.values()] == [0.75, None, 0.70]
    exposure = claims.find_claim(
        "flea", {}, "cifar10", "exposure", setting, stage="middle", round=50
    )
    assert exposure is not None
    assert exposure.value == pytest.approx(0.4)
    assert (
        claims.find_claim("flea", {}, "cifar10", "exposure", setting, stage="final", round=100)
        is None
    )


def test_a_number_of_the_papers_weights_is_not_shown_beside_others() -> None:
    setting = {"split": "qua", "split_param": 2, "clients": 75, "rounds": 100}
    found = {
        (lam1, lam2): claims.find_claim(
            "flea", {"lam1": lam1, "lam2": lam2}, "uci-har", "accuracy", setting
        )
        for lam1, lam2 in ((1.0, 3.0), (1.0, 0.0), (6.0, 3.0))
    }
    assert [c and round(c.value, 4) for c in found.values()] == [0.7517, None, None]


def test_two_records_of_the_same_number_are_no_tie() -> None:
    # In Table 4 and in the running text.
    claim = claims.find_claim("fedgn", {"sigma": 0.5}, "cifar100", "accuracy", HERE)
    assert claim is not None
    assert claim.source.startswith("FedHide Table 4")


def test_a_condition_that_we_do_not_meet_is_no_claim_and_samples_are_read_from_its_sentence() -> (
    None
):
    privacy = {"split": "qua", "split_param": 3, "clients": 100}
    assert (
        claims.find_claim("flea", {"lam2": 0.0}, "cifar10", "mse", privacy) is None
    )  # on training data
    needed = claims.find_claim("fedmix", {}, "cifar10", "samples_to_90", privacy)
    assert needed is not None
    assert needed.value == 300
    assert claims.find_claim("fedmix", {}, "cifar10", "context_accuracy", privacy) is None


def test_every_alias_names_a_record() -> None:
    aliases = claims._aliases()
    printed = claims.published()
    for what, column in (("datasets", "dataset"), ("metrics", "metric"), ("methods", "method")):
        assert set(aliases[what]) <= {r[column] for r in printed}
    assert set(aliases["params"]) <= {k for r in printed for k in r["params"]}


def test_cells_are_empty_without_a_claim_and_keep_the_source_with_one() -> None:
    line = Utility(
        configuration=Configuration(task="digits", defense="fedgn", params={}),
        meaning=METRICS["accuracy"].meaning,
        statistic="final",
        seeds=(0,),
        rounds=10,
        value=exact(0.5, 10, "test unit"),
        chance=0.1,
        flags=frozenset(),
    )
    (cells,) = table_lines([line])
    assert {v for k, v in cells.items() if k.startswith("claimed")} == {""}
    known = Claim(value=0.5, low=None, high=None, source="Somewhere")
    (cells,) = table_lines([line.model_copy(update={"claim": known})])
    assert {k: v for k, v in cells.items() if k.startswith("claimed")} == {
        "claimed": 0.5,
        "claimed_low": "",
        "claimed_high": "",
        "claimed_source": "Somewhere",
    }
