"""What cannot be done for clients side by side: to look at, or change, a gradient on its way.

A hook sees the gradient of all of them at once: of their mean, say, where it means to clip each
one's. Who asks for a hook is refused, and the clients are trained one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from leakbench.base.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor, nn


@contextmanager
def no_hooks(module: nn.Module) -> Iterator[None]:
    """Losses that are computed meanwhile hang no hook on a gradient; nor does the module.

    Nor do they ask a weight whether it has a gradient, which ``vmap`` denies of every tensor.

    Raises:
        RuntimeError: one does. Every other way to train takes the loss as it is.
    """
    for name, part in module.named_modules():
        if part._backward_hooks or part._backward_pre_hooks:
            raise RuntimeError(f"the layer {name!r} has a hook on its gradient")
    kind: Any = torch.Tensor
    plain = kind.register_hook
    kind.register_hook, kind.requires_grad = _refused, property(_asked, _told)
    try:
        yield
    finally:
        kind.register_hook = plain
        del kind.requires_grad  # the one that it inherits


def _refused(tensor: Tensor, hook: Callable[..., Any]) -> NoReturn:
    raise RuntimeError("the loss hangs a hook on a gradient, which side by side is everybody's")


def _asked(tensor: Tensor) -> bool:
    if torch._C._functorch.is_batchedtensor(tensor):
        raise RuntimeError("the loss reads `requires_grad`, which side by side nobody knows")
    has: bool = torch._C.TensorBase.requires_grad.__get__(tensor)  # type: ignore[attr-defined]
    return has


def _told(tensor: Tensor, value: bool) -> None:
    torch._C.TensorBase.requires_grad.__set__(tensor, value)  # type: ignore[attr-defined]


def no_gradients_of_its_own(losses: Tensor) -> None:
    """Every derivative on the way to ``losses`` is torch's own, so that of a sum it is the sum.

    Raises:
        RuntimeError: an ``autograd.Function`` of somebody's is among them.
    """
    todo, seen = [losses.grad_fn], set()
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if isinstance(node, torch.autograd.function.BackwardCFunction):
            raise RuntimeError("the loss has a derivative of its own, and clients share weights")
        todo += [other for other, _ in node.next_functions]
