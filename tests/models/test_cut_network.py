"""A network that runs as its author wrote it is cut where nothing passes beside."""

import copy

import pytest
import torch
from torch import nn

from leakbench.federation.net import Net
from leakbench.models.cut_network import cut, places

SHAPE = (2, 8, 8)


class Block(nn.Module):
    """A residual one, as ResNets have it."""

    def __init__(self, width):
        super().__init__()
        self.one = nn.Conv2d(width, width, 3, padding=1)
        self.norm = nn.BatchNorm2d(width)
        self.relu = nn.ReLU()

    def forward(self, x):
        return self.relu(x + self.norm(self.one(x)))


class Residual(nn.Module):
    """Not in a row: a rectifier used twice, a pool and a parameter without a layer of its own."""

    def __init__(self, beside=False):
        super().__init__()
        self.fc = nn.Linear(4, 3)  # registered first, called last
        self.stem = nn.Conv2d(2, 4, 3, padding=1)
        self.relu = nn.ReLU()
        self.first, self.second = Block(4), Block(4)
        self.scale = nn.Parameter(torch.tensor([1.5]))
        self.beside = beside

    def forward(self, x):
        f = self.first(self.relu(self.stem(x) * self.scale))
        g = self.second(f)
        g = self.relu(g + f if self.beside else g)
        return self.fc(g.mean((2, 3)))


def thrown(n=5):
    return torch.randn(n, *SHAPE, generator=torch.Generator().manual_seed(5))


def cut_network(**how):
    module = Residual(**how)
    return module, cut(copy.deepcopy(module), places(module, SHAPE))


def test_it_is_cut_where_nothing_passes_beside():
    _, made = cut_network()
    assert made.names == ["stem", "first", "second", "fc"]  # the rectifier is called twice
    assert [*cut_network(beside=True)[1].names] == ["stem", "first", "fc"]
    with pytest.raises(LookupError, match="something passes beside 'second'"):
        places(Residual(beside=True), SHAPE, "second")
    assert cut(Residual(), places(Residual(), SHAPE, "first")).names == ["stem", "first", "fc"]
    inner = cut(Residual(), places(Residual(), SHAPE, "second.relu"))
    assert inner.names == ["stem", "first", "second.relu", "fc"]


@pytest.mark.parametrize("on", [True, False])
@pytest.mark.parametrize("place", ["stem", "first", "second", "second.relu"])
def test_both_parts_are_the_whole(place, on):
    """Outputs, gradients and running statistics, to the last bit."""
    whole = Residual().train(on)
    parts = cut(copy.deepcopy(whole), places(whole, SHAPE, place))
    x = thrown()
    expected, features = whole(x), parts(x, stop=place)
    found = parts(features, start=place)
    assert torch.equal(found, expected)
    assert torch.equal(parts(x), whole(x))
    parts(thrown(7), stop=place)  # another number of examples
    assert parts(torch.randn(7, *features.shape[1:]), start=place).shape == (7, 3)
    wanted = torch.autograd.grad(expected.sum(), whole.parameters())
    for one, other in zip(
        torch.autograd.grad(found.sum(), parts.parameters()), wanted, strict=True
    ):
        torch.testing.assert_close(one, other)


def test_from_one_cut_to_the_other_and_nothing_is_left_behind():
    whole, parts = cut_network()
    whole.eval(), parts.eval()
    x = thrown()
    stem = parts(x, stop="stem")
    assert torch.equal(stem, whole.stem(x))
    assert torch.equal(parts(stem, start="stem", stop="first"), parts(x, stop="first"))
    assert torch.equal(parts(x, start="input", stop="input"), x)
    with pytest.raises(RuntimeError):
        parts(torch.zeros(5, 9, 8, 8), start="first")  # no such features
    assert torch.equal(parts(x), whole(x))
    assert all("forward" not in vars(m) for m in parts.modules())
    assert {*parts.state_dict()} == {*whole.state_dict()}
    with pytest.raises(ValueError, match="not cut at 'third'"):
        parts(x, stop="third")


def test_statistics_move_once():
    """What stands before the cut sees no zeros."""
    whole, parts = cut_network()
    x = thrown()
    whole(x)
    parts(parts(x, stop="second"), start="second")
    for k, v in whole.state_dict().items():
        assert torch.equal(parts.state_dict()[k], v), k


def test_side_by_side_and_with_other_weights():
    _, parts = cut_network()
    parts.eval()
    weights = {k: v.detach() for k, v in parts.state_dict().items()}
    many = {
        k: torch.stack([v, 2 * v]) if v.is_floating_point() else torch.stack([v, v])
        for k, v in weights.items()
    }
    x = thrown()

    def one(w, x):
        net = Net(parts, w)
        return net(net(x, stop="first"), start="first")

    found = torch.func.vmap(one, in_dims=(0, None))(many, x)
    for j in range(2):
        expected = Net(parts, {k: v[j] for k, v in many.items()})(x)
        torch.testing.assert_close(found[j], expected, rtol=1e-4, atol=1e-5)


class Several(nn.Module):
    """One layer gives two tensors."""

    def __init__(self):
        super().__init__()
        self.lstm, self.fc = nn.LSTM(8, 4, batch_first=True), nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(self.lstm(x)[0][:, -1])


class Named(Residual):
    """It means something else by a name that cut networks are asked for."""

    names = "mine"


def test_what_cannot_be_cut_says_why():
    with pytest.raises(LookupError, match="'lstm' gives tuple for 4 inputs"):
        places(Several(), (5, 8), "lstm")
    assert not places(Several(), (5, 8)).before
    with pytest.raises(LookupError, match="it has a 'names' of its own"):
        places(Named(), SHAPE)
    with pytest.raises(LookupError, match="takes no inputs"):
        places(Residual(), (3, 8, 8))
    with pytest.raises(LookupError, match="'relu' is called several times"):
        places(Residual(), SHAPE, "relu")
    module = Residual()
    module.norm = nn.BatchNorm2d(4)
    with pytest.raises(LookupError, match="'norm' is not called"):
        places(module, SHAPE, "norm")
    with pytest.raises(LookupError, match="no layer with parameters follows 'fc'"):
        places(Residual(), SHAPE, "fc")
