"""Who changes a gradient on its way is trained client by client: side by side it is everybody's."""

import pytest
import torch
from helpers.federations import digits, gap, run
from torch import nn

from leakbench import Defense
from leakbench.federation.federation import Federation
from leakbench.federation.hooks import no_hooks
from leakbench.federation.net import Net

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


KINDS = (OfWeights, OfOutputs, OfALayer, ByADerivative)


def trained(kind, engine, steps):
    how = {"engine": engine, "dtype": torch.float64, "seed": 1}
    task = digits()
    method = kind(steps=steps, batch=8, lr=0.05)
    return run(Federation(method, task, task.load(), **how), 3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("engine", "steps"), [("fused", 1), ("stacked", 1), ("stacked", 3), ("threads", 3), ("auto", 1)]
)
def test_it_is_what_the_loop_trains(kind, engine, steps):
    plain, fed = trained(kind, "loop", steps), trained(kind, engine, steps)
    assert gap(plain, fed) < TOLERANCE
    # A derivative of its own is taken of each client's weights where each has its own.
    together = kind is ByADerivative and engine == "stacked"
    if engine != "threads":
        assert ("loss" in fed.fallbacks) is not together


@pytest.mark.parametrize("kind", KINDS)
def test_without_the_hook_they_would_have_trained_something_else(kind):
    """So the tests above can fail."""
    assert gap(trained(kind, "loop", 1), trained(Defense, "loop", 1)) > 1e-3


def test_torch_is_as_it_was_after_a_loss_that_fails():
    hook, attribute = torch.Tensor.register_hook, torch.Tensor.requires_grad
    with pytest.raises(ZeroDivisionError), no_hooks(nn.Linear(1, 1)):
        raise ZeroDivisionError
    assert torch.Tensor.register_hook is hook
    assert torch.Tensor.requires_grad is attribute
    leaf = torch.ones(1)
    with no_hooks(nn.Linear(1, 1)):
        leaf.requires_grad = True
        assert leaf.requires_grad
