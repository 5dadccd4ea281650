"""Products of float32 as precise as float32, on a GPU as on a processor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from leakbench.base.lazy import torch


@contextmanager
def whole_float32() -> Iterator[None]:
    """No factor is rounded to ten bits for a while.

    So a GPU's convolutions do, unless told otherwise. What an attacker computes must be told from
    what the client did, and a thousandth of a gradient hides an image.
    """
    backend = torch.backends.cudnn
    kept = {"enabled": backend.enabled, "deterministic": backend.deterministic}
    with backend.flags(**kept, benchmark=backend.benchmark, allow_tf32=False):
        yield
