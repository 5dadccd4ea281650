"""Networks: their shapes and sizes, cuts at every stage, no biases where none may be, the same
under vmap as one by one.
"""

from __future__ import annotations

import copy
import re
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from leakbench.base import registry
from leakbench.base.errors import MethodError, UsageError
from leakbench.base.streams import shared
from leakbench.federation.federation import Federation
from leakbench.federation.task_data import Examples, TaskData
from leakbench.models.mobilenet import Inverted
from leakbench.models.networks import MODELS, Pooled, Stages, initialise
from leakbench.models.resnets import group_norm
from leakbench.models.stages import gives_logits, last_layer

# name, shape, out, width: the sizes that the tasks use, and small ones
NETS = [
    ("audionet", (2, 64, 344), 10, 2),
    ("audionet", (1, 32, 48), 10, 4),
    ("audionet", (1, 9, 7), 3, 3),
    ("fast_resnet34", (1, 40, 24), 8, 2),
    ("fast_resnet34", (1, 9, 7), 3, 3),
    ("harnet", (1, 128, 3), 6, 4),
    ("harnet", (2, 64, 2), 5, 3),
    ("harnet_padded", (1, 128, 3), 6, 4),
    ("lenet", (1, 8, 16), 7, 5),
    ("mlp", (1, 8, 16), 7, 5),
    ("mlp_relu", (1, 8, 16), 7, 5),
    ("mobilefacenet", (3, 64, 64), 8, 4),
    ("mobilefacenet", (1, 9, 20), 3, 3),
    ("mobilenetv2", (3, 32, 32), 10, 4),
    ("mobilenetv2", (1, 9, 12), 3, 3),
    ("resnet8", (3, 32, 32), 10, 4),
    ("resnet8", (1, 7, 9), 3, 5),
    ("resnet18", (3, 32, 32), 10, 4),
    ("resnet32", (3, 32, 32), 10, 4),
    ("cnn", (3, 32, 32), 10, 4),
    ("cnn", (1, 8, 8), 10, 8),
    ("cnn", (3, 7, 9), 10, 3),
    ("svdd_lenet", (1, 28, 28), 32, 8),
    ("svdd_lenet", (1, 8, 8), 10, 8),
    ("svdd_lenet", (3, 32, 32), 10, 4),
    ("svdd_lenet", (3, 7, 9), 10, 3),
]


def shape_of(name):
    """An input that the network takes."""
    return (1, 128, 3) if name.startswith("harnet") else (3, 32, 32)


def net(name, shape, out, width):
    """As a federation makes it: in evaluation mode."""
    made = MODELS[name](shape, out, width).double().eval()
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
        assert [n for n, _ in made.named_children()] == [
            "stem",
            *(f"group{g + 1}" for g in range(groups)),
            "head",
        ]
        assert made(x, stop="stem").shape == (2, width, 32, 32)
        for g in range(groups):
            assert made(x, stop=f"group{g + 1}").shape == (2, width * 2**g, 32 // 2**g, 32 // 2**g)


def test_audionet_has_the_shapes_of_table_4():
    made, x = net("audionet", (2, 64, 344), 10, 8), torch.zeros(1, 2, 64, 344).double()
    names = [name for name, _ in made.named_children()]
    assert names == ["block1", "block2", "block3", "block4", "head"]
    shapes = [(8, 32, 172), (16, 16, 86), (32, 8, 43), (64, 4, 22)]
    for name, shape in zip(names, shapes, strict=False):
        assert made(x, stop=name).shape[1:] == shape
    # 5x5 from 2, then 3x3; each with a bias, and a scale and a shift in its norm.
    channels = [(2, 8, 25), (8, 16, 9), (16, 32, 9), (32, 64, 9)]
    assert size(made) == sum(a * b * k + 3 * b for a, b, k in channels) + 64 * 10 + 10


def test_audionet_is_convolution_relu_norm_and_a_mean_over_what_is_left():
    made, x = net("audionet", (1, 16, 16), 5, 2), shared(1, "test").normal("x", 3, 1, 16, 16)
    by_hand = x
    for block in (made.block1, made.block2, made.block3, made.block4):
        convolution, norm = block[0], block[2]
        pad = convolution.weight.shape[-1] // 2
        rough = torch.nn.functional.conv2d(
            by_hand, convolution.weight, convolution.bias, stride=2, padding=pad
        )
        by_hand = rough.clamp(min=0) / (1 + norm.eps) ** 0.5
    head = made.head[2]
    assert torch.allclose(made(x), by_hand.mean((2, 3)) @ head.weight.T + head.bias)


def test_harnet_has_the_shapes_of_table_6():
    x = torch.rand(2, 1, 128, 3, dtype=torch.float64)
    plain = [(64, 43, 3), (128, 20, 3), (256, 9, 3), (256, 3, 3)]
    padded = [(64, 43, 5), (128, 20, 7), (256, 9, 9), (256, 3, 11)]
    for name, shapes in (("harnet", plain), ("harnet_padded", padded)):
        made = net(name, (1, 128, 3), 6, 64)
        assert [n for n, _ in made.named_children()] == [
            "layer1",
            "layer2",
            "layer3",
            "layer4",
            "head",
        ]
        assert [made(x, stop=f"layer{i}").shape[1:] for i in range(1, 5)] == shapes
    assert (
        padded[-1][0] * padded[-1][1] * padded[-1][2]
        == 8448
        == made.get_submodule("head")[1].in_features
    )


def test_harnet_does_not_mix_axes_before_the_head():
    made = net("harnet", (1, 128, 3), 6, 8)
    x = torch.rand(2, 1, 128, 3, dtype=torch.float64)
    y = x.clone()
    y[..., 1] += 1
    same = (made(x, stop="layer4") == made(y, stop="layer4")).flatten(0, 2).all(0)
    assert same.tolist() == [True, False, True]


def test_padding_across_axes_adds_constants_and_leaves_the_columns_within():
    plain, padded = (net(name, (1, 128, 3), 6, 8) for name in ("harnet", "harnet_padded"))
    rng = shared(0, "test")
    for i in range(1, 5):  # norms that have seen something
        norm = plain.get_submodule(f"layer{i}")[1]
        for k, t in (
            ("weight", norm.weight),
            ("bias", norm.bias),
            ("mean", norm.running_mean),
            ("var", norm.running_var),
        ):
            t.data.copy_(rng.uniform(f"{i}/{k}", *t.shape) + 0.1)
        padded.get_submodule(f"layer{i}").load_state_dict(
            plain.get_submodule(f"layer{i}").state_dict()
        )
    x = torch.rand(4, 1, 128, 3, dtype=torch.float64)
    for i in range(1, 5):
        one, two = plain(x, stop=f"layer{i}"), padded(x, stop=f"layer{i}")
        assert torch.allclose(two[..., i : i + 3], one, rtol=0, atol=1e-12)
        outer = two[..., [*range(i), *range(i + 3, two.shape[-1])]]
        assert torch.equal(outer, outer[:1].expand_as(outer))  # the same for every window
        assert float(one.detach().std(0).max()) > 0.01


def test_mobilenetv2_has_the_shapes_of_table_3():
    made = net("mobilenetv2", (3, 32, 32), 10, 32)
    sizes = {
        1: (16, 32),
        2: (24, 32),
        4: (32, 16),
        7: (64, 8),
        11: (96, 8),
        14: (160, 4),
        17: (320, 4),
    }
    stages = {"stem": (32, 32), "last": (1280, 4)}
    for b in range(1, 18):
        stages[f"block{b}"] = sizes[max(k for k in sizes if k <= b)]
    assert [n for n, _ in made.named_children()] == [
        "stem",
        *(f"block{b}" for b in range(1, 18)),
        "last",
        "head",
    ]
    x = torch.rand(2, 3, 32, 32, dtype=torch.float64)
    for name, (channels, side) in stages.items():
        assert made(x, stop=name).shape == (2, channels, side, side)
    within = [m for m in made.modules() if isinstance(m, nn.Conv2d)]
    # Table 3 ends at 55: two convolutions in block 4, which has three, and no shortcut in block 17.
    assert len(within) == 1 + 17 * 3 + 4 + 1 == 55 + 2
    assert [m.kernel_size[0] for m in within[1:5]] == [1, 3, 1, 1]
    assert [m.out_channels for m in within[1:5]] == [32, 32, 16, 16]
    assert [m.out_channels for m in within[5:9]] == [96, 96, 24, 24]


def test_mobilenetv2_is_that_of_torchvision_where_that_has_the_same_blocks():
    """Theirs: ReLU6 and no shortcut where the width changes; a block with neither is the same
    function.
    """
    from torchvision.models.mobilenetv2 import InvertedResidual

    for stride, inputs, outputs in ((1, 8, 8), (2, 8, 12)):
        theirs = InvertedResidual(inputs, outputs, stride, 6).double().eval()
        for act in [m for m in theirs.modules() if isinstance(m, nn.Sequential)]:
            for k, m in act.named_children():
                if isinstance(m, nn.ReLU6):
                    setattr(act, k, nn.ReLU())
        ours = Inverted(inputs, outputs, 6, stride).double().eval()
        names = [*theirs.state_dict()]
        assert [v.shape for v in ours.state_dict().values()] == [
            theirs.state_dict()[k].shape for k in names
        ]
        theirs.load_state_dict(dict(zip(names, ours.state_dict().values(), strict=True)))
        x = torch.randn(3, inputs, 7, 8, dtype=torch.float64)
        with torch.no_grad():
            assert torch.allclose(ours(x), theirs(x), rtol=0, atol=1e-12)


def test_a_block_that_changes_width_at_stride_1_has_a_shortcut():
    block = Inverted(4, 6, 2, 1).double().eval()
    x = torch.randn(2, 4, 5, 5, dtype=torch.float64)
    with torch.no_grad():
        inner = block.project(block.depthwise(block.expand(x).relu()).relu())
        assert torch.allclose(block(x), inner + block.shortcut(x), rtol=0, atol=0)
        assert float(block.shortcut(x).abs().max()) > 0
        assert block.shortcut[0].kernel_size == (1, 1)


def test_a_window_too_short_for_harnet_is_refused():
    MODELS["harnet"]((1, 64, 3), 6, 2)
    for name in ("harnet", "harnet_padded"):
        with pytest.raises(
            UsageError,
            match=r"needs inputs of at least 64 steps in time, these have shape \(1, 63, 3\)",
        ):
            MODELS[name]((1, 63, 3), 6, 2)


@pytest.mark.parametrize("name", ["harnet", "harnet_padded", "mobilenetv2"])
def test_nothing_before_a_norm_has_a_bias(name):
    """The norm takes it away; with Adam the rounding of its zero gradient would be whole steps."""
    made = MODELS[name](shape_of(name), 10, 4)
    assert all(m.bias is None for m in made.modules() if isinstance(m, nn.Conv2d))
    assert made.get_submodule("head")[-1].bias is not None


@pytest.mark.parametrize("name", ["harnet", "mobilenetv2"])
def test_batch_norms_start_as_they_should(name):
    made = MODELS[name](shape_of(name), 10, 4)
    first = initialise(made, shared(0, "init"))
    norms = {path: m for path, m in made.named_modules() if isinstance(m, nn.BatchNorm2d)}
    assert norms
    for path in norms:
        for k, value in (
            ("weight", 1),
            ("bias", 0),
            ("running_mean", 0),
            ("running_var", 1),
            ("num_batches_tracked", 0),
        ):
            assert bool((first.pop(f"{path}.{k}") == value).all())
    for (
        k,
        value,
        # All the rest starts as PyTorch starts its own layers: 1 / sqrt(fan in) at most.
    ) in first.items():
        owner = made.get_submodule(k.rpartition(".")[0])
        bound = owner.weight[0].numel() ** -0.5
        assert 0 < float(value.abs().max()) <= bound
        assert value.numel() < 200 or float(value.std()) == pytest.approx(bound / 3**0.5, rel=0.15)


def test_the_number_of_layers_is_in_the_name():
    for name, layers in (("resnet8", 8), ("resnet18", 18), ("resnet32", 32)):
        weighted = [
            m
            for m in MODELS[name]((3, 32, 32), 10, 4).modules()
            if isinstance(m, nn.Linear | nn.Conv2d)
        ]
        assert (
            len([m for m in weighted if not (isinstance(m, nn.Conv2d) and m.kernel_size == (1, 1))])
            == layers
        )


def test_parameter_counts_worked_out_by_hand():
    # stem 3*16*9 + 2*16; groups of two 3x3 convolutions, GroupNorm 2 per channel, a projection
    # where channels double; head
    group1 = 2 * 16 * 16 * 9 + 2 * 32
    group2 = 16 * 32 * 9 + 32 * 32 * 9 + 16 * 32 + 3 * 64
    group3 = 32 * 64 * 9 + 64 * 64 * 9 + 32 * 64 + 3 * 128
    assert (
        size(MODELS["resnet8"]((3, 32, 32), 10, 16))
        == 3 * 16 * 9 + 32 + group1 + group2 + group3 + 64 * 10 + 10
    )
    # Four further blocks in each group.
    more = 4 * (2 * 16 * 16 * 9 + 64 + 2 * 32 * 32 * 9 + 128 + 2 * 64 * 64 * 9 + 256)
    assert (
        size(MODELS["resnet32"]((3, 32, 32), 10, 16))
        == size(MODELS["resnet8"]((3, 32, 32), 10, 16)) + more
    )
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
    assert [ours.get_parameter(k).shape for k, _ in ours.named_parameters()] == [
        theirs.get_parameter(k).shape for k in names
    ]
    theirs.load_state_dict(dict(zip(names, ours.parameters(), strict=True)))
    x = torch.rand(2, 3, 32, 32, dtype=torch.float64)
    with torch.no_grad():
        assert torch.allclose(ours(x), theirs(x), rtol=0, atol=1e-12)


def test_parameter_counts_of_the_flea_papers_networks():
    # kernels, two numbers a channel for the norm, and the head
    convolutions = 64 * 1 * 3 + 128 * 64 * 6 + 256 * 128 * 6 + 256 * 256 * 6
    norms = 2 * (64 + 128 + 256 + 256)
    assert size(MODELS["harnet"]((1, 128, 3), 6, 64)) == convolutions + norms + 256 * 3 * 3 * 6 + 6
    assert (
        size(MODELS["harnet_padded"]((1, 128, 3), 6, 64))
        == convolutions + norms + 256 * 3 * 11 * 6 + 6
    )

    def block(a, b, t, shortcut):
        inner = t * a
        return (
            a * inner
            + 9 * inner
            + inner * b
            + 2 * (2 * inner + b)
            + (a * b + 2 * b if shortcut else 0)
        )

    total = 3 * 32 * 9 + 2 * 32 + block(32, 16, 1, True)
    total += block(16, 24, 6, True) + block(24, 24, 6, False)
    total += block(24, 32, 6, False) + 2 * block(32, 32, 6, False)
    total += block(32, 64, 6, False) + 3 * block(64, 64, 6, False)
    total += block(64, 96, 6, True) + 2 * block(96, 96, 6, False)
    total += block(96, 160, 6, False) + 2 * block(160, 160, 6, False)
    total += block(160, 320, 6, True) + 320 * 1280 + 2 * 1280 + 1280 * 10 + 10
    assert size(MODELS["mobilenetv2"]((3, 32, 32), 10, 32)) == total


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (1, 8, 8)])
def test_svdd_lenet_has_no_bias_anywhere(shape):
    made = net("svdd_lenet", shape, 32, 8)
    assert all(p.dim() > 1 for p in made.parameters())
    assert not list(made.buffers())
    # Where a bias would show.
    assert float(made(torch.zeros(2, *shape, dtype=torch.float64)).detach().abs().max()) == 0


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
        assert all(
            float((together[k][j] - g).abs().max()) < 1e-10 * scale for k, g in alone.items()
        )


@pytest.mark.parametrize("made", NETS, ids=str)
def test_gradients_can_be_differentiated_again(made):
    """Gradient inversion does: nothing is done in place, and every layer has a second
    derivative.
    """
    _, shape, *_ = made
    made = net(*made)
    x = torch.rand(2, *shape, dtype=torch.float64, requires_grad=True)
    first = torch.autograd.grad(made(x).square().mean(), list(made.parameters()), create_graph=True)
    (second,) = torch.autograd.grad(sum(g.square().sum() for g in first), x)
    assert torch.isfinite(second).all()
    assert float(second.abs().max()) > 0


@pytest.mark.parametrize("name", sorted(MODELS))
def test_first_numbers_come_from_a_named_stream(name):
    nets = [MODELS[name](shape_of(name), 10, 4) for _ in range(2)]  # torch gave them different ones
    one, two = (initialise(n, shared(3, "init")) for n in nets)
    other = initialise(nets[0], shared(4, "init"))
    assert all(torch.equal(one[k], two[k]) for k in one)
    drawn = [k for k in one if "norm" not in k and float(one[k].min()) < float(one[k].max())]
    assert drawn
    assert not any(torch.equal(one[k], other[k]) for k in drawn)


def test_initial_weights_have_the_deviation_that_the_gain_says():
    for name, weight in (
        ("resnet18", "group1.0.conv1.weight"),
        ("svdd_lenet", "third.0.weight"),
        ("mlp", "second.0.weight"),
        ("harnet", "layer2.0.weight"),
        ("audionet", "block2.0.weight"),
    ):
        wide = MODELS[name](shape_of(name), 10, 64)
        value = initialise(wide, shared(0, "init"))[weight]
        assert float(value.std()) == pytest.approx(wide.gain / value[0].numel() ** 0.5, rel=0.03)


@pytest.mark.parametrize("name", ["resnet8", "resnet18", "resnet32", "svdd_lenet"])
def test_a_fresh_network_neither_fades_nor_explodes(name):
    made = net(name, (3, 32, 32), 16, 16)
    with torch.no_grad():
        out = made(torch.rand(8, 3, 32, 32, dtype=torch.float64))
    assert 0.01 < float(out.std(0).mean()) < 30  # images differ in it


@pytest.mark.parametrize("name", ["audionet", "harnet", "harnet_padded", "mobilenetv2"])
def test_a_fresh_network_with_batch_norms_neither_fades_nor_explodes_in_training(name):
    made = net(name, shape_of(name), 16, 16).train()
    with torch.no_grad():
        out = made(torch.rand(8, *shape_of(name), dtype=torch.float64))
    assert 0.01 < float(out.std(0).mean()) < 30


@pytest.mark.parametrize(
    ("name", "task"),
    [("audionet", (1, 16, 24)), ("harnet", (1, 64, 3)), ("mobilenetv2", (3, 16, 16))],
)
def test_one_fused_round_is_one_of_the_loop(name, task):
    """Training mode: batch statistics of each client alone, and what the norms remember is
    averaged.
    """
    y = torch.arange(24) % 3
    sets = [Examples(shared(0, name).normal("x", 24, *task), y) for name in ("a", "b", "c")]
    rows = torch.arange(24).view(4, 6)
    data = TaskData(*sets, rows, torch.full((4,), 6), torch.full((4,), -1))
    kind = registry.load_plugin("tasks", "digits")
    chosen = type("Small", (kind,), {"shape": task, "classes": 3, "signal": True})(
        clients=4, split="iid", model=name, width=3
    )
    method = registry.load_plugin("defenses", "fedavg")(batch=6)
    ends = []
    for engine in ("fused", "loop"):
        fed = Federation(method, chosen, data, engine=engine, dtype=torch.float64)
        fed.begin()
        fed.step()
        fed.step()
        assert fed.phases["loss"] == engine
        ends.append(fed.model)
    assert ends[0].keys() == ends[1].keys()
    assert all(float((ends[0][k] - ends[1][k]).abs().max()) < 1e-10 for k in ends[0])
    assert any("running_mean" in k and float(v.abs().max()) > 0.001 for k, v in ends[0].items())


def test_every_model_is_described():
    text = (Path(__file__).resolve().parents[2] / "docs" / "methods.md").read_text(encoding="utf-8")
    part = text.split("\n## Models\n")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE)) == set(MODELS)


@pytest.mark.parametrize("name", ["cnn", "svdd_lenet"])
def test_pooling_before_the_rectifier_is_pooling_after_it_to_the_last_bit(name):
    """As papers print it: convolution, (norm,) rectifier, pool. Ties are there, of black pixels."""
    module = net(name, (1, 12, 12), 3, 4)
    stages = {}
    for stage, layers in module.named_children():
        pooled = isinstance(layers, Pooled)
        stages[stage] = nn.Sequential(*copy.deepcopy(layers)) if pooled else copy.deepcopy(layers)
    assert isinstance(stages[module.names[0]][-1], nn.MaxPool2d)
    printed = Stages(stages)
    x = shared(0, "x").uniform("x", 6, 1, 12, 12).round()
    x[:2, :, 3:] = 0
    found = []
    for one in (module, printed):
        given = x.clone().requires_grad_()
        out = one(given)
        grads = torch.autograd.grad(out.square().sum(), [given, *one.parameters()])
        found.append([out, *grads])
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


class Late(nn.Module):
    """Registered first what is called last; a table of numbers of its own; and a spare."""

    def __init__(self, *, again: bool = False, tied: bool = False, wide: bool = False) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.zeros(4))
        self.head, self.body, self.spare = nn.Linear(4, 4), nn.Linear(6, 4), nn.Linear(4, 4)
        if tied:
            self.head.weight = self.spare.weight
        self.again, self.wide = again, wide

    def forward(self, x):
        if self.training:
            raise AssertionError("in evaluation mode: nothing is to be written into the network")
        h = self.head((self.body(x.flatten(1)) + self.token).tanh())
        h = self.head(h) if self.again else h
        return torch.cat([h, h], 1) if self.wide else h.softmax(1)


def test_the_last_layer_is_the_one_that_is_called_last():
    net = Late()
    assert last_layer(net)[0] == "spare"  # as they are registered
    dice = torch.get_rng_state()
    assert last_layer(net, (2, 3)) == ("head", net.head)
    assert net.training
    assert net.head.training
    assert torch.equal(torch.get_rng_state(), dice)
    assert not net.head._forward_hooks
    assert not net.head._forward_pre_hooks
    assert last_layer(nn.Linear(6, 2), (6,))[0] == ""
    for odd in ({"again": True}, {"tied": True}, {"wide": True}):
        assert last_layer(Late(**odd), (2, 3)) == ("head", None)
    with pytest.raises(MethodError, match=r"takes no inputs of shape \(5,\): .*mat1 and mat2"):
        last_layer(net, (5,))


@pytest.mark.parametrize(("name", "shape", "out", "width"), NETS)
def test_of_a_network_of_ours_it_is_the_last_that_was_registered(name, shape, out, width):
    net = MODELS[name](shape, out, width)
    assert last_layer(net, shape) == last_layer(net)


@pytest.mark.parametrize(
    ("end", "outputs", "right"),
    [
        (lambda z: z, 3, True),
        (lambda z: 2 * z, 3, True),
        (lambda z: z.log_softmax(1), 3, True),
        (lambda z: z.softmax(1), 3, True),
        (lambda z: z.sigmoid(), 1, True),
        (lambda z: -z, 3, False),
        (lambda z: z[:, [1, 2, 0]], 3, False),
        (lambda z: -z, 1, False),
        (lambda z: (-z).sigmoid(), 1, False),
        (lambda z: z * z, 3, False),
    ],
)
def test_outputs_of_the_last_layer_are_logits_or_not(end, outputs, right):
    """Turned round or put in another order, a class's output is another's logit."""

    class Ends(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(6, outputs)

        def forward(self, x):
            return end(self.last(x.flatten(1)))

    assert gives_logits(Ends(), (2, 3)) == right
    assert gives_logits(Ends().double(), (2, 3)) == right
    assert not gives_logits(Late(again=True), (2, 3))  # it has no such layer


@pytest.mark.parametrize(("name", "shape", "out", "width"), NETS)
def test_the_networks_of_ours_give_their_last_layers_outputs(name, shape, out, width):
    assert gives_logits(MODELS[name](shape, out, width), shape)
