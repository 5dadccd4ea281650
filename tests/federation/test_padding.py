"""Batches of several sizes train side by side where no example meets another, and only there."""

import pytest
import torch
from helpers.federations import digits, federation, gap, run, uneven
from torch import nn

from defenses.fedavg import FedAvg
from leakbench.base.errors import MethodError
from leakbench.federation import stacked
from leakbench.federation.federation import Federation
from leakbench.federation.padding import own_mean
from leakbench.models.stages import Stages
from leakbench.tasks.digits import Digits

UNEVEN = (40, 23, 17, 16, 31, 9, 12, 50, 28, 5)
EPOCHS = {"steps": 0, "epochs": 2, "batch": 8}
TOLERANCE = 1e-9


@pytest.fixture
def groups(monkeypatch):
    """The sizes of the batches of every vectorised step."""
    seen = []
    plain = stacked._Side.step

    def step(self, some, s, batch, sizes):
        seen.append(sizes)
        return plain(self, some, s, batch, sizes)

    monkeypatch.setattr(stacked._Side, "step", step)
    return seen


@pytest.fixture(scope="module")
def data():
    return uneven(digits().load(), UNEVEN)


def padded(groups):
    return any(len(set(sizes)) > 1 for sizes in groups)


def both(kind, data, rounds=3):
    """The same federation trained in a loop and stacked."""
    feds = []
    for engine in ("loop", "stacked"):
        feds.append(run(federation(kind(**EPOCHS), engine, data=data), rounds))
    assert feds[1].phases["loss"] == "stacked"
    assert gap(*feds) < TOLERANCE


@pytest.mark.parametrize("name", ["fedavg", "fedprox", "moon", "fedntd", "fedlc", "fedmix"])
def test_one_step_of_all_whatever_their_sizes(name, data, groups):
    fed = run(federation(name, "stacked", **EPOCHS, optimizer="sgd", data=data), 1)
    assert fed.phases["loss"] == "stacked"
    assert padded(groups)
    assert len(groups) == 2 * -(-max(UNEVEN) // EPOCHS["batch"])


class Contrast(FedAvg):
    """An example is measured by what its batch has in common, through which no gradient flows."""

    def loss(self, net, batch, me):
        values = super().loss(net, batch, me)
        return values * (1 + 1e-9 * (batch.y == batch.y[-1]).sum().to(values.dtype))


class Standing(FedAvg):
    """An example's weight depends on where a draw as long as the batch puts it."""

    def loss(self, net, batch, me):
        order = me.rng.permutation("order", len(batch.y)).to(batch.x.dtype)
        return super().loss(net, batch, me) * (1 + 1e-6 * order)


class Counting(FedAvg):
    """An example counts more in a larger batch."""

    def loss(self, net, batch, me):
        return super().loss(net, batch, me) * len(batch.y)


class Normed(FedAvg):
    """Examples meet in BatchNorm."""

    def module(self, module, facts):
        first = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.Tanh())
        return Stages({"first": first, "head": nn.Linear(8, facts.dim)})


@pytest.mark.parametrize("kind", [Contrast, Standing, Counting, Normed])
def test_where_examples_meet_only_those_of_one_size_step_together(kind, groups):
    counts = [8 * n + 3 + n % 3 for n in range(1, 11)]  # BatchNorm wants two at least
    both(kind, uneven(digits().load(), counts))
    assert not padded(groups)


class Later(FedAvg):
    """Examples meet from the second round on."""

    def loss(self, net, batch, me):
        values = super().loss(net, batch, me)
        return values if me.round == 1 else values * values.mean()


def test_it_is_tried_in_every_round(data, groups):
    fed = federation(Later(**EPOCHS), "stacked", data=data)
    fed.begin()
    fed.step()
    assert padded(groups)
    groups.clear()
    fed.step()
    assert not padded(groups)
    both(Later, data)


class Drawn(FedAvg):
    """Each example has a draw of its own."""

    def loss(self, net, batch, me):
        return super().loss(net, batch, me) * me.rng.uniform("weight", len(batch.y))


def test_a_draw_for_each_example_stays_its_own(data, groups):
    both(Drawn, data)
    assert padded(groups)


class Faded(Digits):
    """Each image is darkened by a factor of its own."""

    def augment(self, x, rng):
        return x * rng.uniform("factor", x.shape[-4])[..., None, None, None]


class Shuffled(Digits):
    """Each image is darkened by its place in an order as long as the batch."""

    def augment(self, x, rng):
        order = rng.permutation("order", x.shape[-4]).to(x.dtype)
        return x / (1 + order)[..., None, None, None]


@pytest.mark.parametrize(("kind", "pads"), [(Faded, True), (Shuffled, False)])
def test_what_an_example_is_changed_by_does_not_depend_on_the_padding(kind, pads, data, groups):
    feds = []
    for engine in ("loop", "stacked"):
        task = kind.build(digits().parameters(), "changed")
        made = Federation(FedAvg(**EPOCHS), task, data, engine=engine, dtype=torch.float64)
        feds.append(run(made, 2))
    assert padded(groups) == pads
    assert gap(*feds) < TOLERANCE


def test_the_mean_is_over_ones_own():
    values = torch.tensor([[1.0, 2.0, 3.0], [4.0, torch.nan, torch.inf]])
    assert own_mean(values, [3, 1]).tolist() == [2.0, 4.0]
    assert own_mean(values[:, 0], [3, 1]).tolist() == [1.0, 4.0]


class Wide(FedAvg):
    """A loss of a shape that means nothing."""

    def loss(self, net, batch, me):
        return super().loss(net, batch, me)[:, None]


@pytest.mark.parametrize("engine", ["loop", "stacked", "threads", "auto"])
def test_a_loss_of_another_shape_is_refused(engine, data):
    with pytest.raises(MethodError, match=r"Wide.loss returned a tensor of shape \(\d+, 1\)"):
        run(federation(Wide(**EPOCHS), engine, data=data), 1)
