"""How many threads of torch's share a sum, which decides its last bits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from leakbench.base.lazy import torch


@contextmanager
def threads(count: int) -> Iterator[None]:
    """So many for a while."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
