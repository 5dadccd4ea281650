"""Can a row of a baseline be what it says? Both of its files are text that anybody may edit."""

from __future__ import annotations

import math

from leakbench.gate.row import GateRow

ROUNDING = 1e-5  # of values that are written with six digits


def impossible(row: GateRow) -> str:
    """What of a row cannot be, a clause, or nothing."""
    if not row.units.scores or not row.units.known:
        return f"{row.name} has a seed without units"
    low, high = row.meaning.ends
    if row.margin is not None and row.margin >= high - low:
        return f"the margin of {row.name} is as wide as its range"
    if not all(isinstance(w.get("name"), str) for w in row.configuration.wrappers):
        return f"a wrapper of {row.name} has no name"
    if not all(isinstance(w.get("params", {}), dict) for w in row.configuration.wrappers):
        return f"the parameters of a wrapper of {row.name} are no object"
    if not math.isclose(row.value.value, row.mean, rel_tol=ROUNDING, abs_tol=ROUNDING):
        return f"the value of {row.name} is {row.value.value:.6g}, its scores give {row.mean:.6g}"
    return _beyond(row) or _miscounted(row)


def _beyond(row: GateRow) -> str:
    """A number outside the range of its metric, or outside its own interval."""
    e, said = row.value, {"floor": row.floor, "control": row.control}
    said |= {"value": e.value, "low": e.low, "high": e.high}
    said |= {"control_low": row.control_low, "control_high": row.control_high}
    numbers = {what: x for what, x in (said | {"accepted": row.accepted}).items() if x is not None}
    for seed, units in row.units.scores.items():
        numbers[f"a score of seed {seed}"] = min(units.values())
        numbers[f"another score of seed {seed}"] = max(units.values())
    low, high = row.meaning.ends
    for what, x in numbers.items():
        if not low - _slack(x) <= x <= high + _slack(x):
            return f"{what} of {row.name} is {x:.6g}, and its range {low:g} to {high:g}"
    between = (("low", "value", "high"), ("control_low", "control", "control_high"))
    for a, b in (pair for names in between for pair in ((names[0], names[1]), names[1:])):
        if a in numbers and b in numbers and numbers[a] > numbers[b] + _slack(numbers[b]):
            return f"{a} of {row.name} is above its {b}"
    return ""


def _miscounted(row: GateRow) -> str:
    """More failures than units, or something of a seed or a unit that the row does not have."""
    for what in ("failed", "unsettled", "guesses", "truths", "entered"):
        others = sorted((getattr(row.units, what) or {}).keys() - row.units.scores.keys())
        if others:
            return f"{what} of {row.name} names seed {others[0]}, which has no scores"
    for seed, units in row.units.scores.items():
        failed, unsettled = row.units.failed.get(seed, 0), row.units.unsettled.get(seed, 0)
        if min(failed, unsettled) < 0 or failed + unsettled > len(units):
            return (
                f"{row.name} has {len(units)} units of seed {seed}, {failed} of them failed and"
                f" {unsettled} open"
            )
    known = {unit for units in row.units.scores.values() for unit in units}
    strangers = sorted(row.units.clusters.keys() - known)
    return f"a cluster of {row.name} holds {strangers[0]}, which is no unit" if strangers else ""


def _slack(x: float) -> float:
    return ROUNDING * max(abs(x), 1.0)
