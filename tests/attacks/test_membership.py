"""Membership: found where an update gives it away, and not where there is nothing to find."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from helpers.small_runs import again, plugged, trained

from attacks import _membership_signals as signals
from attacks.membership import Membership
from leakbench import api
from leakbench.attacking.view import View
from leakbench.metrics import membership as metrics
from leakbench.record import candidates
from leakbench.record.policy import Policy

WIDE = {"model": "mlp", "width": 40, "dim": 8, "evaluations": 10}
# 27 examples each, all of them in one step, on layers with 64 inputs and 40 outputs.
ONE_STEP = {"split": "iid", "clients": 40}
SIGNALS = ("cosine", "loss", "span", "likelihood")


def rows(run, signal, metric="membership_auc"):
    found = api.attack(run.path, "membership", signal=signal).rows
    return next(r for r in found if r["metric"] == metric)


@pytest.fixture(scope="module")
def one_step(tmp_path_factory):
    how = {"task_params": {**WIDE, **ONE_STEP}, "record": Policy(name="all", probes=0)}
    params = {"batch": 32, "steps": 1, "optimizer": "sgd", "lr": 0.5, "fraction": 1.0}
    return trained(tmp_path_factory.mktemp("runs"), "fedavg", 6, params=params, **how)


def test_a_step_of_few_examples_names_every_member(one_step):
    found = rows(one_step, "span")
    assert found["value"] > 0.999
    assert found["floor"] < 0.6


def test_it_names_them_at_one_false_alarm_in_a_hundred(one_step):
    assert rows(one_step, "span", "membership_tpr")["value"] > 0.99


@pytest.fixture(scope="module")
def null(tmp_path_factory):
    """A run whose "members" were held out of training, too."""
    patch = pytest.MonkeyPatch()

    def held(data, client, own, rng):
        return data.held_out[client, 12:].tolist()

    patch.setattr(candidates, "_own", held)
    how = {"task_params": {**WIDE, "split": "iid", "held_out": 24}, "seed": 2}
    params = {"batch": 32, "steps": 1, "optimizer": "sgd", "lr": 0.5, "fraction": 1.0}
    record = Policy(name="all", probes=0)
    folder = tmp_path_factory.mktemp("null")
    run = trained(folder, "fedavg", 6, params=params, record=record, **how)
    patch.undo()
    return run


@pytest.mark.parametrize("signal", SIGNALS)
def test_of_examples_that_nobody_trained_on_it_tells_nothing(null, signal):
    found = rows(null, signal)
    assert found["low"] <= 0.5 <= found["high"], found
    assert abs(found["value"] - 0.5) < 0.08


@pytest.mark.parametrize("signal", ["span", "likelihood"])
def test_an_attack_never_knows_which_are_members(one_step, signal):
    attack = Membership(signal=signal)
    recording = again(one_step)
    view = View(attack.threat, recording, one_step.spec["rounds"])
    guesses = attack(view)
    assert {g.unit for g in guesses} <= {f"client/{c}" for c in range(40)}
    theirs = view.know("aux_data")
    assert not torch.isin(theirs.marks, view.know("candidates").marks).any()


def test_the_limit_is_that_of_all_others_and_ties_share_it(monkeypatch):
    from leakbench.attacking.guess import Guess
    from leakbench.metrics import MEMBERSHIP_TPR

    class Told:
        def __init__(self, member):
            self.member = torch.tensor(member)
            self.candidates = (self.member,)

    monkeypatch.setattr(metrics, "told_by_inputs", lambda _: (0.5, 1.0))
    many = [False] * 200 + [True] * 10
    score = torch.cat([torch.zeros(200), torch.arange(10.0)])
    score[:3] = torch.tensor([5.5, 4.5, 3.5])
    guess, answer = Guess("client/0", 1, {"membership": score}), Told(many)
    measure = MEMBERSHIP_TPR.across([(guess, answer)])
    # Two of 200 are let through: 5.5 and 4.5, so that the limit is 3.5: 4 to 9 are beyond it.
    assert measure(guess, answer)[0].value == pytest.approx(0.6)
    flat = Guess("client/0", 1, {"membership": torch.zeros(210)})
    measure = MEMBERSHIP_TPR.across([(flat, answer)])
    assert measure(flat, answer)[0].value == pytest.approx(0.01)


@pytest.mark.parametrize("signal", ["cosine", "loss"])
@pytest.mark.parametrize("size", [1e30])
def test_one_huge_update_hides_no_other_client(null, signal, size):
    def found(scale):
        recording = again(null)
        for m in recording.transcript:
            if m.kind == "update" and m.sender == "client/0":
                m.payload.update({k: scale * v for k, v in m.payload.items()})
        attack = Membership(signal=signal)
        guesses = attack(View(attack.threat, recording, null.spec["rounds"]))
        return {g.unit: g for g in guesses}

    usual, hidden = found(1.0), found(size)
    told = [u for u in usual if u != "client/0" and not usual[u].failed]
    assert len(told) >= 8
    for unit in told:
        both = torch.stack([g[unit].tensors["membership"] for g in (usual, hidden)])
        assert float(torch.corrcoef(both)[0, 1]) > 0.6
    if signal == "cosine":
        assert not hidden["client/0"].failed


def test_log_odds_prefer_what_is_found_beyond_its_error():
    found, error = torch.tensor([1.0, 0.0, -1.0]).double(), torch.full((3,), 0.2).double()
    odds = signals._log_odds(found, error)
    assert odds[0] > 2 > 0 > odds[1] > -1
    assert odds[2] < odds[1]


# Ten clients of two dozen, in a step each on all they have; the server receives the sum.
SUMMED = {**WIDE, "split": "iid", "clients": 10, "mean_local_size": 24, "held_out": 12}
ALL_IN_A_STEP = {"batch": 32, "steps": 1, "optimizer": "sgd", "lr": 0.5, "fraction": 1.0}


def summed(out, rounds=3):
    how = {"task_params": SUMMED, "record": Policy(name="all", probes=0)}
    return trained(
        out, "fedavg", rounds, params=ALL_IN_A_STEP, wrappers=[("secure_sum", {})], **how
    )


def test_a_sum_tells_who_is_in_anybodys_data(tmp_path):
    run = summed(tmp_path)
    found = rows(run, "likelihood")
    assert found["value"] > 0.95, found  # of fewer examples than there are weights
    assert found["floor"] < 0.65
    assert found["n"] == 10


@pytest.mark.parametrize("signal", SIGNALS)
def test_a_sum_over_nobodys_candidates_tells_nothing(tmp_path, monkeypatch, signal):
    def held(data, client, own, rng):
        return data.held_out[client, 6:].tolist()

    monkeypatch.setattr(candidates, "_own", held)
    assert abs(rows(summed(tmp_path), signal)["value"] - 0.5) < 0.12


def test_of_a_sum_nobody_is_told_whose_a_candidate_is(tmp_path):
    attack = Membership(signal="likelihood")
    run = summed(tmp_path, 2)
    told = {}
    for shift in (0, 1):
        recording = again(run)
        asked = recording.known("candidates")
        clients = (asked.client + shift) % 10
        recording._examples["candidates"] = replace(asked, client=clients)
        guesses = attack(View(attack.threat, recording, 2))
        found = {g.unit: g.tensors["membership"] for g in guesses}
        told[shift] = torch.cat([found[f"client/{(c + shift) % 10}"] for c in range(10)])
    assert torch.allclose(told[0], told[1])


TURNED = '''
"""Sends updates the other way round."""

from typing import ClassVar

from leakbench import Wrapper


class Turned(Wrapper):
    """Who receives them knows it."""

    masks: ClassVar[bool | None] = False

    def uplink(self, payload, me):
        return {k: -v for k, v in payload.items()}
'''


@pytest.mark.parametrize("signal", ["cosine", "loss", "likelihood"])
def test_an_update_that_was_turned_tells_as_much(tmp_path, signal):
    how = {"task_params": SUMMED, "record": Policy(name="all", probes=0)}
    with plugged("defenses.wrappers", tmp_path, turned=TURNED):
        wrappers = [("turned", {})]
        run = trained(tmp_path, "fedavg", 2, params=ALL_IN_A_STEP, wrappers=wrappers, **how)
        found = rows(run, signal)
    assert found["failed"] == 0
    assert found["value"] == pytest.approx(found["control"], abs=0.02)
    assert found["value"] > 0.65
