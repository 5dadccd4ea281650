"""The last layer of a network, of which one step tells what the loss compares with."""

from __future__ import annotations

from torch import nn


def last_layer(module: nn.Module) -> tuple[str, nn.Linear | None]:
    """The name of the last layer that has parameters, and the layer if it is linear."""
    layers = [(name, m) for name, m in module.named_modules() if list(m.parameters(recurse=False))]
    name, last = layers[-1] if layers else ("", None)
    return name, last if isinstance(last, nn.Linear) else None
