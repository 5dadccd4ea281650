"""`leakage.json`: what leaked when somebody last looked, reviewed like code.

It is small and sorted: a line for every number, below its setting. What only a machine reads (unit
scores, hashes, sketches) lies beside it in `leakage.units.json`, and the one is bound to the other.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from leakbench.base.errors import BrokenFile, UsageError
from leakbench.base.files import read_json, write_bytes
from leakbench.base.meaning import Meaning
from leakbench.base.plain_text import plain_text
from leakbench.base.reason import Reason, reason
from leakbench.base.spec import canonical
from leakbench.gate import units_file
from leakbench.gate.bounds import impossible
from leakbench.gate.limits import parse
from leakbench.gate.row import UTILITY, GateRow
from leakbench.gate.row_fields import DEFAULTS, fields_of, key_at, meant, row_of
from leakbench.gate.row_names import by_name, labelled
from leakbench.gate.sketch import Sketch, sketch
from leakbench.gate.terms import Terms

BASELINE_SCHEMA = 2
_DIGITS = 6
_SAME = (  # of all rows of a setting, as a rule
    *("called", "task", "defense", "defense_params", "wrappers", "setting", "record"),
    *("engine", "dtype", "run_schema", "provenance"),
)
_NAMED = ("rung", "metric", "stage", "probe", "attack")  # what a row's name says


@dataclass(frozen=True)
class Baseline:
    """The rows of a leakage.json, sorted by key.

    ``limits``: texts such as "p_leak<=0.2", held at every check. ``looks``: after how many seeds a
    row may be looked at; none: once, at whatever there is. ``terms``: what the SPEC asked for when
    it was written, where a SPEC asked. ``unbound``: what it cannot say of itself,
    for it has the form of an older leakbench. ``hollow``: a file that has no rows was read, so that
    nothing can be told by it; False where there is no baseline.
    """

    rows: tuple[GateRow, ...]
    limits: tuple[str, ...] = ()
    looks: tuple[int, ...] = ()
    terms: Terms | None = None
    unbound: tuple[Reason, ...] = ()
    hollow: bool = False

    @property
    def metrics(self) -> dict[str, Meaning]:
        """{metric: its meaning}, of all that the rows know."""
        known = [(r.metric, r.meaning) for r in self.rows if r.stated]
        return dict(sorted(known, key=lambda item: item[0]))

    @classmethod
    def of(
        cls,
        rows: Iterable[GateRow],
        limits: Sequence[str] = (),
        looks: Sequence[int] = (),
        terms: Terms | None = None,
    ) -> Baseline:
        """Sorted, with the names of settings and attacks; those that have names keep them.

        Raises:
            UsageError: two rows have the same name.
        """
        every = list(rows)
        known = {r.configuration.key: r.label for r in every if r.label}
        named = [r if r.label else None for r in every]
        fresh = iter(labelled([r for r in every if not r.label], known))
        kept = sorted((r or next(fresh) for r in named), key=lambda r: r.key)
        by_name(kept)
        return cls(tuple(kept), tuple(limits), tuple(looks), terms)

    def by_name(self) -> dict[str, GateRow]:
        """{name: row}."""
        return by_name(self.rows)


def load_baseline(path: Path) -> Baseline:
    """A leakage.json with what lies beside it; an empty one is a baseline without rows.

    Raises:
        UsageError: there is none.
        BrokenFile: it is damaged, has two rows of one name, a value that its scores do not give, is
            not of the units beside it, or has a newer schema.
    """
    try:
        if path.is_file() and not plain_text(path).strip():
            return Baseline((), hollow=True)
    except (OSError, UnicodeDecodeError):
        pass  # read_json says it in one sentence
    if not path.exists():
        raise UsageError(
            f"no baseline {path}. Write one with `leakbench check RUN... --baseline {path}"
            " --update`, and commit it with the file of units beside it."
        )
    value = read_json(path, BASELINE_SCHEMA)
    if not isinstance(value, dict):
        raise _damaged(path, "it is no object")
    try:
        found = _read(path, value)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        where = key_at(problem["loc"])
        raise _damaged(path, f"{where}: {problem['msg']}") from None
    except BrokenFile:
        raise
    except (UsageError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise _damaged(path, str(error)) from None
    for row in found.rows:
        if why := impossible(row):
            raise _damaged(path, why)
    return replace(found, hollow=not found.rows)


def _read(path: Path, value: Mapping[str, Any]) -> Baseline:
    """Both files; those of schema 1 were one, with a flat list of rows."""
    metrics = {n: Meaning.recorded(n, about) for n, about in value.get("metrics", {}).items()}
    sketches: Mapping[str, Any] = {}
    if "settings" in value:
        beside = units_file.units_path(path)
        units = units_file.load_units(beside, str(value.get("units")), path)
        sketches = units.sketches
        flat = list(_flat(value["settings"], units.rows, metrics))
    else:
        flat = [{"fields": row} for row in _listed(value, "rows")]
    rows = []
    for one in flat:
        fields = dict(one["fields"])
        units_of, written = fields.pop("units", None), fields.pop("written", None)
        row = row_of(fields, metrics.get(fields.get("metric", "")))
        both = (*row.units.guesses.values(), *row.units.truths.values())
        hashes = {sha for of in both for sha in of}
        told = {
            "sketches": {sha: sketches[sha] for sha in hashes & sketches.keys()},
            "label": one.get("label", ""),
            "tag": one.get("tag", ""),
            "written": None if row.allowed == written else written,
        }
        rows.append(row.model_copy(update=told))
        if units_of is not None and units_of != units_file.units_digest(row.units):
            raise ValueError(f"the units of {rows[-1].name} are not those of its row")
    limits, looks = _listed(value, "limits"), _listed(value, "looks")
    if not all(isinstance(x, str) for x in limits):
        raise ValueError("limits: expected texts such as 'METRIC<=0.2'")
    whole = all(isinstance(k, int) and not isinstance(k, bool) for k in looks)
    if not whole or looks != sorted(set(looks)) or min(looks, default=2) < 2:
        raise ValueError("looks: expected rising numbers of seeds from 2 on, such as [5, 8, 12]")
    terms = None if value.get("ci") is None else Terms.build(value["ci"], "ci")
    for limit in terms.limits if terms else ():
        parse(limit)
    found = Baseline.of(rows, limits, looks, terms)
    older = (reason("older_baseline"),) if rows and "settings" not in value else ()
    return replace(found, unbound=older)


def _listed(value: Mapping[str, Any], key: str) -> list[Any]:
    found = value.get(key, [])
    if not isinstance(found, list):
        raise ValueError(f"no list of {key}" if key == "rows" else f"{key} is no list")
    return found


def _flat(
    settings: Mapping[str, Any], units: Mapping[str, Any], metrics: Mapping[str, Meaning]
) -> Iterable[dict[str, Any]]:
    """Every row as one object: what its setting, its name, its line and its units say."""
    lacking = set(units)
    for label, setting in settings.items():
        seeds = set[str]()
        for short, line in setting["rows"].items():
            name = f"{label}/{short}"
            if name not in units:
                raise ValueError(f"{name} has no units in the file beside it")
            lacking.discard(name)
            seeds |= units[name]["scores"].keys()
            tag, said = _said(short)
            if said["metric"] in metrics:
                said |= meant(metrics[said["metric"]], utility=tag == UTILITY)
            own = dict(units[name])
            written = own.pop("margin", None)  # that of the line, or of its metric, holds
            told = {**setting["about"], **said, **line, **own}
            yield {"label": label, "tag": tag, "fields": told | {"written": written}}
        if sorted(map(int, seeds)) != setting["seeds"]:
            raise ValueError(f"{label}: its seeds are not those of the units beside it")
    if lacking:
        raise ValueError(f"{min(lacking)} stands only in the file of units beside it")


def _said(short: str) -> tuple[str, dict[str, Any]]:
    """The attack's name in it, and what a row's name within its setting says."""
    parts = short.split("/")
    if parts[0] == UTILITY and len(parts) == 2:
        return UTILITY, {"attack": UTILITY, "rung": "", "metric": parts[1], "stage": "final"}
    if len(parts) not in (4, 5) or parts[4:] not in ([], ["probe"]):
        raise ValueError(f"{short!r} is no name of a row: expected ATTACK/RUNG/METRIC/STAGE")
    tag, rung, metric, stage = parts[:4]
    probe = len(parts) == 5
    attack = tag.partition(":")[0]
    return tag, {"attack": attack, "rung": rung, "metric": metric, "stage": stage, "probe": probe}


def _damaged(path: Path, why: str) -> BrokenFile:
    return BrokenFile(
        f"{path} is damaged ({why}). Take it from version control, or write it again with --update."
    )


def save_baseline(path: Path, baseline: Baseline) -> None:
    """Write both files, each in one step, the units first.

    Raises:
        UsageError: the place cannot be written.
        BrokenFile: a file of the runs cannot be read.
    """
    sketches: dict[str, Sketch] = {}
    for row in baseline.rows:
        sketches |= row.sketches
        for sha, files in row.files.items():
            if sha not in sketches:
                sketches[sha] = sketch(files)
    body = units_file.text({r.name: r for r in baseline.rows}, sketches)
    settings: dict[str, list[GateRow]] = defaultdict(list)
    for row in baseline.rows:
        settings[row.label].append(row)
    known = baseline.metrics
    told = ",\n".join(_setting(label, settings[label], known) for label in sorted(settings))
    lines = (f"  {json.dumps(name)}: {canonical(_about(m))}" for name, m in known.items())
    metrics = ",\n".join(lines)
    limits = ",\n".join(f"  {json.dumps(limit)}" for limit in baseline.limits)
    fields = [f' "ci": {canonical(baseline.terms.parameters())}'] if baseline.terms else []
    fields += [
        f' "limits": [\n{limits}\n ]' if limits else ' "limits": []',
        f' "looks": {json.dumps(baseline.looks)}',
        f' "metrics": {{\n{metrics}\n }}',
        f' "schema": {BASELINE_SCHEMA}',
        f' "settings": {{\n{told}\n }}',
        f' "units": "{hashlib.sha256(body).hexdigest()}"',
    ]
    write_bytes(units_file.units_path(path), body)
    write_bytes(path, ("{\n" + ",\n".join(fields) + "\n}\n").encode())


def _setting(label: str, rows: Sequence[GateRow], metrics: Mapping[str, Meaning]) -> str:
    """A setting: what all its rows say, and a line for each."""
    told = [_line(r, metrics) for r in rows]
    about = {}
    for key in _SAME:
        values = {canonical(t.get(key)) for t in told}
        if len(values) == 1 and key in told[0]:
            about[key] = told[0][key]
    lines = []
    for row, fields in sorted(zip(rows, told, strict=True), key=lambda both: both[0].short):
        own = {k: v for k, v in fields.items() if k not in about}
        own["units"] = units_file.units_digest(row.units)
        lines.append(f"    {json.dumps(row.short)}: {_text(own)}")
    said = ",\n".join(f"    {json.dumps(k)}: {_text(about[k])}" for k in sorted(about))
    body = ",\n".join(lines)
    seeds = sorted({seed for row in rows for seed in row.units.scores})
    about_it = f'   "about": {{\n{said}\n   }},\n'
    inner = f'{about_it}   "rows": {{\n{body}\n   }},\n   "seeds": {json.dumps(seeds)}'
    return f"  {json.dumps(label)}: {{\n{inner}\n  }}"


def _line(row: GateRow, metrics: Mapping[str, Meaning]) -> dict[str, Any]:
    """What stands in the reviewed file: no units, nothing that is as it is by default."""
    known = meant(metrics[row.metric], utility=row.is_utility) if row.stated else {}
    usual, kept = {**DEFAULTS, **known}, {}
    for key, value in fields_of(row).items():
        if key in units_file.FIELDS or key in _NAMED:
            continue
        if key in usual and value == usual[key]:
            continue
        kept[key] = float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value
    return kept


def _about(meaning: Meaning) -> dict[str, Any]:
    """A metric without what is as it is by default."""
    fields = type(meaning).model_fields
    needed = ("low", "high", "unit", "share", "version")
    told = meaning.parameters()
    return {k: v for k, v in told.items() if k in needed or v != fields[k].default}


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, allow_nan=False)
