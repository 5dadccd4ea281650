"""`leakage.units.json`: what of a baseline only a machine reads.

For every row the unit scores, clusters, failures, the margin, and hashes of guesses, truths and
code; for every hash the sketch of what it is of. Names of units, the same in many seeds, stand
once. What of it another machine makes alike is under a digest in the row that people review.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakbench.base.errors import BrokenFile
from leakbench.base.files import plain, read_json
from leakbench.base.spec import canonical
from leakbench.gate.row import GateRow, SeedUnits
from leakbench.gate.sketch import Sketch

UNITS_SCHEMA = 2
DIGITS = 5  # of scores, as far as machines agree
FIELDS = tuple(SeedUnits.model_fields)


@dataclass(frozen=True)
class Units:
    """{row: its fields}, {SHA-256: sketch}."""

    rows: Mapping[str, Mapping[str, Any]]
    sketches: Mapping[str, Sketch]


def units_path(path: Path) -> Path:
    """Where the units of the baseline ``path`` lie."""
    return path.with_name(f"{path.stem}.units.json")


def text(rows: Mapping[str, GateRow], sketches: Mapping[str, Sketch]) -> bytes:
    """The file, a line for each row."""
    lists: dict[str, int] = {}
    lines = []
    for name in sorted(rows):
        own = rows[name].units.model_dump(mode="json") | {"margin": rows[name].allowed}
        scores = {}
        for seed, units in own["scores"].items():
            names = _text(sorted(units))
            at = lists.setdefault(names, len(lists))
            scores[seed] = [at, [units[unit] for unit in sorted(units)]]
        own["scores"] = scores
        lines.append(f"  {json.dumps(name)}: {_text(own)}")
    known = [f"  {json.dumps(k)}: {_text(s.parameters())}" for k, s in sorted(sketches.items())]
    parts = [
        ' "rows": {\n' + ",\n".join(lines) + "\n }",
        f' "schema": {UNITS_SCHEMA}',
        ' "sketches": {\n' + ",\n".join(known) + "\n }",
        ' "units": [\n' + ",\n".join(f"  {names}" for names in lists) + "\n ]",
    ]
    return ("{\n" + ",\n".join(parts) + "\n}\n").encode()


def units_digest(units: SeedUnits) -> str:
    """Of what the units of a row say: who changes them has to change the row."""
    scores = {}
    for seed, of in units.scores.items():
        scores[seed] = {unit: f"{score:.{DIGITS}g}" for unit, score in of.items()}
    said = {"scores": scores, "code": units.code, "entered": units.entered}
    said |= {what: getattr(units, what) for what in ("clusters", "failed", "unsettled")}
    return hashlib.sha256(canonical(said).encode()).hexdigest()[:16]


def load_units(path: Path, sha: str, of: Path) -> Units:
    """The units that the baseline ``of`` was written with, ``sha`` being their SHA-256 there.

    Raises:
        BrokenFile: they are missing, damaged or others.
        ValueError, TypeError, KeyError, IndexError: the file is not of this form.
    """
    plain(path, f"It belongs beside {of}: take both from version control.")
    if hashlib.sha256(path.read_bytes()).hexdigest() != sha:
        raise BrokenFile(
            f"{path} is not the file that {of} was written with. Take both from version control,"
            " or write them again with --update."
        )
    value = read_json(path, UNITS_SCHEMA)
    lists = value["units"]
    rows = {}
    for name, fields in value["rows"].items():
        if others := sorted(fields.keys() - {*FIELDS, "margin"}):
            raise ValueError(f"{name} says {others[0]!r}, which stands in {of.name} alone")
        scores = {}
        for seed, (at, values) in fields["scores"].items():
            scores[seed] = dict(zip(lists[at], values, strict=True))
        rows[name] = {**fields, "scores": scores}
    sketches = {}
    for sha256, about in value["sketches"].items():
        sketches[sha256] = Sketch.model_validate_json(json.dumps(about))
    return Units(rows, sketches)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, allow_nan=False, separators=(",", ":"))
