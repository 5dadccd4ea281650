"""Every number of one run, read from its attack folders with the unit scores it is the mean of."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from leakbench.base.errors import BrokenFile, UsageError
from leakbench.base.meaning import Meaning
from leakbench.base.printable_text import one_line
from leakbench.base.shapes import check_shape
from leakbench.base.spec import canonical
from leakbench.record.columns import RESULTS, RUNGS, STAGES, UNITS, Row
from leakbench.record.folders import AttackFolder, Run
from leakbench.record.placing import GUESS
from leakbench.record.shapes import GuessesHeader
from leakbench.results import recomputed
from leakbench.results.number import Attacker, Environment, Measured, Unit
from leakbench.scoring import flags
from leakbench.statistics.intervals import (
    Estimate,
    NoInterval,
    Seed,
    estimate,
    exact_over_seeds,
    pool,
)

ROLES = ("attack", "floor", "control")
TRIES = 50  # to read while attacks are made
FILES = ("guess.safetensors", "units.csv", "results.csv")


def measured_of_run(run: Run) -> list[Measured]:
    """Every number of every complete attack on ``run``.

    Raises:
        BrokenFile: a file is missing, changed or damaged, a number has no units, or an attack is
            another run's.
    """
    for _ in range(TRIES):
        attacks = run.attacks
        try:
            return [m for folder in attacks if folder.done for m in measured_of_folder(run, folder)]
        except BrokenFile as error:
            # One that is made again meanwhile is read again; what is damaged stays as it is.
            broken = error
            if [a.meta for a in attacks] == [a.meta for a in run.attacks]:
                break
    raise broken


def mean_of_units(
    seeds: Mapping[int, Sequence[Unit]], meaning: Meaning, *, no_width: bool
) -> Estimate:
    """The mean of all units' scores, over one seed or several.

    Raises:
        NoInterval: there is one unit or cluster only, and the metric's range has no end.
    """

    def columns(units: Sequence[Unit]) -> Seed:
        return [u.score for u in units], [u.name for u in units], [u.cluster for u in units]

    low, high = meaning.ends
    parts = {s: columns(units) for s, units in seeds.items()}
    if no_width:
        counted = [parts[s][0] for s in sorted(parts)]
        return exact_over_seeds(counted, low=low, high=high, unit=meaning.unit)
    about: dict[str, Any] = {"share": meaning.share, "low": low, "high": high}
    if len(parts) > 1:
        return pool(parts, unit=meaning.unit, **about)
    ((each, _, clusters),) = parts.values()
    return estimate(each, clusters, unit=meaning.unit, **about)


def pooled_estimates(seeds: Sequence[Measured]) -> dict[str, Estimate]:
    """By role: the same number over several seeds, or of one.

    Raises:
        NoInterval: as for ``mean_of_units``.
    """
    out = {}
    for role in ROLES:
        by_seed = {m.run.seed: m.units[role] for m in seeds}
        no_width = all(role in m.exact for m in seeds)
        out[role] = mean_of_units(by_seed, seeds[0].meaning, no_width=no_width)
    return out


def measured_of_folder(run: Run, folder: AttackFolder) -> list[Measured]:
    """Every number of one complete attack on ``run``.

    Raises:
        BrokenFile: as for ``measured_of_run``.
    """
    folder.alone()
    folder.check(*FILES)
    head = run.owns_guesses(folder)
    exactly = recomputed.check_attack(run, folder)
    units = _units(folder)
    out: dict[tuple[str, int, bool], Measured] = {}
    for row in folder.table("results.csv", RESULTS):
        _must_be_of(run, folder, row)
        at = (row["metric"], row["round"], row["probe"])
        metric, t, _ = at
        if at in out:
            raise _damaged(folder, "results.csv", f"{metric} of round {t} is there twice")
        if metric not in folder.meta["metrics"]:
            raise _damaged(folder, "results.csv", f"{metric} of round {t} is not in attack.json")
        known = row["rung"] in RUNGS and row["stage"] in STAGES and row["leaks"] in ("up", "down")
        if not known:
            why = f"rung, stage or leaks of {metric} is unknown"
            raise _damaged(folder, "results.csv", why)
        own = {role: tuple(units.get((role, *at), ())) for role in ROLES}
        lacking = [role for role in ROLES if not own[role]]
        if lacking:
            raise _damaged(folder, "units.csv", f"no {lacking[0]} units of {metric}, round {t}")
        _whose(run, folder, row)
        if row["interval"] == "exact" and not exactly.get(metric, True):
            raise _damaged(folder, "results.csv", f"{metric} of round {t} has no interval")
        out[at] = _measured(run, folder, row, own)
        _same_numbers(folder, row, out[at])
    _all_there(folder, head, out)
    return list(out.values())


def _all_there(
    folder: AttackFolder, head: Mapping[str, Any], numbers: Mapping[tuple[str, int, bool], Measured]
) -> None:
    """Every metric has a number wherever it was guessed, or a reason why it has none.

    ``head``: what the file of guesses says of itself.
    """
    check_shape(GuessesHeader, head, folder.path / GUESS)
    made = [g for g in head["guesses"] if g["role"] == "attack"]
    cells = {(g["round"], g["probe"] is not None) for g in made}
    excused = {m["metric"] for m in folder.meta["missing"]}
    for metric in sorted(set(folder.meta["metrics"]) - excused):
        there = {(t, probe) for name, t, probe in numbers if name == metric}
        probes = {probe for _, probe in there}
        lacking = sorted(c for c in cells - there if c[1] in probes)
        if lacking or not there:
            where = f" in round {lacking[0][0]}" if lacking else ""
            why = f"{metric} has no number{where}, and no reason why"
            raise _damaged(folder, "results.csv", why)


def _must_be_of(run: Run, folder: AttackFolder, row: Row) -> None:
    """A row is about this run and this attack, whatever folder it was put into."""
    spec = run.spec
    own = {
        "run": run.id,
        "seed": run.seed,
        "task": spec["task"]["name"],
        "defense": spec["defense"]["name"],
        "defense_params": canonical(spec["defense"]["params"]),
        "wrappers": canonical(spec["wrappers"]),
        "attack": folder.name,
        "attack_params": folder.params,
    }
    for column, value in own.items():
        if row[column] != value:
            why = f"{column} is {row[column]!r}, of this run and attack it is {value!r}"
            raise _damaged(folder, "results.csv", why)


def _measured(
    run: Run, folder: AttackFolder, row: Row, units: Mapping[str, tuple[Unit, ...]]
) -> Measured:
    n, unit, meaning = row["n"], row["unit"], _meaning(folder, row["metric"])
    low, high = meaning.ends
    for one in (u for own in units.values() for u in own):
        if not low <= one.score <= high:
            why = (
                f"{one.name} scores {one.score} in {row['metric']}, whose range is {low} to {high}"
            )
            raise _damaged(folder, "units.csv", why)

    def beside(role: str) -> Estimate:
        low, high = row[f"{role}_low"], row[f"{role}_high"]
        return Estimate(row[role], low, high, n, unit, "exact" if low == high else row["interval"])

    return Measured(
        run=run,
        attacker=Attacker(
            name=folder.name,
            params=json.loads(folder.params),
            rung=row["rung"],
            observer=_several(row["observer"]),
            knowledge=_several(row["knowledge"]),
            reads=tuple(folder.meta.get("reads") or folder.meta["threat"].get("kinds", ())[:1]),
            pools=folder.meta.get("pools", False),
            conditions=tuple(one_line(v) for v in folder.meta.get("conditions", {}).values()),
            active=any(line.get("changed") for line in run.meta.get("sent", ())),
        ),
        meaning=meaning,
        stage=row["stage"],
        round=row["round"],
        probe=row["probe"],
        value=Estimate(row["value"], row["low"], row["high"], n, unit, row["interval"]),
        floor=beside("floor"),
        control=beside("control"),
        flags=frozenset(flags.split_flags(flags.today(row["flags"], folder, run.meta))),
        order=int(folder.meta["order"]),
        units=units,
        exact=_exact(row),
        guesses={folder.path.name: str(folder.meta["files"]["guess.safetensors"])},
        code={folder.path.name: dict(folder.meta["sources"])},
        made=Environment(
            *(str(row[c]) for c in ("engine", "device", "dtype", "version", "commit"))
        ),
    )


def _whose(run: Run, folder: AttackFolder, row: Row) -> None:
    """The row tells of this run and this attack."""
    threat = folder.meta["threat"]
    ours = {
        "run": run.id,
        "seed": run.seed,
        "attack": folder.name,
        "attack_params": folder.params,
        "rung": threat["rung"],
        "observer": threat["observer"],
        "knowledge": "|".join(threat["knows"]),
    }
    for column, value in ours.items():
        if row[column] != value:
            is_, is_not = (recomputed.short_value(v) for v in (row[column], value))
            why = f"{column} is {is_}, not {is_not}"
            raise _damaged(folder, "results.csv", why)


def _same_numbers(folder: AttackFolder, row: Row, measured: Measured) -> None:
    """Value, floor and control, with their intervals, are those of the units."""
    where = f"{row['metric']} of round {row['round']}"
    own = measured.units["attack"]
    counts: dict[str, float] = {"n": len(own), "failed": sum(u.failed for u in own)}
    marks = flags.of_units([u.cluster for u in own], [u.failed for u in own])
    marks |= {how for how in ("isolated", "submitted", "no_control") if folder.meta.get(how)}
    lacking = sorted(marks - measured.flags)
    if lacking:
        raise _damaged(folder, "results.csv", f"{where} is not flagged {lacking[0]}")
    try:
        found = pooled_estimates([measured])
    except NoInterval:  # said where seeds are pooled
        return
    for role, e in found.items():
        name = "value" if role == "attack" else role
        ends = ("low", "high") if role == "attack" else (f"{role}_low", f"{role}_high")
        counts |= {name: e.value, ends[0]: e.low, ends[1]: e.high}
        scores = [u.score for u in measured.units[role]]
        formula = max(scores) - min(scores) <= recomputed.ROUNDING
        if role in measured.exact and row["interval"] != "exact" and not formula:
            raise _damaged(folder, "results.csv", f"the {role} of {where} has no width")
    for column, value in counts.items():
        if not recomputed.same(row[column], value):
            why = f"{column} of {where} is {row[column]}, its units give {value}"
            raise _damaged(folder, "results.csv", why)


def _several(cell: str) -> tuple[str, ...]:
    return tuple(part for part in cell.split("|") if part)


def _units(folder: AttackFolder) -> Mapping[tuple[Any, ...], list[Unit]]:
    """(role, metric, round, probe) -> units."""
    out: dict[tuple[Any, ...], list[Unit]] = defaultdict(list)
    for row in folder.table("units.csv", UNITS):
        said = (bool(row["failed"]), row["accepted"], row["settled"])
        unit = Unit(row["unit"], row["cluster"], row["score"], *said)
        out[row["role"], row["metric"], row["round"], row["probe"]].append(unit)
    return out


def _meaning(folder: AttackFolder, metric: str) -> Meaning:
    about = folder.meta["metrics"][metric]
    if isinstance(about, Mapping) and "direction" not in about:
        # What it would be judged by is not known: a guessed margin could acquit.
        raise UsageError(
            f"{folder.path} was scored by an earlier leakbench, which did not record what {metric}"
            " means. Score it again: leakbench score RUN."
        )
    try:
        return Meaning.recorded(metric, about)
    except ValueError as error:
        raise _damaged(folder, "attack.json", f"metric {metric}: {error}") from None


def _exact(row: Row) -> frozenset[str]:
    """The roles whose number a formula gave: it has no width in the row.

    Intervals of what was sampled have one, or it makes no difference.
    """
    if row["interval"] == "exact":
        return frozenset(ROLES)
    beside = ("floor", "control")
    return frozenset(role for role in beside if row[f"{role}_low"] == row[f"{role}_high"])


def _damaged(folder: AttackFolder, name: str, why: str) -> BrokenFile:
    return BrokenFile(f"{folder.path / name} is damaged ({why}). Make it again.")
