"""Membership by what is shared: all of it where examples are shared as they are, else no more."""

from __future__ import annotations

import pytest
import torch
from helpers.small_runs import again, plugged, trained

from attacks import _prototype_rows as prototypes
from attacks.shared_membership import SharedMembership, _whitened
from leakbench import api
from leakbench.attacking.public_facts import Outline
from leakbench.attacking.view import View
from leakbench.record import candidates
from leakbench.record.policy import Policy

HELD = {"model": "mlp", "width": 8, "dim": 8, "evaluations": 10, "split": "iid", "held_out": 20}
CNN = {"evaluations": 10, "split": "iid", "held_out": 20}
ONE = {"steps": 1, "epochs": 0, "fraction": 1.0}
EVERY = Policy(name="all", probes=0)


def found(run, signal, metric="membership_auc"):
    rows = api.attack(run.path, "shared_membership", signal=signal).rows
    return next(r for r in rows if r["metric"] == metric)


def made(out, defense, rounds=1, task=HELD, wrappers=(), **params):
    how = {"task_params": task, "record": EVERY, "params": {**ONE, **params}}
    how["wrappers"] = wrappers
    return trained(out, defense, rounds, **how)


@pytest.mark.parametrize("signal", ["nearest", "tracing"])
def test_what_is_shared_as_it_is_is_found(tmp_path, signal):
    run = made(tmp_path, "feddata", share=1.0)
    assert found(run, signal)["value"] > (0.999 if signal == "nearest" else 0.8)
    assert found(run, signal)["floor"] < 0.6


def test_a_scale_hides_nothing(tmp_path):
    clip = ("clip_noise", {"clip": 1.0, "noise": 0.0, "kinds": ["data"]})
    run = made(tmp_path, "feddata", wrappers=[clip], share=1.0)
    assert found(run, "nearest")["value"] > 0.999
    assert found(run, "tracing")["value"] > 0.7


SHOWN_OTHERWISE = '''
"""Shares the same rows, so that they look otherwise."""

from typing import ClassVar

import torch
from pydantic import Field

from leakbench import Wrapper


class Otherwise(Wrapper):
    """Anybody can undo it."""

    masks: ClassVar[bool | None] = False
    how: str = Field("turned", description="what it does")

    def uplink(self, payload, me):
        if self.how == "turned":
            return -payload
        if self.how == "moved":
            return payload + 5
        if self.how == "each scaled":
            return payload * torch.exp(2 * me.rng.normal("scale", len(payload), 1, 1, 1))
        if self.how == "bytes":
            return (255 * payload).round().to(torch.uint8)
        return (payload + 1) % 10
'''


@pytest.mark.parametrize("how", ["turned", "moved", "each scaled", "bytes", "other labels"])
def test_a_copy_is_a_copy_however_it_is_shown(tmp_path, how):
    kinds = ["labels" if "labels" in how else "data"]
    with plugged("defenses.wrappers", tmp_path, otherwise=SHOWN_OTHERWISE):
        wrappers = [("otherwise", {"how": how, "kinds": kinds})]
        run = made(tmp_path, "feddata", wrappers=wrappers, share=1.0)
        row = found(run, "nearest")
    assert row["value"] > 0.99, row
    assert row["failed"] == 0


def test_a_row_that_is_not_finite_hides_itself_alone(tmp_path):
    run = made(tmp_path, "feddata", share=1.0)
    usual, less = again(run), again(run)
    for m in less.transcript:
        if m.kind == "data" and m.sender != "server":
            m.payload[0].fill_(torch.nan)
    attack = SharedMembership()
    both = [{g.unit: g for g in attack(View(attack.threat, r, 1))} for r in (usual, less)]
    assert both[0].keys() == both[1].keys()
    for unit, guess in both[1].items():
        assert not guess.failed
        changed = guess.tensors["membership"] - both[0][unit].tensors["membership"]
        assert int((changed.abs() > 1).sum()) <= 1


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
    torch.testing.assert_close(flat[:4], rows)  # a product of four rows rounds otherwise
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


# Clients of six examples: of so few a mean says much.
FEW = {**HELD, "dim": 32, "width": 32, "split": "class", "mean_local_size": 20, "held_out": 10}
OWN = {"steps": 1, "epochs": 0, "fraction": 1.0, "optimizer": "sgd", "lr": 0.05, "batch": 6}
CLASS = {**HELD, "dim": 32, "split": "class", "mean_local_size": 24, "held_out": 10}


def metric(out, wrappers=(), **params):
    return made(out, "fedmetric", 4, FEW, wrappers, **{**OWN, **params})


def trained_prototypes(out, defense, **params):
    how = {"own_lr": 1.0, "batch": 2, "lr": 0.02, **params}
    return made(out, defense, 15, CLASS, **{**OWN, **how})


def test_a_member_of_a_mean_embedding_is_traced(tmp_path):
    row = found(metric(tmp_path, variant="true"), "tracing")
    assert row["low"] > 0.75, row
    assert row["floor"] < 0.62


def test_a_clipped_mean_embedding_tells_as_much(tmp_path):
    clip = ("clip_noise", {"clip": 0.3, "noise": 0.0, "kinds": ["prototype"]})
    row = found(metric(tmp_path, [clip], variant="true"), "tracing")
    assert row["value"] > row["control"] - 0.05, row
    assert row["low"] > 0.75


def test_a_turned_mean_embedding_tells_as_much(tmp_path):
    with plugged("defenses.wrappers", tmp_path, otherwise=SHOWN_OTHERWISE):
        turned = ("otherwise", {"how": "turned", "kinds": ["prototype"]})
        row = found(metric(tmp_path, [turned], variant="true"), "tracing")
    assert row["value"] > row["control"] - 0.05, row


def test_a_far_centre_hides_members_and_its_control_does_not(tmp_path):
    row = found(metric(tmp_path, scale=100.0), "tracing")
    assert row["control"] > 0.75 > 0.65 > row["value"], row


def test_a_trained_prototype_tells_by_how_it_moves(tmp_path):
    row = found(trained_prototypes(tmp_path, "fedaws"), "tracing")
    assert row["low"] > 0.6, row


def test_what_was_mixed_into_a_prototype_is_taken_out(tmp_path):
    row = found(trained_prototypes(tmp_path, "fedhide", alpha=0.1, k=3), "tracing")
    assert row["low"] > 0.5, row


@pytest.mark.parametrize("signal", ["nearest", "tracing"])
@pytest.mark.parametrize("defense", ["fedmetric", "fedaws"])
def test_of_examples_that_nobody_has_a_prototype_tells_nothing(
    tmp_path, monkeypatch, signal, defense
):
    def held(data, client, own, rng):
        return data.held_out[client, 5:].tolist()

    monkeypatch.setattr(candidates, "_own", held)
    if defense == "fedaws":
        run = trained_prototypes(tmp_path, "fedaws")
    else:
        run = metric(tmp_path, variant="true")
    assert abs(found(run, signal)["value"] - 0.5) < 0.12


@pytest.mark.parametrize(
    ("defense", "why"),
    [("fedproto", "clients keep parts"), ("fedpcl", "clients keep"), ("feduv", "no features")],
)
def test_who_keeps_the_network_or_sends_no_prototype_is_not_asked(tmp_path, defense, why):
    attack = SharedMembership()
    task = {**HELD, "split": "class", "held_out": 2}
    run = trained(tmp_path, defense, 1, task_params=task, record=EVERY, params=ONE)
    assert why in attack.obstacle(Outline(again(run), attack.threat))


def test_a_bank_says_no_client_by_which_model_a_row_was_made(tmp_path):
    attack = SharedMembership(observer="client/0")
    run = metric(tmp_path)
    assert "in which round a row was sent" in attack.obstacle(Outline(again(run), attack.threat))


def test_the_metric_of_prototypes_knows_how_much_is_noise():
    dice = torch.Generator().manual_seed(0)

    def one(noise):
        spread = torch.tensor([3.0, 2, 1, 0.5], dtype=torch.float64)
        each = torch.randn(200, 4, generator=dice, dtype=torch.float64) * spread
        draw = torch.randn(4, generator=dice, dtype=torch.float64)
        return prototypes.Added(each, each[:5].mean(0) + noise * draw)

    def likeliest(messages):
        spreads = [prototypes._spread(m) for m in messages]
        found = prototypes.NOISES
        return max(found, key=lambda k: prototypes._likelihood(messages, spreads, k))

    assert likeliest([one(0.0) for _ in range(50)]) < 1
    assert likeliest([one(50.0) for _ in range(50)]) >= 10
