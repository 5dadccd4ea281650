"""What a baseline will be able to see: said when it is written, not when it is too late."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from leakbench.gate.comparison import end_of, flagged, room
from leakbench.gate.outcome_words import whole_reason
from leakbench.gate.row import GateRow
from leakbench.statistics.differences import FEWEST_SEEDS, LEVEL
from leakbench.statistics.power import detectable, seeds_for_fine

POWER = 0.8
_ENDS = {
    "ceiling": "at their ceiling, where nothing can get worse, and gate nothing",
    "floor": "no further than the margin from a blind guess",
}


def foreseen(rows: Sequence[GateRow]) -> list[str]:
    """A line for each row: what it can and cannot tell with these seeds; one for all at a ceiling.

    Where nothing changes, the guesses stay the same byte for byte, and any change of them is
    compared seed by seed; what is said here is of the hard case, in which all is drawn anew.
    """
    ends: dict[str, list[str]] = defaultdict(list)
    told = []
    for row in rows:
        if end_of(row) == "ceiling" and not flagged(row, row):
            ends[row.label].append(row.short)
        else:
            told.append(f"sees          {row.name}: {sight(row, len(rows))}")
    for label, shorts in ends.items():
        of = sum(row.label == label for row in rows)
        told.append(
            f"sees nothing  {label}: {len(shorts)} of {of} rows are {_ENDS['ceiling']}:"
            f" {', '.join(shorts)}"
        )
    return told


def sight(row: GateRow, rows: int) -> str:
    """What can be told of one row among ``rows`` that are judged together."""
    if why := flagged(row, row):
        return f"nothing: {whole_reason([why])}"
    end = end_of(row)
    if end == "ceiling":
        return f"nothing: {row.value:.4g} cannot get worse"
    told = [f"{row.value:.4g}", _ENDS["floor"]] if end else [f"{row.value:.4g}"]
    seeds = len(row.scores)
    if row.allowed is None or seeds < FEWEST_SEEDS:
        return ", ".join([*told, f"of {seeds} seed: only the same guesses are fine"])
    how = {**row.scoring, "log": row.means.scale == "log"}
    least = detectable(row.scores, **how, alpha=LEVEL / max(rows, 1), power=POWER)
    if least is not None:
        shown = max(least, row.allowed / 2)
        beyond = room(row)
        if math.isfinite(beyond) and shown > beyond:
            told.append(
                f"no worsening where all is drawn anew: only {beyond:.2g} is left to its ceiling"
            )
        else:
            told.append(f"worse by {shown:.2g} or more is found when all is drawn anew")
    need = seeds_for_fine(row.scores, **how, margin=row.allowed)
    if need is None or need > seeds:
        told.append(
            f"where nothing changes but the draws, {need or 'over 200'} seeds are needed to be fine"
        )
    return ", ".join(told) + f" (it has {seeds} seeds)"
