"""Networks with named stages, and how their first numbers are drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection

from torch import Tensor, nn

from leakbench.base.streams import Rng
from leakbench.models.audionet import audionet
from leakbench.models.convolution import Convolution
from leakbench.models.fast_resnet import fast_resnet34
from leakbench.models.harnet import harnet, harnet_padded
from leakbench.models.mobilefacenet import mobilefacenet
from leakbench.models.mobilenet import mobilenetv2
from leakbench.models.resnets import group_norm, resnet8, resnet18, resnet32
from leakbench.models.stages import Stages

__all__ = ["MODELS", "Stages", "initialise"]


def mlp(shape: tuple[int, ...], out: int, width: int) -> Stages:
    """Two hidden tanh layers of ``width``, no normalisation: x (B, *shape) -> (B, out)."""
    first = nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), width), nn.Tanh())
    second = nn.Sequential(nn.Linear(width, width), nn.Tanh())
    return Stages({"first": first, "second": second, "head": nn.Linear(width, out)})


def mlp_relu(shape: tuple[int, ...], out: int, width: int) -> Stages:
    """`mlp` with ReLU in place of tanh: x (B, *shape) -> (B, out)."""
    first = nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), width), nn.ReLU())
    second = nn.Sequential(nn.Linear(width, width), nn.ReLU())
    head = nn.Linear(width, out)
    return Stages({"first": first, "second": second, "head": head}, gain=2**0.5)


def lenet(shape: tuple[int, ...], out: int, width: int) -> Stages:
    """A smooth LeNet, as gradient-inversion papers use: x (B, *shape) -> (B, out).

    Two 5x5 convolutions of ``width`` with stride 2, tanh.
    """
    channels, height, breadth = shape
    flat = width * -(-height // 4) * -(-breadth // 4)
    first = nn.Sequential(Convolution(channels, width, 5, stride=2, padding=2), nn.Tanh())
    convolution = Convolution(width, width, 5, stride=2, padding=2)
    second = nn.Sequential(convolution, nn.Tanh(), nn.Flatten())
    return Stages({"first": first, "second": second, "head": nn.Linear(flat, out)}, gain=2.0)


class Pooled(nn.Sequential):
    """Layers, then a rectifier, then maxima; called as a whole, the maxima first.

    The two commute, so to the last bit it is the same, and there is a quarter to be rectified.
    """

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, C', H', W')."""
        *front, rectifier, pool = self
        for layer in front:
            x = layer(x)
        pooled: Tensor = rectifier(pool(x))
        return pooled


def cnn(shape: tuple[int, ...], out: int, width: int) -> Stages:
    """FedAA's network (Section 4.1): x (B, *shape) -> (B, out).

    F is stages conv1, conv2, fc1 and fc2, T is head. Two convolutions, of ``width`` (there 64) and
    4 ``width`` (256) filters, two fully connected layers and a linear head. The paper says no more;
    ours: 5x5, padding 2, ReLU, 2x2 max pooling after each; fully connected layers of 16 ``width``
    (1024) and 8 ``width`` (512) units; no normalisation (FedBN puts BatchNorm in by itself);
    PyTorch's own start.
    """
    channels, height, breadth = shape
    flat = 4 * width * (height // 4) * (breadth // 4)

    def convolution(inputs: int, outputs: int) -> nn.Sequential:
        return Pooled(Convolution(inputs, outputs, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2))

    stages = {
        "conv1": convolution(channels, width),
        "conv2": convolution(width, 4 * width),
        "fc1": nn.Sequential(nn.Flatten(), nn.Linear(flat, 16 * width), nn.ReLU()),
        "fc2": nn.Sequential(nn.Linear(16 * width, 8 * width), nn.ReLU()),
        "head": nn.Linear(8 * width, out),
    }
    return Stages(stages, gain=3**-0.5)


def svdd_lenet(shape: tuple[int, ...], out: int, width: int) -> Stages:
    """DeepSVDD's LeNet: x (B, *shape) -> (B, out), without a bias anywhere.

    From Ruff et al. (ICML 2018, Section 4): 5x5 convolutions, leaky ReLU (0.1) and 2x2 max pooling,
    then a linear layer; on grey images two convolutions of 8 and 4 channels, on colour ones three
    of 32, 64 and 128. A bias could map every image to the centre (their Proposition 2). From
    FedMetric (Section 4.1): GroupNorm, here without learnt parameters, whose shift would be a bias.
    Ours: ``width`` sets the channels, width and width / 2 (grey) or width, 2 width and 4 width
    (colour); odd sides are pooled upwards. Stages first, second, (third,) head.
    """
    channels, height, breadth = shape
    widths = [width, max(width // 2, 1)] if channels == 1 else [width, 2 * width, 4 * width]
    stages: dict[str, nn.Module] = {}
    for name, outputs in zip(("first", "second", "third"), widths, strict=False):
        convolution = Convolution(channels, outputs, 5, padding=2, bias=False)
        norm, pool = group_norm(outputs, affine=False), nn.MaxPool2d(2, ceil_mode=True)
        stages[name] = Pooled(convolution, norm, nn.LeakyReLU(0.1), pool)
        channels, height, breadth = outputs, -(-height // 2), -(-breadth // 2)
    head = nn.Sequential(nn.Flatten(), nn.Linear(channels * height * breadth, out, bias=False))
    return Stages({**stages, "head": head}, gain=2**0.5)


MODELS: dict[str, Callable[[tuple[int, ...], int, int], Stages]] = {
    "audionet": audionet,
    "cnn": cnn,
    "fast_resnet34": fast_resnet34,
    "harnet": harnet,
    "harnet_padded": harnet_padded,
    "lenet": lenet,
    "mlp": mlp,
    "mlp_relu": mlp_relu,
    "mobilefacenet": mobilefacenet,
    "mobilenetv2": mobilenetv2,
    "resnet8": resnet8,
    "resnet18": resnet18,
    "resnet32": resnet32,
    "svdd_lenet": svdd_lenet,
}


def initialise(module: nn.Module, rng: Rng, own: Collection[str] = ()) -> dict[str, Tensor]:
    """Every parameter and buffer of ``module``, the trained ones drawn from ``rng``.

    Weights are uniform with standard deviation gain / sqrt(fan in), the gain of their own layer or
    else of the network; normalisation layers, the slopes of PReLU and buffers keep their own start,
    and so do the parameters ``own``, by name.
    """
    gain = module.gain if isinstance(module, Stages) else 1.0
    out = {}
    for name, value in module.named_parameters():
        owner = module.get_submodule(name.rpartition(".")[0])
        if name in own or keeps_its_start(owner):
            out[name] = value.detach().clone()
            continue
        if value.dim() > 1:
            bound = getattr(owner, "gain", gain) * (3 / max(value[0].numel(), 1)) ** 0.5
        else:
            bound = max(_fan_in(owner), 1) ** -0.5
        out[name] = ((2 * rng.uniform(name, *value.shape) - 1) * bound).to(value.dtype)
    return out | {name: value.detach().clone() for name, value in module.named_buffers()}


def keeps_its_start(layer: nn.Module) -> bool:
    """Does it begin in ones and zeros, which are not drawn?"""
    return "Norm" in type(layer).__name__ or isinstance(layer, nn.PReLU)


def _fan_in(owner: nn.Module) -> int:
    weight = getattr(owner, "weight", None)
    return weight[0].numel() if isinstance(weight, Tensor) and weight.dim() > 1 else 1
