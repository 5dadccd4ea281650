"""The columns of every table, in their order, and the types of their cells.

People script against them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leakbench.base.errors import BrokenFile

Row = dict[str, Any]


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


RESULTS = _names(
    """
    run task defense defense_params wrappers seed attack attack_params rung observer knowledge
    stage round probe metric leaks value low high interval n unit floor floor_low floor_high
    control control_low control_high failed flags engine device dtype version commit
    """
)
TRADEOFF = _names(
    """
    task defense defense_params wrappers seeds utility_metric utility utility_low utility_high
    chance attack attack_params rung observer knowledge stage round probe metric leaks value low
    high interval n unit floor floor_low floor_high control control_low control_high flags
    on_front claimed claimed_low claimed_high claimed_source utility_flags
    """
)
UTILITY = _names(
    """
    task defense defense_params wrappers seeds rounds metric statistic value low high n chance
    flags claimed claimed_low claimed_high claimed_source
    """
)
MISSING = _names("task defense defense_params attack metric reason")
DIAGNOSTICS = _names("run round name value")
PRIVACY = _names(
    """
    run task defense defense_params wrappers seed adjacency epsilon delta messages why proven
    attack pairs guesses right tried unproven broken
    """
)
UNITS = _names("role metric round probe unit cluster score failed accepted settled")

TABLES: dict[str, tuple[str, ...]] = {
    "results": RESULTS,
    "tradeoff": TRADEOFF,
    "utility": UTILITY,
    "missing": MISSING,
    "diagnostics": DIAGNOSTICS,
    "privacy": PRIVACY,
}

# In a run folder.
RUN_UTILITY = _names("round metric value low high n unit")
RUN_DIAGNOSTICS = _names("round name value")
# Rounds whose loss is kept, evaluated or not: of the untrained model; and where clients have first
# heard from each other, so that what pushes them apart is in it.
BEGINNING = 2

FLOATS = _names(
    """
    value low high floor floor_low floor_high control control_low control_high score utility
    utility_low utility_high chance claimed claimed_low claimed_high
    """
)
WHOLE = _names("seed round n failed")
BOOLEANS = _names("probe accepted settled on_front")

# Columns of text, which need no reading.
_TEXT = {c for of in (*TABLES.values(), RUN_UTILITY, RUN_DIAGNOSTICS, UNITS) for c in of}
_TEXT -= {*FLOATS, *WHOLE, *BOOLEANS, "defense_params", "wrappers", "attack_params"}
_TEXT = {c for c in _TEXT if not c.startswith("claimed")}

# The attacker's strength, weakest first.
RUNGS = _names("paper transcript method public")
OBJECTS = _names("defense_params wrappers attack_params")  # as canonical JSON
STAGES = _names("untrained early middle final before after all curve")
FLAGS = _names(
    """
    control_failed dead_run undertrained curve_unknown one_seed few_seeds few_units failed_units
    oracle_prototypes oracle_labels probe loss_did_not_fall gradient_vanished below_class_mean
    restarts_disagree other_engine stand_in_data unofficial_data outside mixed_code stale_run
    stale_attack isolated submitted no_control weaker_observer
    """
)


def typed(row: Mapping[str, str], path: Path) -> Row:
    """Cells of a CSV as Python values, by their column.

    Raises:
        BrokenFile: a number is not one, or not finite; a boolean is neither true nor false.
    """
    try:
        return {k: v if k in _TEXT else _value(k, v) for k, v in row.items()}
    except ValueError as error:
        raise BrokenFile(f"{path} is damaged ({error}). Make it again.") from None


def _value(column: str, text: str) -> Any:
    if column in OBJECTS:
        json.loads(text)  # whoever reads it takes it apart
    if column.startswith("claimed") and not text:  # no paper gives this number
        return ""
    if column in FLOATS:
        number = float(text)
        if not math.isfinite(number):
            raise ValueError(f"{column} is {text}")
        return number
    # A count in results.csv, yes or no in units.csv.
    if column == "failed" and text in ("true", "false"):
        return text == "true"
    if column in WHOLE:
        return int(text)
    if column in BOOLEANS:
        if text not in ("true", "false"):
            raise ValueError(f"{column} is {text!r}, neither true nor false")
        return text == "true"
    return text
