"""Accuracy on own classes, counted by hand, with its constant answer and its untrained net."""

from __future__ import annotations

import pytest
import torch
from helpers.federations import run

from leakbench.base import registry
from leakbench.federation import Federation
from leakbench.federation.evaluate import untaught, utility_scores
from leakbench.federation.task_data import Examples, TaskData, padded
from leakbench.federation.utility import METRICS

OWN = METRICS["own_classes"]
TRAIN = torch.tensor([0, 0, 1, 2, 2, 3])
ROWS, COUNTS = padded([torch.tensor(r) for r in ([0, 2], [1, 3, 4], [5])])


def data(test):
    y = torch.tensor(test)
    train, tested = Examples(torch.zeros(6, 1), TRAIN), Examples(torch.zeros(len(y), 1), y)
    return TaskData(train, tested, tested, ROWS, COUNTS, torch.full((3,), -1))


def test_each_client_is_tested_on_what_it_holds_among_all_classes():
    test = [0, 0, 0, 1, 2, 2]
    said = torch.tensor([0, 0, 1, 3, 2, 0])  # 3 is nobody's answer but counts as wrong
    logits = torch.nn.functional.one_hot(said, 4).double()
    # Client 0 has classes 0 and 1: two of four; client 1 has 0 and 2: three of five; of client 2's
    # class nothing is tested.
    found = OWN.together(logits[None], data(test), None)
    assert found.tolist() == pytest.approx([2 / 4, 3 / 5])


def test_each_answers_with_its_own_model_where_they_keep_parts():
    said = torch.tensor([[0, 0, 1, 0, 0], [2, 2, 2, 2, 2], [0, 0, 0, 0, 3]])
    each = torch.nn.functional.one_hot(said, 4).double()
    found = OWN.together(each, data([0, 0, 1, 2, 3]), None)
    assert found.tolist() == pytest.approx([1.0, 1 / 3, 1.0])


def test_a_client_of_whose_classes_nothing_is_tested_is_left_out_with_its_model():
    said = torch.tensor([[0, 0, 1], [0, 2, 0], [0, 0, 0]])  # client 2 holds class 3 alone
    each = torch.nn.functional.one_hot(said, 4).double()
    found = OWN.together(each, data([0, 0, 1]), None)
    assert found.tolist() == pytest.approx([1.0, 1 / 2])


def test_a_client_that_always_says_the_same_gets_its_most_frequent_class():
    test = data([0, 0, 0, 1, 2, 2])
    mean = (3 / 4 + 3 / 5) / 2
    assert OWN.untaught(test)["constant"] == pytest.approx(mean)
    logits = torch.nn.functional.one_hot(torch.zeros(6, dtype=torch.int64), 4).double()
    assert float(OWN.together(logits[None], test, None).mean()) == pytest.approx(
        (3 / 4 + 3 / 5) / 2
    )


@pytest.mark.parametrize("name", ["fedproto", "fedavg"])
def test_a_federation_is_scored_as_by_hand(name):
    """FedProto's clients know their own classes, and are tested on these."""
    params = {
        "split": "qua",
        "split_param": 3.0,
        "clients": 10,
        "model": "mlp",
        "width": 8,
        "dim": 8,
    }
    params |= {"utility": "own_classes"}
    task = registry.load_plugin("tasks", "digits").build(params, "task digits")
    assert "fraction" not in task.defaults("fedproto")
    made = registry.load_plugin("defenses", name).build(
        {**task.defaults(name), "fraction": 1.0}, f"defense {name}"
    )
    fed = Federation(made, task, task.load(), seed=1, dtype=torch.float64)
    before = untaught(fed)
    assert before["constant"] == pytest.approx(1 / 3, abs=0.02)
    run(fed, 15)
    test, expected = fed.data.test, []
    for c in range(10):
        mine = fed.data_of(c)().y.unique()
        some = torch.isin(test.y, mine)
        me = fed.outside({k: _row(v, c) for k, v in fed.tables().items()})
        said = made.predict(me.net, test.images(some.nonzero().flatten()), me).argmax(1)
        expected.append(float((said == test.y[some]).double().mean()))
    found = utility_scores(fed)
    assert found.tolist() == pytest.approx(expected)
    assert float(found.mean()) > before["constant"] + 0.1


def _row(tree, i):
    return {k: _row(v, i) for k, v in tree.items()} if isinstance(tree, dict) else tree[i]
