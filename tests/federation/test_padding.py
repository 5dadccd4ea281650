"""Batches of several sizes train side by side where no example meets another, and only there."""

from typing import ClassVar

import pytest
import torch
from helpers.federations import digits, federation, gap, method, run, short, uneven
from torch import nn

from defenses.fedavg import FedAvg
from leakbench import Batch
from leakbench.base import registry
from leakbench.federation import stacked
from leakbench.federation.federation import Federation
from leakbench.federation.padding import declares_loss
from leakbench.models.stages import Stages
from leakbench.tasks.digits import Digits

UNEVEN = (40, 23, 17, 16, 31, 9, 12, 50, 28, 5)
EPOCHS = {"steps": 0, "epochs": 2, "batch": 8}
TOLERANCE = 1e-9


@pytest.fixture
def groups(monkeypatch):
    """The batches of every vectorised step."""
    seen = []
    plain = stacked._Side.step

    def step(self, some, s, batch):
        seen.append(batch)
        return plain(self, some, s, batch)

    monkeypatch.setattr(stacked._Side, "step", step)
    return seen


@pytest.fixture(scope="module")
def data():
    return uneven(digits().load(), UNEVEN)


def padded(groups):
    return any(batch.own is not None for batch in groups)


def both(kind, data, rounds=3, task=None):
    """The same federation trained in a loop and stacked."""
    feds = []
    for engine in ("loop", "stacked"):
        how = {"engine": engine, "dtype": torch.float64, "seed": 1}
        feds.append(run(Federation(kind, task or digits(), data, **how), rounds))
    assert feds[1].phases["loss"] == "stacked"
    assert gap(*feds) < TOLERANCE


def declaring():
    """Methods whose own class says that its loss takes examples one by one."""
    names = registry.names("defenses")
    return [name for name in names if declares_loss(method(name, **short(name)), "loss")]


@pytest.mark.parametrize("name", declaring())
def test_one_step_of_all_whatever_their_sizes(name, data, groups):
    how = {**short(name), **EPOCHS, "optimizer": "sgd", "fraction": 1.0, "data": data}
    rounds = 1 if name == "fedaa" else 3  # its line search decides by the last bit
    slow, fast = (run(federation(name, engine, **how), rounds) for engine in ("loop", "stacked"))
    assert fast.phases["loss"] == "stacked"
    assert fast.runner.padded["loss"]
    assert gap(slow, fast) < TOLERANCE
    first = groups[: 2 * -(-max(UNEVEN) // EPOCHS["batch"])]
    assert padded(first)
    assert sum(len(b.x) == len(UNEVEN) for b in first) == 2  # the first step of each pass


def test_the_first_methods_say_so():
    assert {"fedavg", "fedprox", "moon", "fedaa", "scaffold"} <= {*declaring()}


class Centred(FedAvg):
    """Derived from one that says so; examples meet in a term once the model has moved."""

    def loss(self, net, batch, me):
        glob = net.features(batch.x, weights=me.inbox["model"]).mean(0)
        return super().loss(net, batch, me) + (net.features(batch.x).mean(0) - glob).square().sum()


class Long(FedAvg):
    """Derived, too: what it adds depends on how many examples a batch has."""

    def loss(self, net, batch, me):
        moved = sum((net.weights[k] - v).square().sum() for k, v in me.inbox["model"].items())
        return super().loss(net, batch, me) + moved / len(batch.y)


@pytest.mark.parametrize("kind", [Centred, Long])
def test_a_derived_class_speaks_for_itself(kind, data, groups):
    both(kind(**EPOCHS), data)
    assert not padded(groups)


def normed(last):
    """A method whose network norms what it has in common, in a branch that begins at nothing."""

    class Branch(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(8, track_running_stats=last != "gamma")
            nn.init.zeros_(self.norm.weight)

        def forward(self, x):
            return x + self.norm(x)

    class Centring(nn.Module):
        """Its output has nothing of the batch: what it writes down for later has."""

        def __init__(self):
            super().__init__()
            self.register_buffer("centre", torch.zeros(8))

        def forward(self, x):
            out = x - self.centre
            self.centre.mul_(0.5).add_(x.detach().mean(0).to(self.centre.dtype))
            return out

    class Normed(FedAvg):
        by_example: ClassVar[tuple[str, ...]] = ("loss",)

        def module(self, module, facts):
            layer = {"plain": nn.BatchNorm1d(8), "centre": Centring()}.get(last) or Branch()
            first = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), layer, nn.Tanh())
            return Stages({"first": first, "head": nn.Linear(8, facts.dim)})

    return Normed(**EPOCHS)


@pytest.mark.parametrize("last", ["plain", "gamma", "centre"])
def test_a_network_in_which_examples_meet_is_found(last, groups):
    counts = [8 * n + 3 + n % 3 for n in range(1, 11)]  # BatchNorm wants two at least
    both(normed(last), uneven(digits().load(), counts))
    assert not padded(groups)


class Faded(Digits):
    """Each image is darkened by a factor of its own."""

    def augment(self, x, rng):
        return x * rng.uniform("factor", x.shape[-4])[..., None, None, None]


def test_augmented_batches_are_not_padded(data, groups):
    both(FedAvg(**EPOCHS), data, task=Faded.build(digits().parameters(), "changed"))
    assert not padded(groups)


def test_the_mean_is_over_ones_own():
    x = torch.zeros(3, 1)
    each = torch.tensor([4.0, torch.nan, torch.inf], requires_grad=True)
    own = torch.tensor([True, False, False])
    value = Batch(x, x[:, 0].long(), own=own).mean(each)
    assert float(value.detach()) == 4.0
    (slope,) = torch.autograd.grad(value, each)
    assert slope.tolist() == [1.0, 0.0, 0.0]
    assert float(Batch(x, x[:, 0].long()).mean(torch.tensor([1.0, 2.0, 6.0]))) == 3.0
