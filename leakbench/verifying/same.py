"""Are two tensors files, or two tables, the same? Or the same but for the last bits?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from leakbench.base.tree import Tree, flat
from leakbench.record.columns import Row
from leakbench.verifying.finding import LAST_BITS

# Another processor adds in another order. What training makes of that within some rounds stays far
# below what another seed, method or data set makes.
NEAR = 1e-4
CELL = 1e-9  # of a number in a table that is computed in float64


def differing_tensors(found: Tree, made: Tree) -> str:
    """What differs between two trees of tensors; empty where all are equal.

    A text that begins with ``LAST_BITS`` where they differ by less than ``NEAR`` of the largest
    number in each tensor.
    """
    ours, theirs = flat(found), flat(made)
    apart = sorted(ours.keys() ^ theirs.keys())
    if apart:
        return f"{len(apart)} of {len(ours | theirs)} tensors are in one only, {apart[0]} first"
    worst, where = 0.0, ""
    for name, tensor in ours.items():
        other = theirs[name]
        if tensor.shape != other.shape or tensor.dtype != other.dtype:
            return f"{name} has another shape or type"
        by = _distance(tensor, other)
        if by > worst or math.isnan(by):
            worst, where = by, name
            if not by <= NEAR:
                return f"{where} differs by {by:.2g} of its largest number"
    return f"{LAST_BITS} ({worst:.1g} of the largest number in {where})" if worst else ""


def _distance(tensor: Tensor, other: Tensor) -> float:
    """The largest difference, as a part of the largest number; 1 where whole numbers differ."""
    if torch.equal(tensor, other):
        return 0.0
    if not tensor.is_floating_point():
        return 1.0
    a, b = tensor.double(), other.double()
    scale = float(torch.maximum(a.abs().max(), b.abs().max()))
    return float((a - b).abs().max()) / scale


def differing_tables(
    found: Sequence[Mapping[str, object]], made: Sequence[Row], near: float = CELL
) -> str:
    """What differs between two tables of typed cells; empty where they are equal.

    Numbers are equal where they differ by less than ``near`` of themselves.
    """
    if len(found) != len(made):
        return f"{len(found)} lines are there, {len(made)} are derived"
    for i, (ours, theirs) in enumerate(zip(found, made, strict=True), start=2):
        for column, value in theirs.items():
            if not _equal(ours.get(column), value, near):
                return f"line {i} has {column} = {ours.get(column)}, derived is {value}"
    return ""


def _equal(cell: object, value: object, near: float) -> bool:
    if isinstance(cell, float) and isinstance(value, float):
        return math.isclose(cell, value, rel_tol=near, abs_tol=CELL)
    return cell == value
