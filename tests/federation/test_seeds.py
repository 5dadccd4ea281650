"""The run's seed decides the first model, who is chosen, the batches and the method's noise."""

from __future__ import annotations

import torch
from helpers.federations import federation, method

from leakbench.base.tree import flat
from leakbench.federation.observer import Observer


class _Notes(Observer):
    """What the first round was made of."""

    def __init__(self):
        self.chosen, self.rows, self.sent = [], [], {}

    def training(self, fed, name, each, todo):
        self.chosen = fed.chosen.tolist()
        self.rows = [r.tolist() for r in todo.rows(0)]

    def up(self, fed, name, each, sent, draws):
        self.sent.update(sent)


def after_one_round(seed):
    fed = federation(method("fedgn", sigma=0.5, fraction=0.5, batch=4), seed=seed)
    first = {k: v.clone() for k, v in fed.model.items()}
    fed.recorder = notes = _Notes()
    fed.begin()
    fed.step()
    return first, notes


def test_another_seed_is_another_run():
    (model, one), (other_model, two) = after_one_round(0), after_one_round(1)
    assert all(not torch.equal(v, other_model[k]) for k, v in model.items() if v.std() > 0)
    assert one.chosen != two.chosen
    assert one.rows != two.rows
    a, b = flat(one.sent), flat(two.sent)
    assert all(not torch.equal(v, b[k]) for k, v in a.items() if v.is_floating_point())


def test_the_same_seed_is_the_same_run():
    (model, one), (again, two) = after_one_round(3), after_one_round(3)
    assert all(torch.equal(v, again[k]) for k, v in model.items())
    assert (one.chosen, one.rows) == (two.chosen, two.rows)
    a, b = flat(one.sent), flat(two.sent)
    assert all(torch.equal(v, b[k]) for k, v in a.items())
