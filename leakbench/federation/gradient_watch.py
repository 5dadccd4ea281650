"""Refuses what a loss asks of a gradient that side by side is everybody's; imports torch.

By torch's own means for it, in the thread that computes the loss alone: nothing of torch is
replaced, and what other threads do meanwhile is theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

NAMES = ("requires_grad", "is_leaf", "grad_fn")
# As torch itself calls them when a tensor is asked.
ASKED = {getattr(torch.Tensor, name).__get__: name for name in NAMES}


class GradientWatch(TorchFunctionMode):
    """Meanwhile nobody hangs a hook on a gradient, nor asks where a hook could be hung.

    Nor is it told of a tensor of many clients whether it has a gradient: ``vmap`` denies it of
    every one.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Do it, unless it is refused.

        Raises:
            RuntimeError: it is.
        """
        name = _asks(func)
        if not name:
            return func(*args, **kwargs) if kwargs else func(*args)
        if func is torch.Tensor.register_hook:
            raise RuntimeError(
                "the loss hangs a hook on a gradient, which side by side is everybody's"
            )
        value, many = None, torch._C._functorch.peek_interpreter_stack() is not None
        if func in ASKED:
            value = func(*args)
            many = torch._C._functorch.is_batchedtensor(args[0])
        if many or (name == "grad_fn" and value is not None):
            raise RuntimeError(f"the loss reads `{name}`, which side by side is nobody's")
        return value if func in ASKED else func(*args, **(kwargs or {}))


@cache
def _asks(func: Callable[..., Any]) -> str:
    """Which of ``NAMES`` it reads, itself or, as ``torch.autograd.grad`` does, on its way."""
    code = getattr(func, "__code__", None)
    read = code.co_names if code else ()
    return ASKED.get(func, "") or next((name for name in NAMES if name in read), "")
