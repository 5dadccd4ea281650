"""Several local steps of many clients at once, stacked or in threads, are those of the loop."""

import threading
from typing import ClassVar

import pytest
import torch
from helpers.federations import (
    FAST,
    digits,
    each_defense,
    federation,
    gap,
    method,
    run,
    short,
    uneven,
)
from torch import nn

from leakbench import Defense, Wrapper
from leakbench.base.errors import MethodError
from leakbench.base.tree import tmap
from leakbench.federation import choosing
from leakbench.federation.engines import LocalTraining
from leakbench.federation.federation import Federation
from leakbench.models.stages import Stages

TOLERANCE = 1e-9
UNEVEN = (40, 23, 17, 16, 31, 9, 12, 50, 28, 5)
EPOCHS = {"steps": 0, "epochs": 2, "optimizer": "sgd", "batch": 8}
ADAM = {"steps": 0, "epochs": 2, "optimizer": "adam", "lr": 0.01, "own_lr": 0.01, "batch": 8}
WAYS = ("stacked", "threads")


@pytest.fixture(scope="module")
def data():
    return digits().load()


@pytest.mark.parametrize("name", each_defense())
@pytest.mark.parametrize("way", WAYS)
def test_every_method_trains_as_in_the_loop(name, way, data):
    """By epochs, with batches and numbers of steps that differ from client to client."""
    how = {**short(name), **EPOCHS, "fraction": 0.6, "data": uneven(data, UNEVEN)}
    rounds = 2 if name == "fedaa" else 5  # its line search decides by the last bit
    slow, fast = (run(federation(name, engine, **how), rounds) for engine in ("loop", way))
    assert fast.phases["loss"] == way or "loss" in fast.fallbacks
    assert gap(slow, fast) < TOLERANCE


@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize("way", WAYS)
def test_adam_begins_anew_for_each_client_and_keeps_its_moments_apart(name, way, data):
    for optimizer in ("adam", "adam_each_step"):
        how = {**ADAM, "optimizer": optimizer, "data": uneven(data, UNEVEN)}
        slow, fast = (run(federation(name, engine, **how), 3) for engine in ("loop", way))
        assert fast.phases["loss"] == way
        assert gap(slow, fast) < 1e-6  # of a gradient of almost zero Adam makes a whole step


@pytest.mark.parametrize("way", WAYS)
def test_losses_and_variances_are_the_loops(way, data):
    how = {**EPOCHS, "data": uneven(data, UNEVEN), "fraction": 0.6}
    feds = [federation("fedprox", engine, **how) for engine in ("loop", way)]
    for fed in feds:
        fed.begin()
        fed.step()
    slow, fast = feds
    assert torch.allclose(slow.losses, fast.losses, rtol=0, atol=1e-12)
    assert len(set(fast.losses.tolist())) > 1
    assert torch.allclose(slow.variances["loss"], fast.variances["loss"], rtol=1e-9)


class Normed(Defense):
    """With BatchNorm, whose buffers a step writes in place; a part of it stays at its client."""

    def module(self, module, facts):
        first = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.Tanh())
        return Stages({"first": first, "head": nn.Linear(8, facts.dim)})

    def keeps(self, name, module):
        return name.endswith(("running_mean", "head.bias"))


@pytest.mark.parametrize("way", WAYS)
def test_batch_normalisation_counts_every_step_of_every_client(way, data):
    how = {"data": uneven(data, [2 * n for n in UNEVEN]), "fraction": 0.6}
    kind = Normed(steps=0, epochs=2, batch=7, fraction=0.6)
    del how["fraction"]
    slow, fast = (run(federation(kind, engine, **how), 4) for engine in ("loop", way))
    assert fast.phases["loss"] == way
    assert gap(slow, fast) < TOLERANCE
    assert float(fast.columns["kept"]["first.2.running_mean"].abs().max()) > 1e-3


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("model", ["lenet", "cnn", "resnet8"])
def test_networks_with_convolutions(way, model):
    task = type(digits())(model=model, width=4)
    feds = []
    for engine in ("loop", way):
        kind = method("fedavg", steps=3, batch=4)
        made = Federation(kind, task, task.load(), engine=engine, dtype=torch.float64)
        feds.append(run(made, 2))
    assert feds[1].phases["loss"] == way
    assert gap(*feds) < TOLERANCE


@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_nothing_falls_back_in_single_precision(name, dtype):
    """Layouts and low precision are those of float32 alone: tests in float64 do not see them."""
    for model, way in (("mlp", "stacked"), ("lenet", "stacked"), ("resnet8", "threads")):
        for steps, how in ((1, "fused"), (3, way)):
            task, kind = type(digits())(model=model, width=4), method(name, steps=steps, batch=4)
            fed = run(Federation(kind, task, task.load(), dtype=dtype), 1)
            assert fed.phases["loss"] == how
            assert fed.fallbacks == {}


class Looks(Wrapper):
    """What it makes of an update depends on all that it can see of its client."""

    def uplink(self, payload, me):
        seen = (*me.net.weights.values(), *me.own.values())
        size = sum(v.detach().abs().sum() for v in seen)
        return tmap(lambda v: v * (1 + 0.01 * size), payload)


@pytest.mark.parametrize("name", ["fedprox", "fedhide"])
@pytest.mark.parametrize("way", WAYS)
def test_a_wrapper_sees_the_trained_client(name, way):
    how = {**EPOCHS, "wrappers": [Looks()]}
    slow, fast = (run(federation(name, engine, **how), 2) for engine in ("loop", way))
    assert fast.phases["loss"] == way
    assert gap(slow, fast) < TOLERANCE
    plain = run(federation(name, "loop", **EPOCHS), 2)
    assert gap(slow, plain) > 1e-3


class Dice(Defense):
    """Draws from nobody's stream."""

    def loss(self, net, batch, me):
        return super().loss(net, batch, me) * torch.rand(())


def test_torchs_own_dice_are_thrown_in_the_loop_where_threads_would_share_them():
    slow, fast = (run(federation(Dice(steps=3), engine), 1) for engine in ("loop", "threads"))
    assert fast.phases["loss"] == "loop"
    assert "which thread is first" in fast.fallbacks["loss"]
    assert gap(slow, fast) == 0


class Crooked(Defense):
    """Fails at one client only."""

    failed: ClassVar[list[int]] = []

    def loss(self, net, batch, me):
        if int(me.index) == 7:
            raise MethodError("client 7 has fallen over.")
        return super().loss(net, batch, me)


def test_what_fails_in_a_thread_is_said_and_no_thread_goes_on():
    before = threading.active_count()
    threads = torch.get_num_threads()
    with pytest.raises(MethodError, match="client 7 has fallen over"):
        run(federation(Crooked(steps=3), "threads"), 1)
    assert threading.active_count() == before
    assert torch.get_num_threads() == threads


def test_a_clients_training_has_the_same_bits_on_any_number_of_cores():
    ended = []
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            ended.append(run(federation("fedprox", "threads", **EPOCHS), 2))
    finally:
        torch.set_num_threads(before)
    assert gap(ended[0], ended[1]) == gap(ended[0], ended[2]) == 0


@pytest.mark.parametrize("given", [1, 2, 16])
def test_a_sum_is_shared_out_where_it_is_large(given, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: given)
    assert choosing.shared_by(choosing.INPUTS, choosing.WEIGHTS) == 1
    assert choosing.shared_by(choosing.INPUTS + 1, 1) == given
    assert choosing.shared_by(1, choosing.WEIGHTS + 1) == given


def test_the_way_is_chosen_by_sizes(data, monkeypatch):
    def chosen(batch=8, clients=10):
        runner = federation("fedprox", steps=2, batch=batch).runner
        return choosing.choice(LocalTraining(runner, "loss", 1, {}), clients, data)

    assert chosen() == "stacked"
    assert chosen(clients=1) == "loop"
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    monkeypatch.setattr(choosing, "INPUTS", 8 * 64 - 1)
    assert chosen() == "threads"
    assert chosen(batch=7) == "stacked"
    assert chosen(clients=3) == "loop"  # one core would be idle
    monkeypatch.setattr(choosing, "WEIGHTS", 1)
    assert chosen(batch=7) == "threads"


def test_a_run_that_goes_on_trains_as_it_began(monkeypatch):
    """Whatever would be chosen by now, on another machine."""
    fed = federation("fedprox", **EPOCHS)
    fed.begin()
    fed.step()
    assert fed.phases["loss"] == "stacked"
    monkeypatch.setattr(choosing, "INPUTS", 0)
    fed.step()
    assert fed.phases["loss"] == "stacked"
    other = federation("fedprox", **EPOCHS)
    other.phases["loss"] = "threads"  # as a checkpoint has it
    other.begin()
    other.step()
    assert other.phases["loss"] == "threads"
