"""Networks that throw torch's own dice train alike whoever threw them before, in every engine, and
leave them as they were.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from helpers.federations import federation, gap, run
from helpers.layers import QUIET, THROWING
from torch import nn

from leakbench import Defense
from leakbench.base import dice
from leakbench.base.streams import shared

EVERY = {**QUIET, **THROWING}
STEPS = {"one step": {"steps": 1}, "epochs": {"steps": 0, "epochs": 1, "batch": 32}}


def with_network(make):
    class Brought(Defense):
        def module(self, module, facts):
            return make(facts.dim)

    return Brought


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # torch's, of its vmap
@pytest.mark.parametrize("how", STEPS.values(), ids=[*STEPS])
@pytest.mark.parametrize("name", EVERY)
def test_every_engine_trains_alike_whoever_threw_before(name, how):
    kind, ended = with_network(EVERY[name]), []
    for i, engine in enumerate(("loop", "loop", "auto", "stacked", "threads")):
        with dice.lent(i):
            before = dice.state()
            ended.append(run(federation(kind(**how), engine), 2))
            assert dice.state() == before
    assert gap(ended[0], ended[1]) == 0
    for fed in ended[2:]:
        assert gap(ended[0], fed) < 1e-9
        if name in THROWING:
            assert fed.phases["loss"] == "loop"
            assert "loss" in fed.fallbacks


@pytest.mark.parametrize("name", THROWING)
def test_a_training_that_goes_on_throws_what_it_would_have_thrown(name):
    kind = with_network(THROWING[name])(steps=2)
    whole, first, second = (federation(kind) for _ in range(3))
    for fed in (whole, first):
        fed.begin()
        fed.step()
    second.restore(first.snapshot())
    for fed in (whole, second):
        fed.step()
    assert gap(whole, second) == 0


def test_every_step_client_and_round_has_dice_of_its_own():
    seen = []

    class Shown(nn.Module):
        def __init__(self, out):
            super().__init__()
            self.last = nn.Linear(64, out)

        def forward(self, x):
            seen.append((float(torch.rand(())), random.random(), np.random.random_sample()))
            return self.last(x.flatten(1))

    before = dice.state()
    fed = federation(with_network(Shown)(steps=3), "loop", clients=4)
    assert dice.state() == before
    seen.clear()  # of the network's examination
    fed.begin()
    fed.step()
    fed.step()
    assert len(seen) == 2 * 4 * 3
    for each in zip(*seen, strict=True):
        assert len(set(each)) == len(each)


def test_an_evaluation_has_dice_of_its_own_too():
    kind = with_network(THROWING["F.dropout, always"])
    from leakbench.federation.evaluate import utility_scores

    fed = run(federation(kind(steps=1)), 1)
    assert torch.equal(utility_scores(fed), utility_scores(fed))


def test_lent_dice_begin_where_they_are_told_and_are_put_back():
    def some():
        return torch.rand(3).tolist(), random.random(), np.random.random_sample(2).tolist()

    before = dice.state()
    with dice.lent(7):
        one = some()
        with dice.lent(8):
            other = some()
        assert dice.thrown(7)
    with dice.lent(7):
        assert some() == one
    with dice.lent(7):
        assert not dice.thrown(7)
    assert one != other
    assert dice.state() == before
    with pytest.raises(RuntimeError, match="not here"), dice.untouched("not here"):
        random.random()
    assert dice.state() == before


def test_streams_of_other_names_lend_other_dice():
    found = set()
    for t in (1, 2):
        for step in (0, 1):
            with shared(3, "defense", round=t).at("loss", step).lent():
                found.add(float(torch.rand(())))
    assert len(found) == 4
