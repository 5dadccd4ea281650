"""One row of an attack's results with the unit scores it is the mean of, and how several of them
become one number.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from leakbench.base.errors import BrokenFile
from leakbench.base.spec import canonical
from leakbench.record.columns import RESULTS, RUNGS, STAGES, UNITS, Row
from leakbench.record.folders import AttackFolder, Run
from leakbench.statistics.intervals import Estimate, estimate, exact, pool

ROLES = {"attack": "value", "floor": "floor", "control": "control"}
FILES = ("guess.safetensors", "units.csv", "results.csv")


@dataclass(frozen=True)
class Unit:
    """One unit's score; ``accepted``: by the attack's own self-check."""

    name: str
    cluster: str
    score: float
    failed: bool
    accepted: bool


@dataclass(frozen=True)
class Scale:
    """How a metric is read, from attack.json: an old folder keeps its meaning when the metric
    changes.
    """

    metric: str
    leaks: str
    low: float
    high: float
    unit: str
    share: bool
    version: int

    def worse(self, a: float, b: float) -> bool:
        """Does ``a`` leak more than ``b``?"""
        return a > b if self.leaks == "up" else a < b


@dataclass(frozen=True)
class Measured:
    """A row of results.csv of one run.

    ``units``: by role. ``exact``: the roles whose number a formula gave, so that it has no width.
    ``guesses``: SHA-256 of what it was scored from, by attack folder.
    """

    run: Run
    row: Row
    scale: Scale
    order: int
    units: Mapping[str, tuple[Unit, ...]]
    exact: frozenset[str]
    guesses: Mapping[str, str]

    @property
    def key(self) -> tuple[str, str, str, str, bool]:
        """What is pooled over seeds: attack, its parameters, metric, stage, probe."""
        return (
            self.row["attack"],
            self.row["attack_params"],
            self.row["metric"],
            self.row["stage"],
            self.row["probe"],
        )

    @cached_property
    def by_name(self) -> dict[str, dict[str, Unit]]:
        """Role -> unit's name -> its score."""
        return {role: {u.name: u for u in units} for role, units in self.units.items()}


def of_run(run: Run) -> list[Measured]:
    """Every row of every complete attack on ``run``.

    Raises:
        BrokenFile: a file is missing, changed or damaged, or a row has no units.
    """
    return [m for folder in run.attacks if folder.done for m in _of_folder(run, folder)]


def summary(seeds: Mapping[int, Sequence[Unit]], scale: Scale, *, no_width: bool) -> Estimate:
    """The mean of all units' scores, over one seed or several.

    Raises:
        NoInterval: there is one unit or cluster only, and the metric's range has no end.
    """
    if no_width:
        scores = [u.score for s in sorted(seeds) for u in seeds[s]]
        return exact(math.fsum(scores) / len(scores), len(scores), scale.unit)
    parts = {
        s: ([u.score for u in us], [u.name for u in us], [u.cluster for u in us])
        for s, us in seeds.items()
    }
    if len(parts) > 1:
        return pool(parts, share=scale.share, low=scale.low, high=scale.high, unit=scale.unit)
    ((scores, _, clusters),) = parts.values()
    return estimate(
        scores, clusters, share=scale.share, low=scale.low, high=scale.high, unit=scale.unit
    )


def numbers(seeds: Sequence[Measured]) -> Row:
    """The columns from value to control_high, over the same row of several seeds (or of one).

    Raises:
        NoInterval: as for ``summary``.
    """
    out: Row = {}
    for role, name in ROLES.items():
        by_seed = {m.run.seed: m.units[role] for m in seeds}
        found = summary(by_seed, seeds[0].scale, no_width=all(role in m.exact for m in seeds))
        if role == "attack":
            out |= {
                "value": found.value,
                "low": found.low,
                "high": found.high,
                "interval": found.interval,
                "n": found.n,
                "unit": seeds[0].row["unit"],
            }
        else:
            out |= {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}
    return out


def _of_folder(run: Run, folder: AttackFolder) -> list[Measured]:
    folder.check(*FILES)
    rows, units = folder.table("results.csv", RESULTS), _units(folder)
    spec = run.spec
    mine = {
        "run": run.id,
        "task": spec["task"]["name"],
        "defense": spec["defense"]["name"],
        "defense_params": canonical(spec["defense"]["params"]),
        "wrappers": canonical(spec["wrappers"]),
        "seed": run.seed,
        "attack": folder.name,
        "attack_params": folder.params,
    }
    out, seen = [], set()
    for row in rows:
        at = (row["metric"], row["round"], row["probe"])
        if at in seen or row["metric"] not in folder.meta["metrics"]:
            why = "is there twice" if at in seen else "is not in attack.json"
            raise BrokenFile(
                f"{folder.path / 'results.csv'} is damaged ({at[0]} of round {at[1]} {why}). Make"
                " it again."
            )
        seen.add(at)
        if (
            row["rung"] not in RUNGS
            or row["stage"] not in STAGES
            or row["leaks"] not in ("up", "down")
        ):
            raise BrokenFile(
                f"{folder.path / 'results.csv'} is damaged (rung, stage or leaks of {at[0]} is"
                " unknown). Make it again."
            )
        own = {role: tuple(units.get((role, *at), ())) for role in ROLES}
        lacking = [role for role in ROLES if not own[role]]
        if lacking:
            raise BrokenFile(
                f"{folder.path / 'units.csv'} is damaged (no {lacking[0]} units of {at[0]}, round"
                f" {at[1]}). Make it again."
            )
        scale = _scale(folder, row["metric"])
        out.append(
            Measured(
                run,
                {c: mine.get(c, row[c]) for c in RESULTS},
                scale,
                int(folder.meta["order"]),
                own,
                _exact(row),
                _guess(folder),
            )
        )
    return out


def _units(folder: AttackFolder) -> Mapping[tuple[Any, ...], list[Unit]]:
    """(role, metric, round, probe) -> units."""
    out: dict[tuple[Any, ...], list[Unit]] = defaultdict(list)
    for row in folder.table("units.csv", UNITS):
        unit = Unit(row["unit"], row["cluster"], row["score"], bool(row["failed"]), row["accepted"])
        out[row["role"], row["metric"], row["round"], row["probe"]].append(unit)
    return out


def _scale(folder: AttackFolder, metric: str) -> Scale:
    """JSON has no infinity: an open end is null there."""
    try:
        about = folder.meta["metrics"][metric]
        low = -math.inf if about["low"] is None else float(about["low"])
        high = math.inf if about["high"] is None else float(about["high"])
        return Scale(
            metric,
            str(about["leaks"]),
            low,
            high,
            str(about["unit"]),
            bool(about["share"]),
            int(about["version"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BrokenFile(
            f"{folder.path / 'attack.json'} is damaged (metric {metric}: {error!r}). Make it again."
        ) from None


def _exact(row: Row) -> frozenset[str]:
    """A formula's number has no width in the row. (Intervals of what was sampled have one, or it
    makes no difference.)
    """
    roles = {role for role in ("floor", "control") if row[f"{role}_low"] == row[f"{role}_high"]}
    return frozenset(ROLES) if row["interval"] == "exact" else frozenset(roles)


def _guess(folder: AttackFolder) -> dict[str, str]:
    return {folder.path.name: str(folder.meta["files"]["guess.safetensors"])}
