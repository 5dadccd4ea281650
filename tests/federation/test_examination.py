"""What a task loads is refused in one sentence where it is not what the task's class says."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from helpers.federations import digits, federation, method
from torch import nn

from leakbench import Defense
from leakbench.base import registry
from leakbench.base.errors import UsageError
from leakbench.federation.federation import Federation
from leakbench.federation.task_data import Examples, marks, padded
from leakbench.models.networks import MODELS

SETS = {"training": "train", "test": "test", "auxiliary": "aux"}


def with_set(data, field, **changes):
    """The data, one set of which is a changed copy."""
    old = getattr(data, field)
    kept = {"stored": old.stored.clone(), "y": old.y.clone()}
    for name, change in changes.items():
        kept[name] = change(kept[name])
    return replace(data, **{field: Examples(**kept)})


def at(row, value):
    """A change of one entry."""

    def change(t):
        t.view(len(t), -1)[row, 0] = value
        return t

    return change


LABELS = {
    "a column": (lambda y: y[:, None], r"labels of Digits are torch.int64 \(\d+, 1\)"),
    "one-hot": (lambda y: nn.functional.one_hot(y), r"torch.int64 \(\d+, 10\): expected a class"),
    "floats": (lambda y: y.double(), r"are torch.float64 \(\d+,\): expected .* torch.int64"),
    "bool": (lambda y: y > 4, "are torch.bool"),
    "int32": (lambda y: y.int(), "are torch.int32"),
    "uint8": (lambda y: y.byte(), "are torch.uint8"),
    "numpy": (lambda y: y.numpy(), r"are int64 \(\d+,\): expected .* torch.int64"),
    "from 1 on": (lambda y: y + 1, "hold 10 in row"),
    "torch ignores it": (at(3, -100), "hold -100 in row 3"),
    "beyond the classes": (at(7, 10), "hold 10 in row 7.*from 0 to 9"),
    "too few": (lambda y: y[:-5], "a class for each input"),
}


@pytest.mark.parametrize("what", SETS)
@pytest.mark.parametrize("name", LABELS)
def test_labels_are_whole_numbers_of_classes(name, what):
    change, says = LABELS[name]
    wrong = with_set(digits().load(), SETS[what], y=change)
    with pytest.raises(UsageError, match=f"the {what} labels of Digits .*") as error:
        federation("fedavg", data=wrong)
    assert error.match(says)
    # and nobody is told of a client but where one holds the row
    named = "(client" in str(error.value)
    assert not named or what == "training"


def test_the_client_is_named_who_holds_the_row():
    data = digits().load()
    row = int(data.rows[4, 2])
    with pytest.raises(UsageError, match=rf"hold -1 in row {row} \(client 4's\)"):
        federation("fedavg", data=with_set(data, "train", y=at(row, -1)))
    with pytest.raises(UsageError, match=rf"inputs .* hold nan in row {row} \(client 4's\)"):
        federation("fedavg", data=with_set(data, "train", stored=at(row, float("nan"))))


INPUTS = {
    "nan": (at(3, float("nan")), "hold nan in row 3"),
    "infinity": (at(3, -float("inf")), "hold -inf in row 3"),
    "beyond the range": (at(3, 1.5), r"lie between 0 and 1.5, outside \[0, 1\]"),
    "another shape": (lambda x: x.flatten(1), r"are \(64,\) each, and its class says \(1, 8, 8\)"),
    "crops": (lambda x: x[:, None], r"are \(1, 1, 8, 8\) each"),
    "complex": (lambda x: x.cfloat(), "torch.complex64"),
    "numpy": (lambda x: x.numpy(), "are float64: expected a tensor"),
    "none": (lambda x: x[:0], "has no .* examples"),
}


@pytest.mark.parametrize("what", SETS)
@pytest.mark.parametrize("name", INPUTS)
def test_inputs_are_finite_and_as_the_class_says(name, what):
    change, says = INPUTS[name]
    with pytest.raises(UsageError, match=says) as error:
        federation("fedavg", data=with_set(digits().load(), SETS[what], stored=change))
    assert error.match(what)


def test_an_unbounded_task_refuses_nan_too():
    class Unbounded(type(digits())):
        signal = True

    data = with_set(digits().load(), "aux", stored=at(2, float("nan")))
    task = Unbounded.build({"model": "mlp"}, "task")
    with pytest.raises(UsageError, match="the auxiliary inputs of Unbounded hold nan in row 2"):
        Federation(method("fedavg"), task, data)


def changed(t, place, value):
    t = t.clone()
    t[place] = value
    return t


@pytest.mark.parametrize(
    ("field", "change", "says"),
    [
        ("counts", lambda t: changed(t, 1, 999), r"client 1 of Digits counts 999 .*113 at most"),
        ("counts", lambda t: changed(t, 2, 0), "client 2 of Digits counts 0 examples"),
        ("counts", lambda t: t.double(), r"the counts of Digits are torch.float64 \(10,\)"),
        (
            "rows",
            lambda t: changed(t, (3, 5), 1097),
            "client 3 .* holds row 1097, .* 1097 training",
        ),
        ("rows", lambda t: changed(t, (3, 5), -1), "client 3 of Digits holds row -1"),
        ("rows", lambda t: t[:9], r"the rows of Digits are torch.int64 \(9, 113\)"),
        ("client_class", lambda t: t.roll(1), "client 0 of Digits stands for class 9, .* class 0"),
        ("client_class", lambda t: t[:9], r"client classes of Digits are torch.int64 \(9,\)"),
    ],
)
def test_a_table_is_not_believed(field, change, says):
    data = digits().load()
    with pytest.raises(UsageError, match=says):
        federation("fedavg", data=replace(data, **{field: change(getattr(data, field))}))


def test_a_client_without_examples_is_named_where_rows_are_dealt():
    with pytest.raises(UsageError, match="client 1 has no examples: give each of 3 clients"):
        padded([torch.arange(3), torch.arange(0), torch.arange(2)])


@pytest.mark.parametrize("what", ["training", "test"])
def test_auxiliary_inputs_are_nobodys(what):
    data = digits().load()
    theirs = getattr(data, SETS[what])
    some = Examples(theirs.stored[:20].float(), theirs.y[:20])  # in another precision, too
    x = torch.cat([data.aux.stored, some.stored.double()])
    mixed = Examples(x, torch.cat([data.aux.y, some.y]))
    with pytest.raises(UsageError, match=f"20 of 20 auxiliary inputs .* among its {what}"):
        federation("fedavg", data=replace(data, aux=some))
    with pytest.raises(UsageError, match=f"20 of 320 auxiliary inputs .* among its {what}"):
        federation("fedavg", data=replace(data, aux=mixed))
    one = Examples(x[:301], mixed.y[:301])  # a single one may be an accident of the set
    federation("fedavg", data=replace(data, aux=one))


def test_rows_of_a_few_categories_are_alike_by_nature():
    """Three independent draws of five coins: most rows of each are in the others."""
    dice = torch.Generator().manual_seed(0)

    def coins(n):
        x = torch.randint(2, (n, 5), generator=dice).double()
        return Examples(x, (x[:, 0] > 0).long())

    data = replace(digits().load(), train=coins(200), test=coins(100), aux=coins(60))
    assert data.shown_twice == {"training": (0, 60), "test": (0, 60)}
    assert torch.isin(marks(data.aux.stored), marks(data.train.stored)).float().mean() > 0.9


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32, torch.float64])
def test_marks_tell_inputs_apart_and_nothing_else(dtype):
    dice = torch.Generator().manual_seed(0)
    for width in (3, 5, 784):
        x = torch.randint(4, (400, 1, width), generator=dice).to(dtype)
        x[200:300] = x[:100]
        by_hand = {row.numpy().tobytes(): i for i, row in enumerate(x)}
        assert len(marks(x).unique()) == len(by_hand)
        assert torch.equal(marks(x)[200:300], marks(x)[:100])
        assert torch.equal(marks(x.transpose(0, 1).contiguous().transpose(0, 1)), marks(x))


@pytest.mark.parametrize("ends", [2, 9, 15])
def test_a_network_has_an_output_for_each_class(ends, monkeypatch):
    def net(shape, outputs, width):
        return nn.Sequential(nn.Flatten(), nn.Linear(64, ends))

    monkeypatch.setitem(MODELS, "mlp", net)
    with pytest.raises(UsageError, match=rf"gives \(1, {ends}\) of one input, .* 10 classes"):
        federation("fedavg")

    class Own(Defense):
        """A method that makes its network over knows what is to come out of it."""

        def module(self, module, facts):
            return net(None, 0, 0)

    federation(Own())


def test_pairs_are_of_test_rows_and_say_what_their_labels_say():
    data = digits().load()
    y = data.test.y
    i = torch.arange(9)
    pairs = torch.stack([i, i + 1, (y[i] == y[i + 1]).long()], 1)
    digits().examined(replace(data, pairs=pairs))
    for place, value in (((4, 0), 400), ((4, 1), -1), ((4, 2), 1 - int(pairs[4, 2]))):
        with pytest.raises(UsageError, match="pair 4 of Digits is"):
            digits().examined(replace(data, pairs=changed(pairs, place, value)))


def test_targets_go_with_tokens():
    data = digits().load()
    said = replace(data.train, targets=torch.zeros(len(data.train), 3).long())
    with pytest.raises(UsageError, match="training targets of Digits are there"):
        digits().examined(replace(data, train=said))


@pytest.mark.parametrize("name", ["digits", "digit-pairs"])
def test_what_is_built_in_passes(name):
    task = registry.load_plugin("tasks", name).build({}, "task")
    data = task.load()
    assert task.examined(data) is data
