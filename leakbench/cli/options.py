"""From a SPEC.toml and what was typed to a plan: which runs `leakbench train` is to make."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leakbench.base import registry
from leakbench.base.errors import UsageError, alike, suggestion
from leakbench.base.plain_text import plain_text
from leakbench.cli import keys
from leakbench.cli.keys import Values, product
from leakbench.record.policy import Policy
from leakbench.record.setting_name import well_formed

_TOP = (
    *("name", "task", "rounds", "seeds", "engine", "dtype", "record"),
    *("wrapper", "defense", "attack", "ci"),
)


def _single(values: Values) -> dict[str, Any]:
    """Values that do not sweep.

    Raises:
        UsageError: one does.
    """
    for key, several in values.items():
        if len(several) != 1:
            example = f"[{','.join(map(str, several))}]"
            hint = f"a list in brackets, -s 'record.{key}={example}'"
            what = hint if key == "clients" else "a single value"
            raise UsageError(f"-s record.{key}: one record policy serves all runs; give {what}.")
    return {k: v[0] for k, v in values.items()}


@dataclass
class TrainPlan:
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
    name: str = ""  # of the setting, where there is one
    named: list[str] = field(default_factory=list)  # of each defense; empty: none has its own
    ci: dict[str, Any] = field(default_factory=dict)  # what `leakbench ci` reads

    def specs(self) -> Iterator[dict[str, Any]]:
        """Keyword arguments of ``leakbench.record.runspec.make_spec``, one for each run."""
        common = {
            "task": self.task,
            "rounds": self.rounds,
            "engine": self.engine,
            "dtype": self.dtype,
            "record": Policy.build(
                {"name": self.record, **_single(self.record_values)}, "--record"
            ),
            "attacks": self.attacks,
        }
        several = []
        for name, values in self.wrappers:
            several.append([(name, p) for p in product(values)])
        wraps = list(itertools.product(*several))
        called = self.named or [self.name] * len(self.defenses)
        for (name, values), mine in zip(self.defenses, called, strict=True):
            for params, task, wrapped, seed in itertools.product(
                product(values), product(self.task_values), wraps, self.seeds
            ):
                yield {
                    **common,
                    "defense": name,
                    "params": params,
                    "task_params": task,
                    "wrappers": list(wrapped),
                    "seed": seed,
                    "called": mine,
                }


def read_spec(path: Path) -> TrainPlan:
    """A SPEC.toml.

    Raises:
        UsageError: it does not exist, is not TOML, or holds a key that is not known.
    """
    if path.exists() and not path.is_file():  # a device has no end, and a pipe may never begin
        raise UsageError(f"{path} cannot be read as TOML (it is no file).")
    try:
        table = tomllib.loads(plain_text(path))
    except FileNotFoundError:
        raise UsageError(
            f"{path} does not exist: expected the path of a file, as SPEC.toml, that says what is"
            " trained and attacked."
        ) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path} cannot be read as TOML ({error}).") from None
    for key in table:
        if key not in _TOP:
            raise UsageError(f"{path}: unknown key {key!r}.{suggestion(key, _TOP)}")
    plan = TrainPlan()
    task = table.get("task", "digits")
    if isinstance(task, dict):
        name, plan.task_values = _method(task, f"{path}, task")
        plan.task = name
    else:
        plan.task = _task_called(_of_type(task, str, f"{path}: task"))
    _defenses(plan, table, path)
    plan.wrappers = [_method(w, f"{path}, wrapper") for w in _tables(table, "wrapper", path)]
    for name, values in (_method(a, f"{path}, attack") for a in _tables(table, "attack", path)):
        plan.attacks += [(name, p) for p in product(values)]
    plan.rounds = _of_type(table["rounds"], int, f"{path}: rounds") if "rounds" in table else None
    given = table.get("seeds", [0])
    seeds = given if isinstance(given, list) else [given]
    plan.seeds = [_of_type(s, int, f"{path}: seeds") for s in seeds]
    for key in ("engine", "dtype", "record"):
        value = table.get(key, getattr(plan, key))
        setattr(plan, key, _of_type(value, str, f"{path}: {key}"))
    plan.ci = table.get("ci", {})
    if not isinstance(plan.ci, dict):
        raise UsageError(f"{path}: ci must be written as a [ci] table.")
    return plan


def _defenses(plan: TrainPlan, table: Mapping[str, Any], path: Path) -> None:
    """The methods, and what their settings are called.

    Raises:
        UsageError: a name is none, or both the whole and a table of it have one.
    """
    tables, what = _tables(table, "defense", path), f"{path}, defense"
    plan.defenses = [_method(d, what, beside=("as",)) for d in tables]
    if any("as" in d for d in tables):
        plan.named = [_name(d["as"], f"{what}: as =") if "as" in d else "" for d in tables]
    if "name" in table:
        plan.name = _name(table["name"], f"{path}: name =")
        if plan.named:
            raise UsageError(
                f"{path}: name = {plan.name!r} is the one setting's, and a [[defense]] table has a"
                f" name of its own (as = {next(filter(None, plan.named))!r}); give one of them."
            )


def _name(value: Any, what: str) -> str:
    return well_formed(_of_type(value, str, what.removesuffix(" =")), what)


def _tables(table: Mapping[str, Any], key: str, path: Path) -> list[dict[str, Any]]:
    found = table.get(key, [])
    if not isinstance(found, list) or not all(isinstance(t, dict) for t in found):
        raise UsageError(f"{path}: {key} must be written as [[{key}]] tables, each with a name.")
    return found


def _method(
    table: Mapping[str, Any], what: str, *, beside: Sequence[str] = ()
) -> tuple[str, Values]:
    """A method's name and the values of its parameters: of all keys but those ``beside`` them."""
    if "name" not in table:
        raise UsageError(f'{what}: a table without a name; write name = "...".')
    given = {k: v for k, v in table.items() if k not in ("name", *beside)}
    values = {k: v if isinstance(v, list) else [v] for k, v in given.items()}
    return _of_type(table["name"], str, what), values


def _of_type(value: Any, kind: type, what: str) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        expected = "text" if kind is str else "a whole number"
        raise UsageError(f"{what} = {value!r}: expected {expected}.")
    return value


def _task_called(text: str) -> str:
    """The task's name; of a Python file that of the task in it."""
    return registry.task_in(text) if text.endswith(".py") else text


def amend(
    plan: TrainPlan,
    defenses: Sequence[str],
    wrappers: Sequence[str],
    given: Sequence[str],
    single: Mapping[str, Any],
    seeds: str | None,
    *,
    called: str | None = None,
) -> None:
    """Lay the command line over a SPEC.toml's plan.

    ``called``: the setting's name, in place of every name that the file gives.

    Raises:
        UsageError: there is no defense, or a key names nothing that is part of the run.
    """
    if defenses:
        plan.defenses, plan.named = [(name, {}) for name in keys.split_names(defenses)], []
    if called is not None:
        plan.name, plan.named = well_formed(called, "--as"), []
    plan.wrappers += [(name, {}) for name in keys.split_names(wrappers)]
    task = None if single["task"] is None else _task_called(single["task"])
    if task is not None and not alike(task, plan.task):
        plan.task, plan.task_values = task, {}
    for key in ("rounds", "engine", "dtype", "record"):
        if single[key] is not None:
            setattr(plan, key, single[key])
    if seeds is not None:
        plan.seeds = keys.seeds(seeds)
    if not plan.defenses:
        raise UsageError(
            "no defense was given. Name one with -d, for example leakbench train -d fedgn;"
            " `leakbench list defenses` shows them."
        )
    routed = keys.route(
        keys.settings(given), list(dict.fromkeys(name for name, _ in plan.defenses)), "defense"
    )
    owners = [*plan.wrappers, *plan.defenses]
    for owner, values in routed.items():
        if owner in ("task", "model"):
            plan.task_values.update(values)
        elif owner == "record":
            plan.record_values.update(values)
        elif any(alike(name, owner) for name, _ in owners):
            for _, own in (o for o in owners if alike(o[0], owner)):
                own.update(values)
        else:
            key = f"{owner}.{next(iter(values))}"
            parts = ["task", "model", "record", *(name for name, _ in owners)]
            raise UsageError(
                f"-s {key}: {owner!r} is no part of this run.{suggestion(owner, parts)}"
            )
