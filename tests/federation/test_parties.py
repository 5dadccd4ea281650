"""A network that was given too few tensors is refused: torch would fill in its own, random."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from leakbench.base.errors import MethodError
from leakbench.federation.net import Net
from leakbench.models.stages import Stages


def made():
    module = Stages({"first": nn.Linear(3, 4), "mid": nn.BatchNorm1d(4), "head": nn.Linear(4, 2)})
    module.put_aside("guess", nn.Linear(4, 1))
    return module, dict(module.state_dict()), torch.zeros(2, 3)


@pytest.mark.parametrize("name", ["first.weight", "mid.running_mean", "head.bias"])
def test_a_tensor_that_is_missing_is_named(name):
    module, weights, x = made()
    weights.pop(name)
    with pytest.raises(MethodError, match=f"1 of its tensors .{name}"):
        Net(module, weights)(x)


def test_only_what_x_passes_through_must_be_there():
    module, weights, x = made()
    first = {k: v for k, v in weights.items() if k.startswith("first")}
    z = Net(module, first)(x, stop="first")
    assert z.shape == (2, 4)
    with pytest.raises(MethodError, match="mid"):
        Net(module, first)(x, stop="mid")
    rest = {k: v for k, v in weights.items() if not k.startswith(("first", "side"))}
    assert Net(module, rest)(z, start="first").shape == (2, 2)
    with pytest.raises(MethodError, match="head"):
        Net(module, first)(z, start="mid")


def test_a_head_beside_the_stages_needs_its_own_alone():
    module, weights, _ = made()
    side = {k: v for k, v in weights.items() if k.startswith("side")}
    assert Net(module, side).side("guess", torch.zeros(2, 4)).shape == (2, 1)
    side.pop("side.guess.bias")
    with pytest.raises(MethodError, match=r"side\.guess\.bias"):
        Net(module, side).side("guess", torch.zeros(2, 4))


def test_a_module_without_stages_needs_all_of_it():
    module = nn.Linear(3, 2)
    with pytest.raises(MethodError, match="bias"):
        Net(module, {"weight": module.weight})(torch.zeros(1, 3))


def test_another_models_weights_count_too():
    module, weights, x = made()
    assert Net(module, {})(x, weights=weights).shape == (2, 2)
