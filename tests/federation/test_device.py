"""A round stays on its device and waits for none of its numbers, which are those of a processor."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from helpers.federations import (
    digits,
    each_defense,
    federation,
    method,
    run,
    short,
    uneven,
    wrapper,
)
from helpers.one_device import DEVICE, MixedDevicesError, OneDevice
from helpers.other_device import other_device

from leakbench import Defense
from leakbench.base import registry
from leakbench.base.streams import Rng
from leakbench.base.tree import flat
from leakbench.federation.evaluate import Evaluations
from leakbench.federation.utility import METRICS

UNEVEN = (40, 23, 17, 16, 31, 9, 12, 50, 28, 5)
# What they send has as many rows as a client has classes, and that is a number.
WAITS = {"fedaa", "fedpcl", "fedproto"}


@pytest.fixture(autouse=True)
def no_numbers_to_compare(monkeypatch):
    """Whether batches may be padded is asked once in a training, and here nothing is answered."""
    monkeypatch.setattr("leakbench.federation.stacked.paddable", lambda *_: True)


def stepped(what, engine="auto", **how):
    """Two rounds on the device without numbers."""
    fed = federation(what, engine, device=DEVICE, **how)
    fed.begin()
    with OneDevice():
        fed.step()
        fed.step()
    return fed


@pytest.mark.parametrize("name", each_defense())
def test_no_round_waits_for_its_device(name):
    how = {**short(name), "data": uneven(digits().load(), UNEVEN)}
    if name in WAITS:
        with pytest.raises(NotImplementedError, match="bincount"):
            stepped(name, **how)
        return
    fed = stepped(name, **how)
    here = federation(name, **how)
    here.begin()
    here.step()
    # A fallback there would be an operation that the device has not.
    assert (fed.phases, fed.fallbacks) == (here.phases, here.fallbacks)


@pytest.mark.parametrize("engine", ["loop", "stacked", "fused"])
def test_no_engine_waits_for_its_device(engine):
    how = {"fraction": 0.6, "select": "random"}
    assert stepped("fedavg", engine, **how).phases["loss"] == engine


@pytest.mark.parametrize("name", registry.names("wrappers"))
def test_no_wrapper_waits_for_its_device(name):
    stepped("fedprox", wrappers=[wrapper(name)], epochs=1, steps=0)


def test_one_batch_of_all_clients_is_made_on_a_device(monkeypatch):
    """On a processor groups of them are faster."""
    monkeypatch.setattr("leakbench.federation.fused.GROUP", 1)
    seen = []

    class Seen(Defense):
        fusible = True

        def loss(self, net, batch, me):
            seen.append(batch.x.shape)
            return super().loss(net, batch, me)

    stepped(Seen(**{k: method("fedavg").model_dump()[k] for k in ("steps", "batch")}))
    assert len(seen) == 2  # a round


@pytest.mark.parametrize("task", ["cifar10", "cifar100"])
def test_images_are_augmented_on_the_device(task):
    party = torch.arange(3, device=DEVICE)
    made = registry.load_plugin("tasks", task).build({}, task)
    with OneDevice():
        x = torch.rand(3, 4, 3, 32, 32, device=DEVICE)
        dice = Rng(0, "augment", party, torch.float32, round=1).at("0", 1)
        assert made.augment(x, dice).shape == x.shape


class Waits(Defense):
    """Asks for a number."""

    def loss(self, net, batch, me):
        loss = super().loss(net, batch, me).mean()
        return loss * float(loss.detach())


class Elsewhere(Defense):
    """Chooses rows by a tensor of the host."""

    def loss(self, net, batch, me):
        return net(batch.x)[torch.tensor([0, 1])].square().mean()


def test_a_method_that_waits_or_mixes_devices_is_found():
    with pytest.raises(RuntimeError, match="meta"):
        stepped(Waits(), "loop")
    with pytest.raises(MixedDevicesError, match="cpu"):
        stepped(Elsewhere(), "loop")


def measured(what, **how):
    """The state after a whole run of one round, and every number of its evaluation."""
    fed, found = run(federation(what, **how), 1), Evaluations()
    found.begin(fed)
    found.add(fed)
    state = {k: v.cpu() for k, v in flat(fed.snapshot()).items()}
    return state, found.scores, {(t, name): value for t, name, value in found.diagnostics}


@pytest.mark.parametrize("name", each_defense())
def test_a_round_gives_the_same_numbers_there(name):
    how = {**short(name), "data": uneven(digits().load(), UNEVEN)}
    with other_device():
        there = measured(name, device=DEVICE, **how)
    torch.testing.assert_close(there, measured(name, **how), equal_nan=True)


def answered(metric, data, answer):
    """What a utility metric makes of answers and without any."""
    scores = METRICS[metric].together(answer[None], data, None)
    return scores.cpu(), METRICS[metric].untaught(data)


@pytest.mark.parametrize("metric", METRICS)
def test_a_utility_is_the_same_there(metric):
    dice, data = torch.Generator().manual_seed(0), digits().load()
    if metric == "bleu4":
        said = torch.randint(4, 7, (6, 12), generator=dice)
        data = SimpleNamespace(test=SimpleNamespace(targets=said.view(6, 2, 6)))
        answer = torch.randint(4, 7, (6, 6), generator=dice)
    else:
        pairs = torch.randint(len(data.test), (200, 2), generator=dice)
        same = (data.test.y[pairs[:, 0]] == data.test.y[pairs[:, 1]]).long()
        data = replace(data, pairs=torch.cat([pairs, same[:, None]], 1))
        answer = torch.randn(len(data.test), 10, generator=dice, dtype=torch.float64)
    here = answered(metric, data, answer)
    with other_device():
        if metric == "bleu4":
            data = SimpleNamespace(test=SimpleNamespace(targets=data.test.targets.to(DEVICE)))
        else:
            data = data.to(DEVICE, torch.float64)
        there = answered(metric, data, answer.to(DEVICE))
    torch.testing.assert_close(there, here)
