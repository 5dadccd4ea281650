"""Runs that differ in their seed alone are one configuration; nothing else is pooled."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leakbench.base.errors import UsageError
from leakbench.base.spec import canonical
from leakbench.record.columns import Row
from leakbench.record.folders import Run


@dataclass(frozen=True)
class Configuration:
    """What its rows are about. ``label``: the task column; the task's name, and more only where two
    configurations would look alike.
    """

    label: str
    runs: tuple[Run, ...]  # by seed, complete ones only
    others: tuple[Run, ...]  # failed or unfinished

    @property
    def one(self) -> Run:
        """Any of its runs: what is not the seed's is the same in all."""
        return (self.runs or self.others)[0]

    @property
    def columns(self) -> Row:
        """The columns that name it."""
        return {"task": self.label} | _named(self.one)

    @property
    def wrapped(self) -> bool:
        """Is anything on the wire besides the method?"""
        return bool(self.one.spec["wrappers"])

    @property
    def hides(self) -> bool:
        """Does it claim to hide anything?"""
        return bool(self.one.meta.get("hides", True))


def group(runs: Sequence[Run]) -> list[Configuration]:
    """The configurations of ``runs``, sorted.

    Engines are pooled (and flagged) as long as every seed is there once; a seed that is there
    twice, with two engines or recording policies, splits them.

    Raises:
        UsageError: two runs are the same seed of the same configuration.
    """
    coarse: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        coarse[canonical(_same(run))].append(run)
    groups: list[tuple[dict[str, Any], list[Run]]] = []
    for together in coarse.values():
        complete = [r.seed for r in together if r.done]
        if len(set(complete)) == len(complete):
            groups.append((_same(together[0]), together))
            continue
        fine: dict[str, list[Run]] = defaultdict(list)
        for run in together:
            fine[canonical(_finer(run))].append(run)
        groups += [(_finer(part[0]), part) for part in fine.values()]
    looks: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for facts, part in groups:
        looks[_look(part[0])].append(facts)
    out = [
        _configuration(part, _label(part[0], facts, looks[_look(part[0])]))
        for facts, part in groups
    ]
    return sorted(out, key=lambda c: canonical(c.columns))


def _configuration(runs: Sequence[Run], label: str) -> Configuration:
    by_seed: dict[int, Run] = {}
    for run in sorted((r for r in runs if r.done), key=lambda r: r.seed):
        if run.seed in by_seed:
            raise UsageError(
                f"{by_seed[run.seed].path} and {run.path} are both seed {run.seed} of one"
                " configuration: give one of them."
            )
        by_seed[run.seed] = run
    others = [r for r in runs if not r.done and r.seed not in by_seed]
    return Configuration(
        label, tuple(by_seed.values()), tuple(sorted(others, key=lambda r: r.seed))
    )


def _named(run: Run) -> Row:
    spec = run.spec
    return {
        "defense": spec["defense"]["name"],
        "defense_params": canonical(spec["defense"]["params"]),
        "wrappers": canonical(spec["wrappers"]),
    }


def _same(run: Run) -> dict[str, Any]:
    """All that makes runs one configuration: neither seed, engine and recording policy, nor
    attacks.
    """
    spec = run.spec
    task = {f"task.{k}": v for k, v in spec["task"]["params"].items()}
    return {
        "task": spec["task"]["name"],
        **_named(run),
        **task,
        "rounds": spec["rounds"],
        "dtype": run.meta.get("dtype", spec.get("dtype")),
    }


def _finer(run: Run) -> dict[str, Any]:
    return _same(run) | {"engine": run.spec.get("engine"), "record": run.spec.get("record")}


def _look(run: Run) -> str:
    return canonical({"task": run.spec["task"]["name"]} | _named(run))


def _label(run: Run, facts: Mapping[str, Any], alike: Sequence[Mapping[str, Any]]) -> str:
    """The task's name, and what tells this configuration from those whose other columns are the
    same.
    """
    names = sorted({k for f in alike for k in f})
    differs = [k for k in names if len({canonical(f.get(k)) for f in alike}) > 1]
    plain = {k: v if isinstance(v, str) else canonical(v) for k, v in facts.items()}
    absent = canonical(None)
    said = ", ".join(f"{k.removeprefix('task.')}={plain.get(k, absent)}" for k in differs)
    name = str(run.spec["task"]["name"])
    return f"{name} ({said})" if said else name
