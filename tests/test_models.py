"""Networks: their shapes and sizes, cuts at every stage, no biases where none may be, the same under vmap as one by one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from leakbench.models import MODELS, initialise
from leakbench.resnets import group_norm
from leakbench.streams import shared

# name, shape, out, width: the sizes that the tasks use, and small ones
NETS = [
    ("lenet", (1, 8, 16), 7, 5),
    ("mlp", (1, 8, 16), 7, 5),
    ("resnet8", (3, 32, 32), 10, 4),
    ("resnet8", (1, 7, 9), 3, 5),
    ("resnet18", (3, 32, 32), 10, 4),
    ("resnet32", (3, 32, 32), 10, 4),
    ("svdd_lenet", (1, 28, 28), 32, 8),
    ("svdd_lenet", (1, 8, 8), 10, 8),
    ("svdd_lenet", (3, 32, 32), 10, 4),
    ("svdd_lenet", (3, 7, 9), 10, 3),
]


def net(name, shape, out, width):
    made = MODELS[name](shape, out, width).double()
    weights = initialise(made, shared(0, "init"))
    made.load_state_dict(weights)
    return made


def size(made):
    return sum(p.numel() for p in made.parameters())


def test_every_model_is_tried_here():
    assert {n for n, *_ in NETS} == set(MODELS)


@pytest.mark.parametrize("made", NETS, ids=str)
def test_models_can_be_cut_at_every_stage(made):
    _, shape, out, _ = made
    made = net(*made)
    x = torch.rand(3, *shape, dtype=torch.float64)
    whole = made(x)
    assert whole.shape == (3, out)
    stages = [n for n, _ in made.named_children()]
    assert stages[-1] == "head"
    for stage in ("input", *stages):
        assert torch.equal(made(made(x, stop=stage), start=stage), whole)
    assert torch.equal(made(x, stop="input"), x)


def test_stages_have_the_names_and_shapes_that_the_docstrings_give():
    x = torch.rand(2, 3, 32, 32, dtype=torch.float64)
    for name, width, groups in (("resnet8", 16, 3), ("resnet32", 16, 3), ("resnet18", 8, 4)):
        made = net(name, (3, 32, 32), 10, width)
        assert [n for n, _ in made.named_children()] == ["stem", *(f"group{g + 1}" for g in range(groups)), "head"]
        assert made(x, stop="stem").shape == (2, width, 32, 32)
        for g in range(groups):
            assert made(x, stop=f"group{g + 1}").shape == (2, width * 2**g, 32 // 2**g, 32 // 2**g)


def test_the_number_of_layers_is_in_the_name():
    for name, layers in (("resnet8", 8), ("resnet18", 18), ("resnet32", 32)):
        weighted = [m for m in MODELS[name]((3, 32, 32), 10, 4).modules() if isinstance(m, nn.Linear | nn.Conv2d)]
        assert len([m for m in weighted if not (isinstance(m, nn.Conv2d) and m.kernel_size == (1, 1))]) == layers


def test_parameter_counts_worked_out_by_hand():
    # stem 3*16*9 + 2*16; groups of two 3x3 convolutions, GroupNorm 2 per channel, a projection where channels double; head
    group1 = 2 * 16 * 16 * 9 + 2 * 32
    group2 = 16 * 32 * 9 + 32 * 32 * 9 + 16 * 32 + 3 * 64
    group3 = 32 * 64 * 9 + 64 * 64 * 9 + 32 * 64 + 3 * 128
    assert size(MODELS["resnet8"]((3, 32, 32), 10, 16)) == 3 * 16 * 9 + 32 + group1 + group2 + group3 + 64 * 10 + 10
    more = 4 * (2 * 16 * 16 * 9 + 64 + 2 * 32 * 32 * 9 + 128 + 2 * 64 * 64 * 9 + 256)  # four further blocks in each group
    assert size(MODELS["resnet32"]((3, 32, 32), 10, 16)) == size(MODELS["resnet8"]((3, 32, 32), 10, 16)) + more
    assert size(MODELS["svdd_lenet"]((1, 28, 28), 32, 8)) == 8 * 25 + 4 * 8 * 25 + 4 * 7 * 7 * 32
    colour = 32 * 3 * 25 + 64 * 32 * 25 + 128 * 64 * 25 + 128 * 4 * 4 * 128
    assert size(MODELS["svdd_lenet"]((3, 32, 32), 128, 32)) == colour


def test_resnet18_is_that_of_torchvision_with_another_stem():
    from torchvision.models import resnet18

    theirs = resnet18(num_classes=20, norm_layer=group_norm).double()
    theirs.conv1, theirs.maxpool = nn.Conv2d(3, 64, 3, 1, 1, bias=False).double(), nn.Identity()
    ours = net("resnet18", (3, 32, 32), 20, 64)
    assert size(ours) == size(theirs)
    names = [k for k, _ in theirs.named_parameters()]
    assert [ours.get_parameter(k).shape for k, _ in ours.named_parameters()] == [theirs.get_parameter(k).shape for k in names]
    theirs.load_state_dict(dict(zip(names, ours.parameters(), strict=True)))
    x = torch.rand(2, 3, 32, 32, dtype=torch.float64)
    with torch.no_grad():
        assert torch.allclose(ours(x), theirs(x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (1, 8, 8)])
def test_svdd_lenet_has_no_bias_anywhere(shape):
    made = net("svdd_lenet", shape, 32, 8)
    assert all(p.dim() > 1 for p in made.parameters())
    assert not list(made.buffers())
    assert float(made(torch.zeros(2, *shape, dtype=torch.float64)).detach().abs().max()) == 0  # where a bias would show


def test_svdd_lenet_has_the_channels_of_the_paper():
    def channels(made):
        return [m.out_channels for m in made.modules() if isinstance(m, nn.Conv2d)]

    assert channels(MODELS["svdd_lenet"]((1, 28, 28), 32, 8)) == [8, 4]
    assert channels(MODELS["svdd_lenet"]((3, 32, 32), 128, 32)) == [32, 64, 128]


@pytest.mark.parametrize(
    ("channels", "groups"),
    [(1, 1), (3, 1), (16, 1), (31, 1), (32, 2), (33, 1), (48, 3), (64, 4), (512, 32), (1024, 32)],
)
def test_groups_have_16_channels_where_they_divide_and_are_32_at_most(channels, groups):
    assert group_norm(channels).num_groups == groups


@pytest.mark.parametrize("made", NETS, ids=str)
def test_gradients_under_vmap_are_those_of_a_loop(made):
    """As the engine `fused` runs them: one set of weights, a batch for each of several clients."""
    _, shape, *_ = made
    made = net(*made)
    weights = {k: v.detach() for k, v in made.named_parameters()}

    def loss(w, x):
        return functional_call(made, w, (x,)).square().mean()

    x = torch.rand(3, 4, *shape, dtype=torch.float64)
    together = vmap(grad(loss), (None, 0))(weights, x)
    for j in range(3):
        alone = grad(loss)(weights, x[j])
        scale = max(float(g.abs().max()) for g in alone.values())
        assert all(float((together[k][j] - g).abs().max()) < 1e-10 * scale for k, g in alone.items())


@pytest.mark.parametrize("made", NETS, ids=str)
def test_gradients_can_be_differentiated_again(made):
    """Gradient inversion does: nothing is done in place, and every layer has a second derivative."""
    _, shape, *_ = made
    made = net(*made)
    x = torch.rand(2, *shape, dtype=torch.float64, requires_grad=True)
    first = torch.autograd.grad(made(x).square().mean(), list(made.parameters()), create_graph=True)
    (second,) = torch.autograd.grad(sum(g.square().sum() for g in first), x)
    assert torch.isfinite(second).all()
    assert float(second.abs().max()) > 0


@pytest.mark.parametrize("name", sorted(MODELS))
def test_first_numbers_come_from_a_named_stream(name):
    nets = [MODELS[name]((3, 32, 32), 10, 4) for _ in range(2)]  # torch gave them different ones
    one, two = (initialise(n, shared(3, "init")) for n in nets)
    other = initialise(nets[0], shared(4, "init"))
    assert all(torch.equal(one[k], two[k]) for k in one)
    drawn = [k for k in one if "norm" not in k and not torch.equal(one[k], torch.ones_like(one[k])) and one[k].any()]
    assert drawn
    assert not any(torch.equal(one[k], other[k]) for k in drawn)


def test_initial_weights_have_the_deviation_that_the_gain_says():
    for name, weight in (("resnet18", "group1.0.conv1.weight"), ("svdd_lenet", "third.0.weight"), ("mlp", "second.0.weight")):
        wide = MODELS[name]((3, 32, 32), 10, 64)
        value = initialise(wide, shared(0, "init"))[weight]
        assert float(value.std()) == pytest.approx(wide.gain / value[0].numel() ** 0.5, rel=0.03)


@pytest.mark.parametrize("name", ["resnet8", "resnet18", "resnet32", "svdd_lenet"])
def test_a_fresh_network_neither_fades_nor_explodes(name):
    made = net(name, (3, 32, 32), 16, 16)
    with torch.no_grad():
        out = made(torch.rand(8, 3, 32, 32, dtype=torch.float64))
    assert 0.01 < float(out.std(0).mean()) < 30  # images differ in it


def test_every_model_is_described():
    text = (Path(__file__).resolve().parents[1] / "docs" / "methods.md").read_text(encoding="utf-8")
    part = text.split("\n## Models\n")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE)) == set(MODELS)
