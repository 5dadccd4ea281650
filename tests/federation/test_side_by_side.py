"""What cannot be done for clients side by side is done one by one: the record is the loop's."""

import copy
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from helpers.federations import digits, gap, run
from safetensors.torch import load_file
from torch import nn

from leakbench import Defense
from leakbench.base.errors import UsageError
from leakbench.federation import fused
from leakbench.federation.federation import Federation
from leakbench.federation.net import Net
from leakbench.federation.side_by_side import no_hooks, own_unwritten
from leakbench.record.policy import Policy
from leakbench.record.recorder import Recorder

TOLERANCE = 1e-9


def unit(gradient):
    """Of two clients' sum it is not the sum of theirs."""
    return gradient / gradient.norm()


class OfWeights(Defense):
    """Clips the gradient of every weight that says that it has one."""

    def loss(self, net, batch, me):
        for weight in net.weights.values():
            if weight.requires_grad:
                weight.register_hook(unit)
        return super().loss(net, batch, me)


class OfOutputs(Defense):
    """Clips the gradient of the network's output."""

    def loss(self, net, batch, me):
        z = net(batch.x)
        z.register_hook(unit)
        return batch.mean(torch.nn.functional.cross_entropy(z, batch.y, reduction="none"))


class OfALayer(Defense):
    """Has a network of which a layer clips its gradient."""

    def module(self, module, facts):
        def clipped(layer, given, came):
            return tuple(None if g is None else unit(g) for g in given)

        *_, layer = [m for m in module.modules() if isinstance(m, nn.Linear)]
        layer.register_full_backward_hook(clipped)
        return module


class Clipped(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, gradient):
        return unit(gradient)


class ByADerivative(Defense):
    """The same as a derivative of its own."""

    def loss(self, net, batch, me):
        weights = {k: Clipped.apply(v) for k, v in net.weights.items()}
        return super().loss(Net(net.module, weights, net.low), batch, me)


class BehindItsOutputs(Defense):
    """Clips by a hook on what made the output, where something did."""

    def loss(self, net, batch, me):
        z = net(batch.x)
        if z.grad_fn is not None:
            z.grad_fn.register_prehook(lambda came: tuple(unit(g) for g in came))
        return batch.mean(torch.nn.functional.cross_entropy(z, batch.y, reduction="none"))


class OfLeaves(Defense):
    """Asks which weights are leaves."""

    def loss(self, net, batch, me):
        for weight in net.weights.values():
            if weight.is_leaf and weight.requires_grad:
                weight.register_hook(unit)
        return super().loss(net, batch, me)


class OfItsBase(Defense):
    """Asks past ``torch.Tensor`` whether there is a gradient."""

    def loss(self, net, batch, me):
        z = net(batch.x)
        if torch._C.TensorBase.requires_grad.__get__(z):
            z = 2 * z
        return batch.mean(torch.nn.functional.cross_entropy(z, batch.y, reduction="none"))


class ByACopy(Defense):
    """Has torch ask which weights are leaves: only these can be copied, without their gradient."""

    def loss(self, net, batch, me):
        moved = sum((v - 2 * copy.deepcopy(v)).square().sum() for v in net.weights.values())
        return super().loss(net, batch, me) + moved


class Remembering(Defense):
    """Keeps a running mean of its loss from step to step, as a baseline."""

    def loss(self, net, batch, me):
        value = super().loss(net, batch, me)
        held = me.state.get("mean", torch.zeros_like(value))
        me.state["mean"] = 0.5 * held + 0.5 * value.detach()
        return value * (1 + me.state["mean"])


class Anchored(Defense):
    """Stays near where it was at its first step, which it hangs on the client."""

    def loss(self, net, batch, me):
        if not hasattr(me, "first"):
            me.first = {k: v.detach() + 0.1 for k, v in net.weights.items()}
        moved = sum((v - me.first[k]).square().sum() for k, v in net.weights.items())
        return super().loss(net, batch, me) + moved


class Clamped(Defense):
    """Clamps its weights before each step, past torch's count of what is written."""

    def loss(self, net, batch, me):
        for weight in net.weights.values():
            weight.data.clamp_(-0.05, 0.05)
        return super().loss(net, batch, me)


class Shrunk(Defense):
    """The same with what is another thing when it is done twice."""

    def loss(self, net, batch, me):
        for weight in net.weights.values():
            weight.data.mul_(0.9)
        return super().loss(net, batch, me)


class Compressing(Defense):
    """Keeps for its backward pass a rounded copy of what went forward."""

    def loss(self, net, batch, me):
        def pack(kept):
            return (kept * 4 / kept.abs().max()).round() if kept.is_floating_point() else kept

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda kept: kept):
            return super().loss(net, batch, me)


KINDS = (OfWeights, OfOutputs, OfALayer, ByADerivative, BehindItsOutputs, OfLeaves)
KINDS += (OfItsBase, ByACopy)
OTHERS = (Remembering, Anchored, Clamped, Shrunk, Compressing)
WAYS = [("fused", 1), ("stacked", 1), ("stacked", 3), ("threads", 3), ("auto", 1), ("auto", 3)]
# What works side by side: a derivative of its own where each has weights of its own, and what is
# remembered for the next step where there is none.
TOGETHER = {(ByADerivative, "stacked"), (Remembering, "fused"), (Anchored, "fused")}
TOGETHER |= {(Clamped, "fused"), (Shrunk, "fused")}  # one after another no longer: below


def trained(kind, engine, steps, folder=None):
    how = {"engine": engine, "dtype": torch.float64, "seed": 1}
    task = digits()
    method = kind(steps=steps, batch=8, lr=0.05)
    if folder:
        how["recorder"] = Recorder(folder, 3, Policy())
    return run(Federation(method, task, task.load(), **how), 3)


def apart(one, other):
    """The largest difference between two records."""
    files = sorted(f.relative_to(one) for f in one.rglob("*.safetensors"))
    assert files == sorted(f.relative_to(other) for f in other.rglob("*.safetensors"))
    most = 0.0
    for file in files:
        a, b = load_file(one / file), load_file(other / file)
        assert a.keys() == b.keys()
        for name, value in a.items():
            if value.numel():
                most = max(most, float((value.double() - b[name].double()).abs().max()))
    assert files
    return most


@pytest.mark.parametrize("kind", [*KINDS, *OTHERS])
@pytest.mark.parametrize(("engine", "steps"), WAYS)
def test_it_is_what_the_loop_trains_and_records(kind, engine, steps, tmp_path):
    plain = trained(kind, "loop", steps, tmp_path / "loop")
    fed = trained(kind, engine, steps, tmp_path / "fast")
    assert gap(plain, fed) < TOLERANCE
    assert apart(tmp_path / "loop", tmp_path / "fast") < TOLERANCE
    if engine in ("fused", "stacked"):
        assert ("loss" in fed.fallbacks) is ((kind, engine) not in TOGETHER)


@pytest.mark.parametrize("kind", [Clamped, Shrunk])
@pytest.mark.parametrize("group", [1, 24])  # images: those of one client, or of three
def test_who_writes_into_weights_does_not_write_into_the_next_clients(
    kind, group, tmp_path, monkeypatch
):
    monkeypatch.setattr(fused, "GROUP", group * 64)
    trained(kind, "loop", 1, tmp_path / "loop")
    fed = trained(kind, "fused", 1, tmp_path / "fast")
    assert "writes into" in fed.fallbacks["loss"]
    assert apart(tmp_path / "loop", tmp_path / "fast") < TOLERANCE


def test_weights_that_are_no_numbers_any_more_were_not_written_into():
    lost = {"w": torch.tensor([torch.nan, 1.0])}
    own_unwritten(lost, {"w": lost["w"].clone()})
    with pytest.raises(RuntimeError, match="writes into 'w'"):
        own_unwritten(lost, {"w": torch.tensor([torch.nan, 2.0])})


@pytest.mark.parametrize("kind", [*KINDS, *OTHERS])
def test_without_it_they_would_have_trained_something_else(kind):
    """So the tests above can fail."""
    assert gap(trained(kind, "loop", 3), trained(Defense, "loop", 3)) > 1e-3


def as_it_is():
    names = ("register_hook", "requires_grad", "is_leaf", "grad_fn")
    return [getattr(torch.Tensor, name) for name in names]


def test_nothing_of_torch_is_replaced_while_a_loss_is_watched_or_after_it_failed():
    before = as_it_is()
    leaf = torch.ones(1)
    with pytest.raises(ZeroDivisionError), no_hooks(nn.Linear(1, 1)):
        raise ZeroDivisionError
    leaf.clone().requires_grad_().register_hook(print)
    with no_hooks(nn.Linear(1, 1)), no_hooks(nn.Linear(1, 1)):
        assert as_it_is() == before
        leaf.requires_grad = True
        assert leaf.requires_grad
        with pytest.raises(RuntimeError, match="hangs a hook on a gradient"):
            leaf.register_hook(print)
    assert as_it_is() == before
    leaf.register_hook(print)


def test_other_threads_go_on_as_they_like():
    before, inside, done = as_it_is(), threading.Event(), threading.Event()

    def hook():
        inside.wait(60)
        seen = []
        value = (leaf := torch.ones(1, requires_grad=True)) * 2
        assert value.requires_grad
        assert value.grad_fn is not None
        value.register_hook(seen.append)
        value.sum().backward()
        done.set()
        return seen, leaf.grad

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(hook)
        with no_hooks(nn.Linear(1, 1)):
            inside.set()
            assert done.wait(60)
    assert [len(v) for v in other.result()] == [1, 1]
    assert as_it_is() == before


def test_federations_side_by_side_in_threads_train_as_alone():
    alone = trained(Defense, "stacked", 3)
    before = as_it_is()
    with ThreadPoolExecutor(3) as pool:
        feds = list(pool.map(lambda _: trained(Defense, "stacked", 3), range(3)))
    for fed in feds:
        assert gap(alone, fed) == 0
    assert as_it_is() == before


def test_a_layer_that_writes_elsewhere_what_it_sees_is_not_run_in_threads():
    seen = {}

    class Watching(Defense):
        def module(self, module, facts):
            *_, layer = [m for m in module.modules() if isinstance(m, nn.Linear)]
            layer.register_forward_hook(lambda m, given, out: seen.update(z=given[0]))
            return module

        def loss(self, net, batch, me):
            value = super().loss(net, batch, me)
            return value + batch.mean(seen["z"].square().mean(1))

    plain, fed = (trained(Watching, engine, 3) for engine in ("loop", "threads"))
    assert fed.phases["loss"] == "loop"
    assert gap(plain, fed) == 0


def test_a_layer_that_counts_its_calls_is_refused_by_its_name():
    class Counting(Defense):
        def module(self, module, facts):
            class Fading(nn.Linear):
                calls = 0

                def forward(self, x):
                    self.calls += 1
                    return super().forward(x) / (1 + 0.1 * self.calls)

            name = module.names[-1]
            layer = module.get_submodule(name)
            module.set_submodule(name, Fading(layer.in_features, layer.out_features))
            return module

    with pytest.raises(UsageError, match="the layer 'head' gives something else when"):
        trained(Counting, "loop", 1)
