"""A device with shapes and no numbers: what would wait for a GPU's numbers cannot go on.

Torch's ``meta`` tensors refuse ``int()``, ``bool()``, ``tolist()``, copies to the host, and shapes
that depend on numbers. (Fake tensors on a fake ``cuda`` device would do as well, but where there is
no GPU autograd refuses theirs.) They let pass some operations that mix devices, which this finds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

DEVICE = "meta"


class MixedDevicesError(AssertionError):
    """An operation got tensors of two devices."""


class OneDevice(TorchDispatchMode):
    """Inside it no operation gets tensors of two devices; single numbers of the host may come."""

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        given = tree_leaves((args, kwargs or {}))
        found = {t.device.type for t in given if isinstance(t, torch.Tensor) and t.dim()}
        if len(found) > 1:
            raise MixedDevicesError(f"{func} got tensors on {sorted(found)}")
        return func(*args, **(kwargs or {}))
