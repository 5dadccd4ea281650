"""Networks with named stages, and how their first numbers are drawn."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from leakbench.streams import Rng


class Stages(nn.Module):
    """Named stages in order. ``start`` and ``stop`` name the stage *after* which to cut; "input" is before the first.

    Args:
        gain: of the initial weights, uniform with standard deviation gain / sqrt(fan in).
        stages: name -> module, in order.
    """

    def __init__(self, stages: dict[str, nn.Module], *, gain: float = 1.0) -> None:
        super().__init__()
        self.gain = gain
        for name, stage in stages.items():
            self.add_module(name, stage)

    def forward(self, x: Tensor, start: str | None = None, stop: str | None = None) -> Tensor:
        """X (B, ...) -> (B, out), or the features after ``stop``."""
        names = [n for n, _ in self.named_children()]
        first = 0 if start in (None, "input") else names.index(start) + 1
        last = len(names) if stop is None else 0 if stop == "input" else names.index(stop) + 1
        for name in names[first:last]:
            x = self.get_submodule(name)(x)
        return x


def mlp(shape: tuple[int, ...], out: int, width: int) -> Stages:
    """Two hidden tanh layers of ``width``, no normalisation: x (B, *shape) -> (B, out)."""
    size = int(torch.Size(shape).numel())
    return Stages(
        {
            "first": nn.Sequential(nn.Flatten(), nn.Linear(size, width), nn.Tanh()),
            "second": nn.Sequential(nn.Linear(width, width), nn.Tanh()),
            "head": nn.Linear(width, out),
        }
    )


def lenet(shape: tuple[int, ...], out: int, width: int) -> Stages:
    """A smooth LeNet (two 5x5 convolutions of ``width`` with stride 2, tanh), as gradient-inversion papers use."""
    channels, height, breadth = shape
    flat = width * -(-height // 4) * -(-breadth // 4)
    return Stages(
        {
            "first": nn.Sequential(nn.Conv2d(channels, width, 5, stride=2, padding=2), nn.Tanh()),
            "second": nn.Sequential(nn.Conv2d(width, width, 5, stride=2, padding=2), nn.Tanh(), nn.Flatten()),
            "head": nn.Linear(flat, out),
        },
        gain=2.0,
    )


MODELS: dict[str, Callable[[tuple[int, ...], int, int], Stages]] = {"lenet": lenet, "mlp": mlp}


def initialise(module: nn.Module, rng: Rng) -> dict[str, Tensor]:
    """Every parameter and buffer of ``module``, the trained ones drawn from the named stream ``rng``.

    Weights are uniform with standard deviation gain / sqrt(fan in); normalisation layers and buffers keep their own start.
    """
    gain = module.gain if isinstance(module, Stages) else 1.0
    trained = {k for k, _ in module.named_parameters()}
    out = {}
    for name, value in {**dict(module.named_parameters()), **dict(module.named_buffers())}.items():
        owner = module.get_submodule(name.rpartition(".")[0])
        if name not in trained or "Norm" in type(owner).__name__:
            out[name] = value.detach().clone()
            continue
        fan_in = max(value[0].numel() if value.dim() > 1 else _fan_in(owner), 1)
        bound = gain * (3 / fan_in) ** 0.5 if value.dim() > 1 else fan_in**-0.5
        out[name] = ((2 * rng.uniform(name, *value.shape) - 1) * bound).to(value.dtype)
    return out


def _fan_in(owner: nn.Module) -> int:
    weight = getattr(owner, "weight", None)
    return weight[0].numel() if isinstance(weight, Tensor) and weight.dim() > 1 else 1
