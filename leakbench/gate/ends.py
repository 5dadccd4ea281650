"""Where a number cannot get worse, and where nothing is found."""

from __future__ import annotations

import math
from typing import Literal

from leakbench.gate.comparing import TINY, further
from leakbench.gate.row import GateRow


def room(row: GateRow) -> float:
    """How much worse the row's number can get at all, on the scale of its differences."""
    end = row.range[1] if row.worse == "up" else row.range[0]
    return math.inf if end is None else further(end, row.value, row, row)


def end_of(row: GateRow) -> Literal["", "ceiling", "floor"]:
    """Does it stand where it cannot get worse by half the margin, or where blind guesses stand?"""
    allowed = row.allowed
    if allowed is None:
        return ""
    if row.meaning is not None:  # a wide margin in the file makes no end
        allowed = min(allowed, row.meaning.matters)
    if room(row) <= allowed / 2 + TINY:
        return "ceiling"
    if row.floor is not None and further(row.value, row.floor, row, row) <= allowed + TINY:
        return "floor"
    return ""
