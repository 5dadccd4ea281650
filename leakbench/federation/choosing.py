"""How the clients of a round train several steps on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from leakbench.base.lazy import torch
from leakbench.federation.engines import LocalTraining
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


def small(numbers: int, weights: int) -> bool:
    """Is a step over so fast that beginning its layers is most of it?

    ``numbers`` that it reads, and ``weights`` of its network.
    """
    return numbers <= INPUTS and weights <= WEIGHTS


def shared_by(numbers: int, weights: int) -> int:
    """How many threads share one sum, which decides its last bits: the work alone says it.

    Not how many jobs there are: then the same run would have other bytes beside others. One where
    the work is ``small``: on a machine that does something else, too, threads wait for each other
    longer than they compute. Else as many as torch was given.
    """
    return 1 if small(numbers, weights) else torch.get_num_threads()


def choice(local: LocalTraining, clients: int, data: TaskData) -> Way:
    """The way in which so many clients do the training ``local``, where nobody asked for one."""
    if clients == 1:
        return "loop"
    module = local.runner.module
    numbers = min(local.runner.method.batch, max(data.sizes)) * data.train.stored[0].numel()
    weights = sum(v.numel() for v in module.parameters())
    if small(numbers, weights) and not _convolves(module):
        return "stacked"
    if not data.counts.is_cpu or clients < torch.get_num_threads():
        return "loop"
    return "threads"
