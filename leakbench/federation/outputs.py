"""What a network gives, and whether it is what is asked of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from leakbench.base.errors import UsageError
from leakbench.base.lazy import torch
from leakbench.models.stages import squashes

if TYPE_CHECKING:
    from torch import nn


def refuse_other_outputs(out: object, wide: int, *, logits: bool) -> None:
    """Raise UsageError where a network gives more or fewer numbers than ``wide``.

    Args:
        out: what it gave for some inputs, (B, ...).
        wide: how many are asked of it for each.
        logits: are these of classes? A single one is then left to ``refuse_one_output``.
    """
    given = (1, *out.shape[1:]) if isinstance(out, torch.Tensor) else type(out).__name__
    if given != (1, wide) and not (logits and given == (1, 1)):
        asked = f"{wide} classes" if logits else f"task.dim = {wide}"
        raise UsageError(
            f"the network gives {given} of one input, and the task has {asked}: let it end in"
            f" (B, {wide}), a number for each."
        )


def refuse_one_output(module: nn.Module, shape: Sequence[int], classes: int) -> None:
    """Raise UsageError where a network of one output does not say which of two classes it is."""
    if classes != 2:
        raise UsageError(
            f"the network has one output, and the task {classes} classes: give it an output for"
            " each; one alone is the logit of the second of two."
        )
    if squashes(module, shape):
        raise UsageError(
            "the network ends in a sigmoid: let it end before that, in the logit of the second"
            " class, and take the binary cross-entropy with logits."
        )
