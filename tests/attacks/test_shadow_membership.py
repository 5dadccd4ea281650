"""Membership by a trained model: all of it where a model memorises, nothing where it cannot."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from helpers.small_runs import again, trained

from attacks import _shadow_federations as shadow
from attacks.shadow_membership import ShadowMembership, lira
from leakbench import api
from leakbench.attacking.public_facts import Outline
from leakbench.attacking.view import View
from leakbench.record import candidates
from leakbench.tasks.digits import Digits

WIDE = {"model": "mlp", "width": 128, "dim": 8, "evaluations": 10}
HELD = {**WIDE, "split": "iid", "clients": 3, "mean_local_size": 30, "held_out": 15}
LONG = {"batch": 32, "steps": 0, "epochs": 10, "optimizer": "adam", "lr": 1e-2, "fraction": 1.0}


def found(run, metric="membership_auc", **how):
    rows = api.attack(run.path, "shadow_membership", shadows=8, **how).rows
    return next(r for r in rows if r["metric"] == metric)


@pytest.fixture(scope="module")
def memorised(tmp_path_factory):
    """A federation that learnt labels by heart: they were thrown."""
    patch, load = pytest.MonkeyPatch(), Digits.load

    def thrown(self):
        data = load(self)
        dice = torch.Generator().manual_seed(1)
        y = torch.randint(10, (len(data.train),), generator=dice)
        return replace(data, train=replace(data.train, y=y))

    patch.setattr(Digits, "load", thrown)
    run = trained(tmp_path_factory.mktemp("runs"), "fedavg", 8, params=LONG, task_params=HELD)
    patch.undo()
    return run


@pytest.mark.parametrize("how", [{"test": "lira"}, {"test": "rmia"}, {"model": "client"}])
def test_what_was_learnt_by_heart_is_found(memorised, how):
    row = found(memorised, **how)
    assert row["value"] > 0.9
    assert row["floor"] < 0.7


@pytest.fixture(scope="module")
def null(tmp_path_factory):
    """A run whose "members" were held out of training, too."""
    patch = pytest.MonkeyPatch()

    def held(data, client, own, rng):
        return data.held_out[client, 15:].tolist()

    patch.setattr(candidates, "_own", held)
    how = {
        "params": LONG,
        "task_params": {**HELD, "held_out": 30, "mean_local_size": 45},
        "seed": 3,
    }
    run = trained(tmp_path_factory.mktemp("null"), "fedavg", 8, **how)
    patch.undo()
    return run


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Of auxiliary examples as many as there are candidates: shadows are trained the sooner."""
    monkeypatch.setattr(shadow, "AUXILIARY", 90)


@pytest.mark.parametrize("how", [{"test": "lira"}, {"test": "rmia"}, {"model": "client"}])
def test_of_examples_that_nobody_trained_on_it_tells_nothing(null, how):
    row = found(null, **how)
    assert row["low"] <= 0.5 <= row["high"], row


def test_each_example_is_in_half_of_the_shadows(memorised):
    attack = ShadowMembership()
    view = View(attack.threat, again(memorised), 8)
    of = shadow.pool(view, torch.Generator().manual_seed(0))
    asked = view.know("candidates")
    assert of.asked == len(asked)
    assert torch.equal(of.client[: of.asked], asked.client)
    made = shadow.train(view, of, 4, torch.Generator().manual_seed(0))
    assert (made.held.sum(0) == 2).float().mean() > 0.98  # but of who would have none
    assert made.says.shape == (4, 1 + 3, len(of.client))
    inside = made.says[:, 0].exp()
    assert inside[made.held].mean() > inside[~made.held].mean()


def test_lira_is_the_ratio_of_two_normal_likelihoods():
    logit = torch.tensor([[3.0, 2.0], [2.0, 4.0], [-1.0, 0.0], [0.0, -2.0]], dtype=torch.float64)
    held = torch.tensor([[True, True], [True, True], [False, False], [False, False]])
    says = torch.nn.functional.logsigmoid(logit)[:, None]
    told = torch.nn.functional.logsigmoid(torch.tensor([2.0, 0.5], dtype=torch.float64))
    mine = lira(told, shadow.Shadows(held, says), 0, 2)
    inside, outside = torch.tensor([2.5, 3.0]), torch.tensor([-0.5, -1.0])
    sigma = torch.tensor([0.25 + 0.25 + 1 + 1, 0.25 + 0.25 + 1 + 1]).double() / 4
    in_law = torch.distributions.Normal(inside.double(), sigma.sqrt())
    out_law = torch.distributions.Normal(outside.double(), sigma.sqrt())
    at = torch.tensor([2.0, 0.5]).double()
    assert mine == pytest.approx((in_law.log_prob(at) - out_law.log_prob(at)).tolist())


def test_it_says_why_it_does_not_fit(tmp_path):
    run = trained(
        tmp_path, "fedbn", 2, params={"steps": 1, "epochs": 0}, task_params={"model": "cnn"}
    )
    attack = ShadowMembership()
    assert "keep" in attack.obstacle(Outline(again(run), attack.threat))
