"""torch, loaded when it is first used.

What there is, what a metric means and what a method declares is said without it, and it takes
seconds to load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch as torch
else:
    import lazy_loader

    torch = lazy_loader.load("torch")
