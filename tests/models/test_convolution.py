"""A convolution of tiny images is the same as torch's, with its first and second derivatives."""

import pytest
import torch
from torch import nn

from leakbench.models.convolution import TINY, Convolution


@pytest.mark.parametrize("side", [2, 5, 8, 9])
@pytest.mark.parametrize(("stride", "padding", "bias"), [(1, 2, True), (2, 2, False), (1, 0, True)])
def test_it_is_torchs(side, stride, padding, bias):
    size = 2 if padding == 0 else 5
    how = {"stride": stride, "padding": padding, "bias": bias}
    plain = nn.Conv2d(3, 4, size, **how).double()
    ours = Convolution(3, 4, size, **how).double()
    ours.load_state_dict(plain.state_dict())
    x = torch.randn(6, 3, side, side + 1, dtype=torch.float64, requires_grad=True)
    found = []
    for layer in (plain, ours):
        out = layer(x)
        first = torch.autograd.grad(out.square().sum(), [x, *layer.parameters()], create_graph=True)
        second = torch.autograd.grad(first[1].square().sum(), x)
        found.append([out, *first, *second])
    for a, b in zip(*found, strict=True):
        assert a.shape == b.shape
        assert torch.allclose(a, b, rtol=1e-10, atol=1e-10)


def test_a_large_image_is_torchs_own(monkeypatch):
    called = []
    monkeypatch.setattr(nn.Conv2d, "forward", lambda self, x: called.append(x.shape) or x)
    side = int(TINY**0.25) + 1
    Convolution(1, 1, 3, padding=1)(torch.zeros(1, 1, side, side))
    Convolution(1, 1, 3, padding=1)(torch.zeros(1, 1, side - 1, side - 1))
    assert [tuple(shape[2:]) for shape in called] == [(side, side)]


def test_who_calls_it_first_in_inference_mode_does_not_stop_the_training_of_others():
    layer, x = Convolution(1, 1, 3, padding=1), torch.rand(2, 1, 3, 7)
    with torch.inference_mode():
        seen = layer(x)
    out = layer(x)
    out.sum().backward()
    assert torch.equal(out.detach(), seen)
    assert float(layer.weight.grad.abs().max()) > 0
