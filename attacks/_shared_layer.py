"""Up to which stage a method's clients pass their data before they share it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leakbench.federation import Defense, Net

if TYPE_CHECKING:
    from torch import nn


def layer(method: Defense, module: nn.Module) -> str:
    """The method's ``layer``; the last stage but one where that is "" or not there."""
    return str(getattr(method, "layer", "")) or Net(module, {}).extractor
