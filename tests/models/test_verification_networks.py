"""Fast ResNet-34 and MobileFaceNet: their tables' shapes, their papers' numbers of parameters."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from leakbench.base.streams import shared
from leakbench.models.networks import MODELS, initialise


def net(name, shape, out, width):
    made = MODELS[name](shape, out, width).double().eval()
    made.load_state_dict(initialise(made, shared(0, "init")))
    return made


def size(made):
    return sum(p.numel() for p in made.parameters())


def test_fast_resnet34_has_the_shapes_of_the_released_code():
    made, x = net("fast_resnet34", (1, 40, 200), 512, 2), torch.rand(1, 1, 40, 200).double()
    shapes = {
        "stem": (2, 20, 200),
        "group1": (2, 20, 200),
        "group2": (4, 10, 100),
        "group3": (8, 5, 50),
        "group4": (16, 5, 50),
        "pool": (16,),
        "head": (512,),
    }
    assert [n for n, _ in made.named_children()] == [*shapes]
    assert {n: tuple(made(x, stop=n).shape[1:]) for n in shapes} == shapes


def test_fast_resnet34_is_torchvisions_resnet34_with_a_quarter_of_the_channels():
    from torchvision.models import resnet34

    with torch.device("meta"):
        made = resnet34()
    theirs = {k: v.shape for k, v in made.named_parameters() if k.startswith("layer")}
    quarter = [
        tuple(s // 4 for s in v[:2]) + tuple(v[2:]) if len(v) > 1 else (v[0] // 4,)
        for v in theirs.values()
    ]
    ours = [
        tuple(v.shape)
        for k, v in MODELS["fast_resnet34"]((1, 40, 200), 512, 16).named_parameters()
        if k.startswith("group")
    ]
    # Theirs has no projection in its first group, nor ours; all others in the same order.
    assert sorted(ours) == sorted(quarter)


def test_fast_resnet34_has_the_papers_number_of_parameters():
    """In Chung et al. (2020), Section 4.2: 1.4 million, a ResNet-34's 22 million over sixteen."""
    assert 1.35e6 < size(MODELS["fast_resnet34"]((1, 40, 200), 512, 16)) < 1.45e6


def test_self_attention_is_a_softmax_over_frames():
    made = net("fast_resnet34", (1, 40, 24), 8, 2)
    pool = made.get_submodule("pool")
    x = torch.randn(3, 16, 5, 7, dtype=torch.float64)
    means = x.mean(2)  # (3, 16, 7)
    out = []
    for one in means:
        e = torch.stack(
            [
                pool.weigh.weight[0] @ torch.tanh(pool.hidden.weight @ f + pool.hidden.bias)
                for f in one.T
            ]
        )
        out.append((one * (e.exp() / e.exp().sum())).sum(1))
    assert torch.allclose(pool(x), torch.stack(out), rtol=0, atol=1e-12)


def test_loudness_and_tone_of_a_band_do_not_count_and_length_is_free():
    made = net("fast_resnet34", (1, 40, 24), 8, 2)
    x = torch.randn(2, 1, 40, 24, dtype=torch.float64)
    scale = 1 + torch.rand(40, 1, dtype=torch.float64)
    with torch.no_grad():
        assert torch.allclose(made(x), made(x * scale + 3 * scale), rtol=0, atol=1e-4)
        assert made(torch.cat([x, x], -1)).shape == (2, 8)


def test_mobilefacenet_has_the_shapes_of_table_1():
    made = net("mobilefacenet", (3, 112, 112), 128, 64)
    x = torch.rand(1, 3, 112, 112, dtype=torch.float64)
    sides = {"stem": (64, 56), "depthwise": (64, 56), "block1": (64, 28), "block5": (64, 28)}
    sides |= {"block6": (128, 14), "block12": (128, 14), "block13": (128, 7), "block15": (128, 7)}
    with torch.no_grad():
        for name, (channels, side) in {**sides, "last": (512, 7)}.items():
            assert made(x, stop=name).shape == (1, channels, side, side)
        assert made(x, stop="pool").shape == (1, 512)
        assert made(x).shape == (1, 128)
    assert [n for n, _ in made.named_children()] == [
        *("stem", "depthwise"),
        *(f"block{b}" for b in range(1, 16)),
        *("last", "pool", "head"),
    ]
    small = net("mobilefacenet", (3, 64, 64), 512, 8)
    assert small(torch.rand(2, 3, 64, 64).double(), stop="last").shape == (2, 64, 4, 4)


def test_mobilefacenet_has_the_papers_number_of_parameters():
    """In Chen et al. (2018), Table 2: 0.99 million, with BatchNorm, which has as many as ours."""
    assert 0.98e6 < size(MODELS["mobilefacenet"]((3, 112, 112), 128, 64)) < 1.01e6


def test_slopes_of_prelu_keep_their_start():
    made = MODELS["mobilefacenet"]((1, 16, 16), 4, 4)
    first = initialise(made, shared(0, "init"))
    slopes = [n for n, m in made.named_modules() if isinstance(m, nn.PReLU)]
    assert len(slopes) == 2 + 2 * 15 + 1
    assert all(bool((first[f"{n}.weight"] == 0.25).all()) for n in slopes)


@pytest.mark.parametrize(
    ("name", "shape"), [("fast_resnet34", (1, 40, 60)), ("mobilefacenet", (3, 64, 64))]
)
def test_a_fresh_network_neither_fades_nor_explodes(name, shape):
    made = net(name, shape, 32, 16)
    with torch.no_grad():
        out = made(torch.rand(8, *shape, dtype=torch.float64))
    assert 0.01 < float(out.std(0).mean()) < 30
