"""A network that brings numbers of its own begins with them; the rest is drawn as ever."""

from __future__ import annotations

import os
import random

import numpy as np
import pytest
import torch
from helpers.federations import digits, federation, method
from helpers.layers import Tokens
from torch import nn
from torch.nn.utils import parametrizations

import leakbench
from leakbench import Defense
from leakbench.base import dice
from leakbench.base.errors import UsageError
from leakbench.base.streams import shared
from leakbench.federation.net import copied
from leakbench.federation.network import begun, built, own_numbers, reaches, thrower, unsteady
from leakbench.models.networks import initialise
from leakbench.models.stages import Stages


def of(make):
    class Brought(Defense):
        def module(self, module, facts):
            return make(facts.dim)

    return federation(Brought(), seed=5)


def pretrained(out):
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.Tanh(), nn.Linear(8, out))
    net[1].weight.data = torch.linspace(-1, 1, 512).view(8, 64)
    return net


def test_a_plain_module_begins_with_what_it_brings_and_with_throws_of_the_seed():
    model = of(pretrained).model
    assert torch.equal(model["1.weight"], pretrained(10)[1].weight.double())
    with dice.lent(99):
        again = of(pretrained).model
    assert all(torch.equal(v, again[k]) for k, v in model.items())


def test_tokens_and_positions_keep_their_scale_in_stages_too():
    def vit(out):
        return Stages({"all": Tokens(out)})

    model = of(vit).model
    assert torch.equal(model["all.token"], torch.full((1, 1, 8), 0.02).double())
    assert 0.005 < float(model["all.position"].std()) < 0.05
    assert float(model["all.last.weight"].abs().max()) > 0.3  # drawn, as ever


def test_weights_that_are_set_within_stages_are_kept_and_the_others_drawn():
    def staged(out):
        net = pretrained(out)
        return Stages({"body": net[:3], "head": net[3]})

    fed, plain = (
        of(staged),
        of(lambda out: Stages({"body": nn.Flatten(), "head": nn.Linear(64, out)})),
    )
    assert torch.equal(fed.model["body.1.weight"], pretrained(10)[1].weight.double())
    assert fed.own == {"body.1.weight"}
    assert plain.own == set()
    assert begun(fed.module, fed.own) == {"fresh": 8 + 90, "own": 512, "read": 0}


def test_one_number_for_all_is_a_start_that_an_author_set_but_for_a_normalisations():
    def staged(out):
        body, norm, head = nn.Linear(64, 8), nn.GroupNorm(2, 8), nn.Linear(8, out)
        body.bias.data.fill_(0.5)
        norm.bias.data = torch.linspace(-1, 1, 8)
        return Stages({"body": nn.Sequential(nn.Flatten(), body, norm), "head": head})

    assert of(staged).own == {"body.1.bias", "body.2.bias"}


def test_a_built_in_network_is_drawn_as_it_was():
    """As by hand: uniform numbers of the stream "init"."""
    task, kind = digits(), method("fedavg")
    fed = federation("fedavg", seed=5)
    module = task.module(task.facts(kind)).double()
    drawn = initialise(module, shared(5, "init", torch.float64))
    assert fed.model.keys() == drawn.keys()
    assert all(torch.equal(v, drawn[k]) for k, v in fed.model.items())
    assert fed.own == set()


def test_a_network_is_made_without_a_throw_of_the_processs_dice():
    task = digits()
    facts, before = task.facts(Defense()), dice.state()
    one, same, other = (built(task, Defense(), facts, s) for s in (1, 1, 2))
    assert dice.state() == before
    first = [next(net.parameters()) for net in (one, same, other)]
    assert torch.equal(first[0], first[1])
    assert not torch.equal(first[0], first[2])
    assert own_numbers(one, one) != own_numbers(one, other)  # equal dice would tell nothing


@pytest.mark.parametrize("on", [True, False])
def test_the_layer_that_throws_is_named(on):
    net = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Dropout(0.5))
    mean = net[1].running_mean.clone()
    assert thrower(net, torch.zeros(2, 64), on) == ("2" if on else None)
    assert torch.equal(net[1].running_mean, mean)
    assert thrower(net[:2], torch.zeros(2, 64), on) is None

    class Own(nn.Module):
        def forward(self, x):
            return x * random.random()

    assert thrower(Own(), torch.zeros(2, 64), on) == ""


def test_layers_are_told_the_mode_as_in_anybodys_loop():
    """All of them, and one whose ``train`` says no stays in evaluation."""
    seen = []

    class Kept(nn.Module):
        def train(self, mode=True):
            return super().train(False)

        def forward(self, x):
            seen.append(("kept", self.training))
            return x

    class Told(nn.Module):
        def forward(self, x):
            seen.append(("told", self.training))
            return x

    fed = of(lambda out: nn.Sequential(nn.Flatten(), Kept(), Told(), nn.Linear(64, out)))
    seen.clear()
    fed.begin()
    fed.step()
    assert set(seen) == {("kept", False), ("told", True)}
    assert not any(m.training for m in fed.module.modules())


def own_generator():
    held = np.random.default_rng(0)
    return lambda x: x * (1 + held.random())


def of_the_system():
    return lambda x: x + int.from_bytes(os.urandom(2), "big")


def of_torch():
    held = torch.Generator().manual_seed(0)
    return lambda x: x + torch.rand(x.shape, generator=held)


def counted():
    calls = []

    def call(x):
        calls.append(x)
        return x * len(calls)

    return call


@pytest.mark.parametrize("make", [own_generator, of_the_system, of_torch, counted])
def test_dice_of_a_layers_own_and_what_it_counts_are_refused_by_its_name(make):
    """Nobody can begin them anew: two trainings with one seed would differ, and two engines."""

    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.call = make()

        def forward(self, x):
            return self.call(x)

    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), Own(), nn.Dropout(0.5))
    assert unsteady(net, torch.ones(2, 64)) == "2"
    assert thrower(net[:3], torch.ones(2, 64)) == "2"
    assert unsteady(nn.Sequential(*net[:2], net[3]), torch.ones(2, 64)) is None  # torch's own
    with pytest.raises(UsageError, match=r"the layer '0.2' gives something else when"):
        of(lambda outputs: nn.Sequential(net[:3], nn.Linear(64, outputs)))


def test_what_a_layer_keeps_in_buffers_is_steady():
    net = nn.Sequential(
        nn.Flatten(), parametrizations.spectral_norm(nn.Linear(64, 8)), nn.BatchNorm1d(8)
    )
    before = {k: v.clone() for k, v in net.state_dict().items()}
    assert unsteady(net, torch.rand(4, 64)) is None
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())


class Keeps(nn.Module):
    """A layer that keeps what it made of its newest input."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 2)
        self.seen = []

    def forward(self, x):
        self.newest = self.inner(x)
        self.seen = [self.newest.sum()]
        return self.newest


@pytest.mark.filterwarnings("ignore:.*weight_norm. is deprecated:FutureWarning")
@pytest.mark.parametrize(
    "make", [lambda: nn.utils.weight_norm(nn.Linear(3, 2)), Keeps], ids=["weight_norm", "keeps"]
)
def test_a_network_is_copied_after_it_was_called(make):
    net, x = make(), torch.rand(4, 3)
    out = net(x)
    made = copied(net)
    assert torch.equal(made(x), out)
    with torch.no_grad():
        for p in made.parameters():
            p.mul_(2)
    assert torch.equal(net(x), out)  # and has numbers of its own
    out.sum().backward()  # the original is as it was
    assert thrower(net, x) is None


class Looks(nn.Module):
    """Tokens, looked up."""

    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(9, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.table(x.long()).mean(1))


class Detaches(nn.Sequential):
    """Two layers, of which the second trains alone."""

    def forward(self, x):
        return self[1](self[0](x).detach())


def test_whether_a_gradient_passes_through_a_network():
    x, linear = torch.rand(2, 3), nn.Linear(3, 3)
    assert reaches(linear, x)
    assert reaches(nn.Sequential(linear, nn.Tanh()), x)
    for net in (Looks(), Detaches(linear, linear)):
        assert not reaches(net, x)
        assert not reaches(net.requires_grad_(False), x)
        seen = leakbench.Transcript(net, nn.functional.cross_entropy, shape=(3,), signal=True)
        gives = {k: torch.ones_like(v) for k, v in net.named_parameters()}
        seen.add("update", gives, labels=[1])
        with pytest.raises(UsageError, match=r"looks them up, as nn\.Embedding does, or"):
            seen.attack("gradient_inversion", message="update")
