"""How the clients of a round train several steps on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from leakbench.base.lazy import torch
from leakbench.federation.batches import Plan
from leakbench.federation.engines import Engine
from leakbench.federation.task_data import TaskData
from leakbench.models.convolution import Convolution

if TYPE_CHECKING:
    from torch import nn

Way = Literal["loop", "stacked", "threads"]
WAYS: tuple[str, ...] = get_args(Way)
# Measured (docs/speed.md): side by side wins where a step reads so few numbers and trains so few
# weights that a library takes longer to begin its layers than to compute them.
INPUTS, WEIGHTS = 2**13, 2**17


def _convolves(module: nn.Module) -> bool:
    """Has it convolutions that are no products? With weights that differ they are slow at once."""
    kinds = torch.nn.modules.conv._ConvNd
    return any(isinstance(m, kinds) and not isinstance(m, Convolution) for m in module.modules())


def choice(engine: Engine, module: nn.Module, plan: Plan, data: TaskData) -> Way:
    """The way of a training that ``plan`` describes, where nobody asked for one."""
    if engine in WAYS:
        way: Way = engine  # type: ignore[assignment]
        return way
    if len(plan.chosen) == 1:
        return "loop"
    inputs = max(plan.sizes(0), default=0) * data.train.stored[0].numel()
    weights = sum(v.numel() for v in module.parameters())
    if inputs <= INPUTS and weights <= WEIGHTS and not _convolves(module):
        return "stacked"
    if plan.chosen.is_cuda or len(plan.chosen) < torch.get_num_threads():
        return "loop"
    return "threads"
