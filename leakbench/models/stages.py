"""Networks that can be cut: a row of named stages."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn


class Stages(nn.Module):
    """Named stages in order.

    ``start`` and ``stop`` name the stage *after* which to cut; "input" is before the first.

    Args:
        gain: of the initial weights, uniform with standard deviation gain / sqrt(fan in).
        stages: name -> module, in order.
    """

    def __init__(self, stages: dict[str, nn.Module], *, gain: float = 1.0) -> None:
        super().__init__()
        self.gain = gain
        # Stage -> factor on a method's learning rate of its parameters; 1 where it is not named.
        self.rates: dict[str, float] = {}
        for name, stage in stages.items():
            self.add_module(name, stage)

    def forward(self, x: Tensor, start: str | None = None, stop: str | None = None) -> Tensor:
        """The outputs (B, out) for inputs x (B, ...), or the features after ``stop``."""
        names = ["input", *(n for n, _ in self.named_children())]
        first, last = names.index(start or "input"), names.index(stop or names[-1])
        for name in names[first + 1 : last + 1]:
            x = self.get_submodule(name)(x)
        return x


def last_layer(module: nn.Module) -> tuple[str, nn.Linear | None]:
    """The name of the last layer that has parameters of its own, and the layer if it is linear."""
    layers = [(name, m) for name, m in module.named_modules() if [*m.parameters(recurse=False)]]
    name, last = layers[-1] if layers else ("", None)
    return name, last if isinstance(last, nn.Linear) else None


def of_layer(name: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of one layer of a network, by their full names, in their order."""
    at = f"{name}." if name else ""
    return {k: v for k, v in tensors.items() if k.rpartition(".")[0] == at.removesuffix(".")}
