"""Networks of one layer each that somebody may bring along, by what is special about it."""

from __future__ import annotations

import random
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations
from torchvision.ops import StochasticDepth

WIDTH = 8


class Between(nn.Module):
    """A plain module: x (B, 1, 8, 8) to (B, out), the layer between two linear ones."""

    def __init__(self, layer: nn.Module, out: int) -> None:
        super().__init__()
        self.first, self.layer = nn.Linear(64, WIDTH), layer
        self.last = nn.Linear(WIDTH, out)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.layer(self.first(x.flatten(1))).tanh())


class Pictures(nn.Module):
    """The same behind a convolution, for layers of (B, C, H, W)."""

    def __init__(self, layer: nn.Module, out: int) -> None:
        super().__init__()
        self.first, self.layer = nn.Conv2d(1, 4, 3, stride=2, padding=1), layer
        self.last = nn.LazyLinear(out)
        self(torch.zeros(2, 1, 8, 8))

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.layer(self.first(x)).tanh().flatten(1))


class Rows(nn.Module):
    """A layer of sequences, shown the eight rows of a picture; x as the mean of what it says."""

    def __init__(self, layer: Callable[[Tensor], Tensor], out: int) -> None:
        super().__init__()
        self.layer, self.last = layer, nn.Linear(8, out)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.layer(x[:, 0]).mean(1))


class Recurrent(nn.Module):
    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)[0]


class Attentive(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.layer = nn.MultiheadAttention(8, 2, dropout=dropout, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x, x, x, need_weights=False)[0]


class Functional(nn.Module):
    """F.dropout, in training or always."""

    def __init__(self, always: bool) -> None:
        super().__init__()
        self.always = always

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(x, 0.3, training=self.training or self.always)


class Halved(nn.Module):
    """Somebody's own: in evaluation it does something else, and no dice are thrown."""

    def forward(self, x: Tensor) -> Tensor:
        return x.sin() if self.training else x / 2


class Average(nn.Module):
    """Somebody's own normalisation, which assigns the buffer that it remembers in."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x - self.mean
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0).detach()
        return x - x.mean(0)


class Noisy(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 0.1 * torch.randn_like(x) if self.training else x


class Skipped(nn.Module):
    """LayerDrop by Python's dice."""

    def forward(self, x: Tensor) -> Tensor:
        return x if self.training and random.random() < 0.5 else x.sin()


class Tied(nn.Module):
    """One matrix there and back."""

    def __init__(self, out: int) -> None:
        super().__init__()
        self.there, self.back = nn.Linear(64, 64, bias=False), nn.Linear(64, 64, bias=False)
        self.back.weight = self.there.weight
        self.last = nn.Linear(64, out)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.back(self.there(x.flatten(1)).tanh()).tanh())


class Tokens(nn.Module):
    """A vision transformer's token and position embeddings, in front of one block."""

    def __init__(self, out: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.full((1, 1, 8), 0.02))
        self.position = nn.Parameter(0.02 * torch.randn(1, 9, 8))
        self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout, "gelu", batch_first=True)
        self.last = nn.Linear(8, out)

    def forward(self, x: Tensor) -> Tensor:
        rows = torch.cat([self.token.expand(len(x), 1, 8), x[:, 0]], 1)
        return self.last(self.block(rows + self.position)[:, 0])


# Of no dice: name -> (the network for so many outputs).
QUIET: dict[str, Callable[[int], nn.Module]] = {
    "BatchNorm1d": lambda out: Between(nn.BatchNorm1d(WIDTH), out),
    "BatchNorm2d": lambda out: Pictures(nn.BatchNorm2d(4), out),
    "InstanceNorm2d": lambda out: Pictures(nn.InstanceNorm2d(4, affine=True), out),
    "InstanceNorm2d with running statistics": lambda out: Pictures(
        nn.InstanceNorm2d(4, affine=True, track_running_stats=True), out
    ),
    "GroupNorm": lambda out: Pictures(nn.GroupNorm(2, 4), out),
    "LayerNorm": lambda out: Between(nn.LayerNorm(WIDTH), out),
    "LSTM": lambda out: Rows(Recurrent(nn.LSTM(8, 8, batch_first=True)), out),
    "weight_norm": lambda out: Between(parametrizations.weight_norm(nn.Linear(WIDTH, WIDTH)), out),
    "spectral_norm": lambda out: Between(
        parametrizations.spectral_norm(nn.Linear(WIDTH, WIDTH)), out
    ),
    "tied weights": Tied,
    "own layer that reads self.training": lambda out: Between(Halved(), out),
    "own layer that assigns its buffer": lambda out: Between(Average(), out),
    "tokens and positions (ViT)": Tokens,
}
# That throw dice in training.
THROWING: dict[str, Callable[[int], nn.Module]] = {
    "Dropout": lambda out: Between(nn.Dropout(0.3), out),
    "Dropout2d": lambda out: Pictures(nn.Dropout2d(0.3), out),
    "F.dropout": lambda out: Between(Functional(False), out),
    "F.dropout, always": lambda out: Between(Functional(True), out),
    "RReLU": lambda out: Between(nn.RReLU(), out),
    "StochasticDepth": lambda out: Between(
        nn.Sequential(nn.Linear(WIDTH, WIDTH), StochasticDepth(0.5, "row")), out
    ),
    "MultiheadAttention, dropout": lambda out: Rows(Attentive(0.3), out),
    "TransformerEncoderLayer, dropout": lambda out: Tokens(out, 0.3),
    "GRU, dropout": lambda out: Rows(
        Recurrent(nn.GRU(8, 8, 2, batch_first=True, dropout=0.3)), out
    ),
    "own noise (torch.randn_like)": lambda out: Between(Noisy(), out),
    "own layer drop (Python's random)": lambda out: Between(Skipped(), out),
}
