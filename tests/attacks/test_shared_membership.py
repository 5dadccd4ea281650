"""Membership by what is shared: all of it where examples are shared as they are, else no more."""

from __future__ import annotations

import pytest
import torch
from helpers.small_runs import again, trained

from attacks.shared_membership import SharedMembership, _whitened
from leakbench import api
from leakbench.attacking.public_facts import Outline
from leakbench.record import candidates
from leakbench.record.policy import Policy

HELD = {"model": "mlp", "width": 8, "dim": 8, "evaluations": 10, "split": "iid", "held_out": 20}
CNN = {"evaluations": 10, "split": "iid", "held_out": 20}
ONE = {"steps": 1, "epochs": 0, "fraction": 1.0}
EVERY = Policy(name="all", probes=0)


def found(run, signal, metric="membership_auc"):
    rows = api.attack(run.path, "shared_membership", signal=signal).rows
    return next(r for r in rows if r["metric"] == metric)


def made(out, defense, rounds=1, task=HELD, **params):
    how = {"task_params": task, "record": EVERY, "params": {**ONE, **params}}
    return trained(out, defense, rounds, **how)


@pytest.mark.parametrize("signal", ["nearest", "tracing"])
def test_what_is_shared_as_it_is_is_found(tmp_path, signal):
    run = made(tmp_path, "feddata", share=1.0)
    assert found(run, signal)["value"] > (0.999 if signal == "nearest" else 0.8)
    assert found(run, signal)["floor"] < 0.6


def test_of_a_tenth_a_tenth_is_found_without_an_error(tmp_path):
    row = found(made(tmp_path, "feddata", share=0.1), "nearest", "membership_tpr")
    assert 0.05 < row["value"] < 0.2


def test_a_member_of_a_mean_is_traced(tmp_path):
    means = made(tmp_path, "fedmix", size=5)
    assert found(means, "tracing")["low"] > 0.6
    assert found(means, "nearest")["control"] > 0.999  # the inputs themselves


def test_features_are_made_by_the_model_of_the_round(tmp_path):
    row = found(made(tmp_path, "flea", 2, CNN, share=1.0), "nearest", "membership_tpr")
    assert row["control"] > 0.9


@pytest.mark.parametrize("signal", ["nearest", "tracing"])
def test_of_examples_that_nobody_shared_it_tells_nothing(tmp_path, monkeypatch, signal):
    def held(data, client, own, rng):
        return data.held_out[client, 20:].tolist()

    monkeypatch.setattr(candidates, "_own", held)
    run = made(tmp_path, "feddata", task={**HELD, "held_out": 40}, share=1.0)
    row = found(run, signal)
    assert row["low"] <= 0.5 <= row["high"], row


def test_where_nothing_is_shared_it_does_not_fit(tmp_path):
    attack = SharedMembership()
    outline = Outline(again(made(tmp_path, "fedavg")), attack.threat)
    assert "send the server no features" in attack.obstacle(outline)


def test_whitening_leaves_auxiliary_examples_alike_in_every_direction():
    dice = torch.Generator().manual_seed(0)
    y = torch.arange(600) % 3
    x = torch.randn(600, 5, generator=dice, dtype=torch.float64) * torch.tensor([9, 3, 1, 1, 1])
    x += 20 * y[:, None]
    flat, rows = _whitened(x, y, x[:4], y[:4], of=y)
    assert torch.equal(flat[:4], rows)
    assert flat.mean(0).abs().max() < 1e-9
    sizes = torch.linalg.svdvals(flat) / 600**0.5
    assert 0.2 < sizes.min() < sizes.max() < 1.01


@pytest.mark.parametrize("signal", ["nearest", "tracing"])
def test_numbers_that_were_not_sent_are_no_data(tmp_path, signal):
    wrappers = [("top_k", {"share": 0.3, "choose": "random", "kinds": ["data"]})]
    how = {"task_params": HELD, "record": EVERY, "params": {**ONE, "share": 1.0}}
    run = trained(tmp_path, "feddata", 1, wrappers=wrappers, **how)
    assert found(run, signal)["value"] > (0.95 if signal == "nearest" else 0.6)


def test_one_auxiliary_example_of_a_class_will_do():
    y = torch.arange(6)
    x = torch.randn(6, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    flat, rows = _whitened(x, y, x[:2], y[:2], of=y)
    assert flat.isfinite().all()
    assert rows.isfinite().all()
