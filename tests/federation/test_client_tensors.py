"""Columns over the clients: written in place only while nobody else holds them."""

import pytest
import torch

from defenses.fedavg import FedAvg
from leakbench.base.errors import MethodError
from leakbench.base.streams import shared
from leakbench.federation.client_tensors import ClientTensors
from leakbench.federation.selection import robin, select

SOME, OTHERS = torch.tensor([1, 3]), torch.tensor([0, 3])


def columns():
    tree = {"a": torch.zeros(5, 2), "deep": {"b": torch.zeros(5)}}
    return ClientTensors(FedAvg(), 5, {"own": {}, "state": tree, "kept": {}})


def rows(value):
    return {"state": {"a": torch.full((2, 2), value), "deep": {"b": torch.full((2,), value)}}}


def test_rows_of_some_clients_are_written():
    held = columns()
    held.write(SOME, rows(1.0))
    held.write(OTHERS, rows(2.0))
    assert held["state"]["a"][:, 0].tolist() == [2, 1, 0, 2, 0]
    assert held["state"]["deep"]["b"].tolist() == [2, 1, 0, 2, 0]
    assert held.of(SOME)["state"]["a"][:, 1].tolist() == [1, 2]


def test_the_second_round_writes_in_place():
    held = columns()
    held.write(SOME, rows(1.0))
    before = held._groups["state"]["a"].data_ptr()
    held.write(OTHERS, rows(2.0))
    assert held._groups["state"]["a"].data_ptr() == before


everyone = torch.arange(5)
READERS = {
    "a group": lambda held: held["state"],
    "all": lambda held: dict(held)["state"],
    "spread": lambda held: {**held}["state"],
    "items": lambda held: dict(held.items())["state"],
    "values": lambda held: list(held.values())[1],
    "everyone": lambda held: held.of(everyone)["state"],
    "some": lambda held: held.of(torch.tensor([0, 1, 2, 3]))["state"],
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize("first", [False, True], ids=["written before", "fresh"])
def test_who_was_given_a_column_keeps_it_as_it_is(read, first):
    held = columns()
    if not first:
        held.write(SOME, rows(1.0))
    given = read(held)
    was = (given["a"].clone(), given["deep"]["b"].clone())
    held.write(SOME, rows(7.0))
    held.write(OTHERS, rows(8.0))
    assert torch.equal(given["a"], was[0])
    assert torch.equal(given["deep"]["b"], was[1])


def test_what_everybody_wrote_is_not_written_into():
    """It may be a message as well."""
    held, sent = columns(), torch.ones(5, 2)
    held.write(SOME, rows(1.0))
    held.write(everyone, {"state": {"a": sent}})
    held.write(SOME, rows(7.0))
    held.write(OTHERS, rows(8.0))
    assert torch.equal(sent, torch.ones(5, 2))
    assert held["state"]["a"][:, 0].tolist() == [8, 7, 1, 8, 1]


def test_a_new_name_is_refused():
    with pytest.raises(MethodError, match="is not named in start"):
        columns().write(SOME, {"state": {"new": torch.zeros(2)}})


@pytest.mark.parametrize("how", ["random", "round_robin"])
def test_clients_are_chosen_as_the_whole_order_says(how):
    method = FedAvg(fraction=0.3, select=how)
    order = robin(100, seed=3)
    for t in range(1, 12):
        found = select(method, 100, seed=3, t=t)
        if how == "random":
            whole = shared(3, "select", round=t).permutation("clients", 100)[:30]
        else:
            whole = torch.tensor(order)[(torch.arange(30) + (t - 1) * 30) % 100]
            assert found == select(method, 100, seed=3, t=t, order=order)
        assert found == whole.sort().values.tolist()
