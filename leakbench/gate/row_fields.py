"""A row as both files of a baseline have it, one object of plain values: made and read here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic_core import to_jsonable_python

from leakbench.base.meaning import Meaning
from leakbench.gate.row import OTHER_WAY, UTILITY, GateRow, SeedUnits, TrainingRecord

# Part of a row -> its field -> the key that it has in the files.
_PARTS: Mapping[str, Mapping[str, str]] = {
    "configuration": {
        "task": "task",
        "defense": "defense",
        "params": "defense_params",
        "wrappers": "wrappers",
    },
    "attacker": {"name": "attack", "params": "attack_params", "rung": "rung"},
    "value": {name: name for name in ("value", "low", "high", "unit")},
    "training": {name: name for name in TrainingRecord.model_fields},
    "units": {name: name for name in SeedUnits.model_fields},
}
_MEANING = ("metric", "worse", "share", "range", "version")
_OWN = (
    *("stage", "probe", "flags", "floor", "control", "control_low", "control_high"),
    *("accepted", "margin", "named"),
)
_DROPPED = "utility"  # in files of schema 1, beside each leakage; it has a row of its own
KEYS = (*(key for names in _PARTS.values() for key in names.values()), *_MEANING, *_OWN)
_FIELDS = {**TrainingRecord.model_fields, **GateRow.model_fields}
DEFAULTS: Mapping[str, Any] = {
    **{"attack_params": {}, "wrappers": [], "probe": False, "flags": [], "version": 1},
    **{name: field.default for name, field in _FIELDS.items() if not field.is_required()},
}


def fields_of(row: GateRow) -> dict[str, Any]:
    """{key: JSON value}, of all ``KEYS``."""
    out = {**meant(row.meaning, utility=row.is_utility), "metric": row.metric}
    for part, names in _PARTS.items():
        own = getattr(row, part)
        out |= {key: getattr(own, name) for name, key in names.items()}
    out |= {key: getattr(row, key) for key in _OWN} | {"flags": sorted(row.flags)}
    told: dict[str, Any] = to_jsonable_python(out)
    return told


def row_of(fields: Mapping[str, Any], metric: Meaning | None) -> GateRow:
    """The row that the fields tell of.

    Args:
        fields: JSON values by key; what is missing is as it is by default.
        metric: what is known of its metric; None: nothing but what the fields say.

    Raises:
        ValueError: a key is unknown, a value missing, of the wrong type or out of range.
    """
    left = {**{key: DEFAULTS[key] for key in ("probe", "flags", "version")}, **fields}
    left.pop(_DROPPED, None)
    row: dict[str, Any] = {}
    for part, names in _PARTS.items():
        row[part] = {name: left.pop(key) for name, key in names.items() if key in left}
    if lacking := [key for key in _MEANING if key not in left]:
        raise ValueError(f"{lacking[0]}: Field required")
    about = {key: left.pop(key) for key in _MEANING}
    if others := sorted(left.keys() - set(_OWN)):
        raise ValueError(f"{others[0]!r} is no key of a row")
    utility, unit = row["attacker"].get("name") == UTILITY, row["value"].get("unit")
    meaning = _meaning(about, unit, metric, utility=utility)
    row["value"] |= {"n": 0, "interval": ""}  # by its units, and not recorded
    row |= {**left, "meaning": meaning.parameters(), "stated": metric is not None}
    return GateRow.model_validate_json(json.dumps(row), strict=True)


def key_at(place: tuple[int | str, ...]) -> str:
    """The key at which validation found a fault."""
    part, *rest = place
    if part in _PARTS and rest:
        part, *rest = _PARTS[str(part)].get(str(rest[0]), rest[0]), *rest[1:]
    return ".".join(map(str, (part, *rest)))


def meant(meaning: Meaning, *, utility: bool) -> dict[str, Any]:
    """The keys that the metric says of its rows; a utility is lost where it goes the other way."""
    way = meaning.direction
    return {
        "worse": OTHER_WAY[way] if utility else way,
        "share": meaning.share,
        "range": [meaning.low, meaning.high],
        "unit": meaning.unit,
        "version": meaning.version,
    }


def _meaning(
    about: Mapping[str, Any], unit: Any, metric: Meaning | None, *, utility: bool
) -> Meaning:
    """The metric's, but for what the row says otherwise."""
    if not isinstance(about["range"], list) or len(about["range"]) != 2:
        raise ValueError("range: expected its two ends")
    worse, (low, high) = about["worse"], about["range"]
    way = OTHER_WAY.get(worse, worse) if utility else worse
    told = {"direction": way, "low": low, "high": high}
    told |= {"share": about["share"], "version": about["version"]}
    if metric is None:
        return Meaning.recorded(about["metric"], {**told, "unit": unit})
    if all(getattr(metric, name) == value for name, value in told.items()):
        return metric
    known = {**metric.parameters(), "margin": metric.matters}
    return Meaning.build({**known, **told}, f"metric {metric.name}")
