"""From what was typed, or a SPEC.toml, to run specs and attacks: keys, values, sweeps, seeds."""

from __future__ import annotations

import itertools
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leakbench.errors import UsageError, suggestion
from leakbench.policy import Policy

Values = dict[str, list[Any]]  # key -> the values it sweeps over

_TOP = ("task", "rounds", "seeds", "engine", "dtype", "record", "wrapper", "defense", "attack")


def settings(given: Sequence[str]) -> Values:
    """{"sigma": [0.1, 0.3]} of `-s sigma=0.1,0.3`; a value is JSON, or else text; a comma list sweeps.

    Raises:
        UsageError: something has no `=`, or a key comes twice.
    """
    out: Values = {}
    for text in given:
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise UsageError(f"-s {text!r}: expected KEY=VALUE, for example -s sigma=0.1.")
        if key in out:
            raise UsageError(f"-s {key} was given twice; sweep with a comma list, for example -s {key}=1,2.")
        out[key] = [_value(v) for v in _listed(value)]
    return out


def _listed(text: str) -> list[str]:
    """Split at commas outside of brackets and quotes."""
    parts, depth, quoted, begin = [], 0, False, 0
    for i, c in enumerate(text):
        quoted ^= c == '"'
        depth += 0 if quoted else (c in "[{") - (c in "]}")
        if c == "," and not depth and not quoted:
            parts.append(text[begin:i])
            begin = i + 1
    return [*parts, text[begin:]]


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def seeds(text: str) -> list[int]:
    """`7` -> [7], `0-2` -> [0, 1, 2], `0,4,7` -> those.

    Raises:
        UsageError: it is neither.
    """
    out: list[int] = []
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        if not found or (found[2] and int(found[2]) < int(found[1])):
            raise UsageError(f"--seeds {text!r}: expected a seed, a range or a list, for example 7, 0-2 or 0,4,7.")
        out += range(int(found[1]), int(found[2] or found[1]) + 1)
    return list(dict.fromkeys(out))


def route(values: Values, names: Sequence[str], what: str) -> dict[str, Values]:
    """Whose key is it? A bare key belongs to the one method in ``names``, a dotted key to what it names.

    Raises:
        UsageError: a bare key with several methods named, or a dotted key that names none of them.
    """
    out: dict[str, Values] = {}
    for key, value in values.items():
        owner, dot, field_name = key.partition(".")
        if not dot:
            if len(names) != 1:
                several = f"with {len(names)} {what}s" if names else f"without a named {what}"
                example = f"{names[0]}.{key}" if names else f"NAME.{key}"
                raise UsageError(f"-s {key}: {several} only a dotted key says whose parameter it is; write -s {example}=VALUE.")
            owner, field_name = names[0], key
        out.setdefault(owner, {})[field_name] = value
    return out


def product(values: Values) -> Iterator[dict[str, Any]]:
    """Every combination of a sweep."""
    for combination in itertools.product(*values.values()):
        yield dict(zip(values, combination, strict=True))


def _single(values: Values) -> dict[str, Any]:
    """Values that do not sweep.

    Raises:
        UsageError: one does.
    """
    for key, several in values.items():
        if len(several) != 1:
            raise UsageError(f"-s record.{key}: one record policy serves all runs; give a single value.")
    return {k: v[0] for k, v in values.items()}


@dataclass
class Plan:
    """What `leakbench train` is to do; every value is a list that sweeps."""

    task: str = "digits"
    task_values: Values = field(default_factory=dict)
    defenses: list[tuple[str, Values]] = field(default_factory=list)
    wrappers: list[tuple[str, Values]] = field(default_factory=list)
    attacks: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    rounds: int | None = None
    seeds: list[int] = field(default_factory=lambda: [0])
    engine: str = "auto"
    dtype: str = "float32"
    record: str = "standard"
    record_values: Values = field(default_factory=dict)

    def specs(self) -> Iterator[dict[str, Any]]:
        """Keyword arguments of ``leakbench.runspec.make_spec``, one for each run."""
        common = {
            "task": self.task,
            "rounds": self.rounds,
            "engine": self.engine,
            "dtype": self.dtype,
            "record": Policy.build({"name": self.record, **_single(self.record_values)}, "--record"),
            "attacks": self.attacks,
        }
        wraps = [[(name, p) for p in product(v)] for name, v in self.wrappers]
        for name, values in self.defenses:
            for params, task, wrapped, seed in itertools.product(
                product(values), product(self.task_values), itertools.product(*wraps), self.seeds
            ):
                yield {**common, "defense": name, "params": params, "task_params": task, "wrappers": list(wrapped), "seed": seed}


def read_spec(path: Path) -> Plan:
    """A SPEC.toml.

    Raises:
        UsageError: it does not exist, is not TOML, or holds a key that is not known.
    """
    try:
        with path.open("rb") as file:
            table = tomllib.load(file)
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist. Give a SPEC.toml, or a defense with -d.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path} cannot be read as TOML ({error}).") from None
    for key in table:
        if key not in _TOP:
            raise UsageError(f"{path}: unknown key {key!r}.{suggestion(key, _TOP)}")
    plan = Plan()
    task = table.get("task", "digits")
    if isinstance(task, dict):
        name, plan.task_values = _method(task, f"{path}, task")
        plan.task = name
    else:
        plan.task = _of_type(task, str, f"{path}: task")
    plan.defenses = [_method(d, f"{path}, defense") for d in _tables(table, "defense", path)]
    plan.wrappers = [_method(w, f"{path}, wrapper") for w in _tables(table, "wrapper", path)]
    for name, values in (_method(a, f"{path}, attack") for a in _tables(table, "attack", path)):
        plan.attacks += [(name, p) for p in product(values)]
    plan.rounds = _of_type(table["rounds"], int, f"{path}: rounds") if "rounds" in table else None
    given = table.get("seeds", [0])
    plan.seeds = (
        [_of_type(s, int, f"{path}: seeds") for s in given] if isinstance(given, list) else [_of_type(given, int, f"{path}: seeds")]
    )
    for key in ("engine", "dtype", "record"):
        setattr(plan, key, _of_type(table.get(key, getattr(plan, key)), str, f"{path}: {key}"))
    return plan


def _tables(table: Mapping[str, Any], key: str, path: Path) -> list[dict[str, Any]]:
    found = table.get(key, [])
    if not isinstance(found, list) or not all(isinstance(t, dict) for t in found):
        raise UsageError(f"{path}: {key} must be written as [[{key}]] tables, each with a name.")
    return found


def _method(table: Mapping[str, Any], what: str) -> tuple[str, Values]:
    if "name" not in table:
        raise UsageError(f'{what}: a table without a name; write name = "...".')
    values = {k: v if isinstance(v, list) else [v] for k, v in table.items() if k != "name"}
    return _of_type(table["name"], str, what), values


def _of_type(value: Any, kind: type, what: str) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise UsageError(f"{what} = {value!r}: expected {'text' if kind is str else 'a whole number'}.")
    return value
