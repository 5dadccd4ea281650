"""A party makes new tensors. Writing into one that it was given would change what others hold, or be lost unnoticed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from leakbench.errors import MethodError
from leakbench.tree import Tree, flat


@contextmanager
def unwritten(who: str, given: Tree) -> Iterator[None]:
    """Nothing in ``given`` is written to meanwhile; rows and views of a tensor count as the tensor.

    Raises:
        MethodError: naming the function ``who`` and the tensor.
    """
    leaves = [(name, t) for name, leaf in flat(given).items() for t in (leaf if isinstance(leaf, list) else [leaf]) if t is not None]
    before = [t._version for _, t in leaves]
    yield
    for (name, t), version in zip(leaves, before, strict=True):
        if t._version != version:
            raise MethodError(f"{who} wrote into {name!r}, which it was given; assign a new tensor instead (x = x + 1, not x += 1).")
