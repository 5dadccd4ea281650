"""Between numbers and the lines of a CSV: the one place where a number's columns are spelt."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import singledispatch
from typing import Any

from leakbench.base.meaning import Meaning
from leakbench.base.reason_words import reason_text
from leakbench.base.spec import canonical
from leakbench.record.columns import PRIVACY, Row
from leakbench.results.number import (
    Attacker,
    Claim,
    Configuration,
    Diagnostic,
    Measured,
    Missing,
    Number,
    Utility,
)
from leakbench.results.privacy import Privacy
from leakbench.results.settings import Setting
from leakbench.scoring import flags
from leakbench.statistics.intervals import Estimate


def table_lines(items: Iterable[Any]) -> list[Row]:
    """A line of its table for each; of results.csv each is a pair (setting, number of one run)."""
    return [_line(*item) if isinstance(item, tuple) else _row(item) for item in items]


@singledispatch
def _row(item: Any) -> Row:
    raise TypeError(f"no table has lines of {type(item).__name__}")


@_row.register
def _number(n: Number) -> Row:
    return {
        **configuration_cells(n.configuration),
        "seeds": _joined(n.seeds),
        "utility_metric": n.utility.meaning.name,
        **_estimate("utility", n.utility.value),
        "chance": n.utility.chance,
        **_attacker(n.attacker),
        "stage": n.stage,
        "round": n.round,
        "probe": n.probe,
        **_values(n),
        "flags": flags.join(n.flags - flags.OF_TRAINING),
        "on_front": n.on_front,
        **claim_cells(n.claim),
        "utility_flags": flags.join(n.utility.flags),
    }


@_row.register
def _utility(u: Utility) -> Row:
    return {
        **configuration_cells(u.configuration),
        "seeds": _joined(u.seeds),
        "rounds": u.rounds,
        "metric": u.meaning.name,
        "statistic": u.statistic,
        **_plain(u.value),
        "n": u.value.n,
        "chance": u.chance,
        "flags": flags.join(u.flags),
        **claim_cells(u.claim),
    }


@_row.register
def _missing(m: Missing) -> Row:
    names = configuration_cells(m.configuration)
    del names["wrappers"]  # the table has no column for them, so the reason names them
    return {**names, "attack": m.attack, "metric": m.metric, "reason": missing_text(m)}


def missing_text(m: Missing) -> str:
    """Why it is not there; tables have no column for wrappers, so it names them."""
    wrappers = m.configuration.wrappers
    under = f" [under the wrappers {canonical(wrappers)}]" if wrappers else ""
    return reason_text(m.reason) + under


@_row.register
def _diagnostic(d: Diagnostic) -> Row:
    return d.model_dump()


@_row.register
def _privacy(p: Privacy) -> Row:
    told = {c: getattr(p, c) for c in PRIVACY if c in (*Privacy.model_fields, "broken")}
    said = {c: reason_text(why) for c in ("why", "unproven") if (why := getattr(p, c))}
    cells = {c: "" if v is None else v for c, v in {**told, **said}.items()}
    return {**cells, **configuration_cells(p.configuration)}


def _line(setting: Setting, m: Measured) -> Row:
    """Of results.csv."""
    return {
        "run": m.run.id,
        **configuration_cells(setting.configuration),
        "seed": m.run.seed,
        **_attacker(m.attacker),
        "stage": m.stage,
        "round": m.round,
        "probe": m.probe,
        **_values(m),
        "failed": m.failed,
        "flags": flags.join(m.flags - flags.OF_TRAINING),
        **{c: getattr(m.made, c) for c in ("engine", "device", "dtype", "version", "commit")},
    }


def configuration_cells(configuration: Configuration) -> Row:
    """The columns that name a configuration."""
    return {
        "task": configuration.task,
        "defense": configuration.defense,
        "defense_params": canonical(configuration.params),
        "wrappers": canonical(configuration.wrappers),
    }


def _attacker(attacker: Attacker) -> Row:
    return {
        "attack": attacker.name,
        "attack_params": canonical(attacker.params),
        "rung": attacker.rung,
        "observer": _joined(attacker.observer),
        "knowledge": _joined(attacker.knowledge),
    }


def _values(n: Number | Measured) -> Row:
    """From metric to control_high."""
    return {
        "metric": n.meaning.name,
        "leaks": n.meaning.direction,
        **_plain(n.value),
        "interval": n.value.interval,
        "n": n.value.n,
        "unit": n.value.unit,
        **_estimate("floor", n.floor),
        **_estimate("control", n.control),
    }


def _plain(e: Estimate) -> Row:
    return {"value": e.value, "low": e.low, "high": e.high}


def _estimate(name: str, e: Estimate) -> Row:
    return {name: e.value, f"{name}_low": e.low, f"{name}_high": e.high}


def claim_cells(claim: Claim | None) -> Row:
    """The columns of a paper's number, "" where there is none."""
    names = ("claimed", "claimed_low", "claimed_high", "claimed_source")
    if claim is None:
        return dict.fromkeys(names, "")
    found = (claim.value, claim.low, claim.high, claim.source)
    return {name: "" if v is None else v for name, v in zip(names, found, strict=True)}


def _joined(values: Iterable[object]) -> str:
    return "|".join(map(str, values))


def read_number(row: Row, meaning: Meaning, utility: Utility) -> Number:
    """A line of tradeoff.csv read back; its units and what failed are not in the table."""
    n, unit, interval = row["n"], row["unit"], row["interval"]

    def beside(name: str) -> Estimate:
        low, high = row[f"{name}_low"], row[f"{name}_high"]
        return Estimate(row[name], low, high, n, unit, "exact" if low == high else interval)

    return Number(
        configuration=utility.configuration,
        attacker=Attacker(
            name=row["attack"],
            params=json.loads(row["attack_params"]),
            rung=row["rung"],
            observer=_parts(row["observer"]),
            knowledge=_parts(row["knowledge"]),
        ),
        meaning=meaning,
        stage=row["stage"],
        round=row["round"],
        probe=row["probe"],
        seeds=tuple(int(s) for s in _parts(row["seeds"])),
        value=Estimate(row["value"], row["low"], row["high"], n, unit, interval),
        floor=beside("floor"),
        control=beside("control"),
        failed=0,
        tried=0,
        flags=frozenset(flags.split_flags(row["flags"])),
        on_front=row["on_front"],
        claim=claimed_in(row),
        utility=utility,
    )


def read_utility(row: Row, meaning: Meaning) -> Utility:
    """A line of utility.csv read back."""
    return Utility(
        configuration=configuration(row),
        meaning=meaning,
        statistic=row["statistic"],
        seeds=tuple(int(s) for s in _parts(row["seeds"])),
        rounds=int(row["rounds"]),
        value=Estimate(row["value"], row["low"], row["high"], row["n"], "test unit", "student"),
        chance=row["chance"],
        flags=frozenset(flags.split_flags(row["flags"])),
        claim=claimed_in(row),
    )


def configuration(row: Row) -> Configuration:
    """Of the columns that name it."""
    return Configuration(
        task=row["task"],
        defense=row["defense"],
        params=json.loads(row["defense_params"]),
        wrappers=json.loads(row["wrappers"]),
    )


def claimed_in(row: Mapping[str, Any]) -> Claim | None:
    """The paper's number of a line, read back."""
    if row["claimed"] == "":
        return None
    low, high = row["claimed_low"], row["claimed_high"]
    return Claim(
        value=row["claimed"],
        low=None if low == "" else low,
        high=None if high == "" else high,
        source=row["claimed_source"],
    )


def _parts(cell: object) -> tuple[str, ...]:
    return tuple(part for part in str(cell).split("|") if part)
