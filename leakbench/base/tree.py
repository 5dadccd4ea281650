"""A tree is a tensor or a dict of trees: the payload of a message, the state of a party."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from leakbench.base.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor

# Tensor | dict[str, Tree]; Any, because a recursive union costs a cast at every use.
Tree = Any


def tmap(f: Callable[..., Any], tree: Tree, *more: Tree) -> Tree:
    """Apply ``f`` leaf by leaf to trees of one shape."""
    if isinstance(tree, dict):
        out = {}
        for k, v in tree.items():
            out[k] = tmap(f, v, *(m[k] for m in more))
        return out
    return f(tree, *more)


def flat(tree: Tree, prefix: str = "") -> dict[str, Tensor]:
    """{"a": {"b": t}} -> {"a/b": t}; a bare tensor gets the name ``prefix``."""
    if not isinstance(tree, dict):
        return {prefix: tree}
    out: dict[str, Tensor] = {}
    for k, v in tree.items():
        out |= flat(v, f"{prefix}/{k}" if prefix else k)
    return out


def unflat(leaves: dict[str, Tensor]) -> Tree:
    """Inverse of ``flat``."""
    out: dict[str, Any] = {}
    for name, leaf in leaves.items():
        if name == "":
            return leaf
        *path, last = name.split("/")
        at = out
        for part in path:
            at = at.setdefault(part, {})
        at[last] = leaf
    return out


def stack(trees: Sequence[Tree]) -> Tree:
    """Stack leaf by leaf; leaves of unequal shape become a list (ragged)."""

    def join(*leaves: Tensor) -> Any:
        same = all(leaf.shape == leaves[0].shape for leaf in leaves)
        return torch.stack(leaves) if same else list(leaves)

    return tmap(join, *trees)


def row(tree: Tree, j: int | slice | Tensor) -> Tree:
    """The j-th client's part of a stacked tree; of several, a slice or (m,), theirs, stacked."""
    return tmap(lambda t: t[j], tree)


def each_row(f: Callable[[Tree], Tree], tree: Tree) -> Tree:
    """``f`` on every row of a stacked tree at once."""
    leaves: list[Tensor] = []  # vmap over plain tensors: nested dicts cost 0.3 ms a call
    tmap(leaves.append, tree)

    def on_rows(*rows: Tensor) -> Tree:
        left = iter(rows)
        return f(tmap(lambda _: next(left), tree))

    return torch.func.vmap(on_rows)(*leaves)


def nbytes(tree: Tree) -> int:
    """Bytes of all leaves together; a ragged leaf is a list of tensors."""
    total = 0
    for leaf in flat(tree).values():
        tensors = leaf if isinstance(leaf, list) else [leaf]
        total += sum(t.numel() * t.element_size() for t in tensors)
    return total
