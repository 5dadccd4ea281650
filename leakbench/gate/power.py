"""What a baseline will be able to see: said when it is written, not when it is too late."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from leakbench.base.reason import Reason, reason
from leakbench.gate.comparison import end_of, flagged, room
from leakbench.gate.row import GateRow
from leakbench.statistics.differences import FEWEST_SEEDS, LEVEL
from leakbench.statistics.power import detectable, seeds_for_fine

POWER = 0.8


def foreseen(rows: Sequence[GateRow]) -> list[Reason]:
    """Of each row: what it can and cannot tell with these seeds; one for all at a ceiling.

    Where nothing changes, the guesses stay the same byte for byte, and any change of them is
    compared seed by seed; what is said here is of the hard case, in which all is drawn anew.
    """
    ends: dict[str, list[str]] = defaultdict(list)
    told = []
    for row in rows:
        if end_of(row) == "ceiling" and not flagged(row, row):
            ends[row.label].append(row.short)
        else:
            told.append(reason("sees", row=row.name, what=sight(row, len(rows))))
    for label, shorts in ends.items():
        of = sum(row.label == label for row in rows)
        told.append(reason("sees_nothing", setting=label, of=of, rows=tuple(shorts)))
    return told


def sight(row: GateRow, rows: int) -> Reason:
    """What can be told of one row among ``rows`` that are judged together."""
    if why := flagged(row, row):
        return reason("blind", of=why)
    end, seeds = end_of(row), len(row.units.scores)
    if end == "ceiling":
        return reason("blind_at_ceiling", value=row.value.value)
    about = {"value": row.value.value, "at_floor": bool(end), "seeds": seeds}
    if row.allowed is None or seeds < FEWEST_SEEDS:
        return reason("sight_of_few", **about)
    how = {**row.scoring, "log": row.meaning.scale == "log"}
    least = detectable(row.units.scores, **how, alpha=LEVEL / max(rows, 1), power=POWER)
    shown = None if least is None else max(least, row.allowed / 2)
    beyond = room(row)
    left = beyond if shown is not None and math.isfinite(beyond) and shown > beyond else None
    need = seeds_for_fine(row.units.scores, **how, margin=row.allowed)
    enough = need is not None and need <= seeds
    return reason("sight", **about, shown=shown, left=left, need=need, enough=enough)
