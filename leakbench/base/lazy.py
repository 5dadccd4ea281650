"""torch, loaded when it is first used.

What there is, what a metric means and what a method declares is said without it, and it takes
seconds to load.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch as torch
else:

    class _Torch(ModuleType):
        """Hands every question to torch.

        ``importlib.util.LazyLoader`` is not up to it: in CPython 3.13.0, 3.12.3 and 3.11.9 a module
        that is asked for itself while it is loaded, as torch is, asks without end.
        """

        def __getattribute__(self, name: str) -> Any:
            return getattr(_loaded(), name)

        def __setattr__(self, name: str, value: Any) -> None:
            setattr(_loaded(), name, value)

    @cache
    def _loaded() -> ModuleType:
        return import_module("torch")

    torch = _Torch("torch")
