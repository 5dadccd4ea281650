"""What `leakbench check` compares: every pooled number of these runs with its unit scores and the
hashes it rests on.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from leakbench.base.files import SCHEMA, digest, inside
from leakbench.base.spec import canonical
from leakbench.gate.baseline import UTILITY, GateRow
from leakbench.record.columns import Row
from leakbench.record.folders import Run
from leakbench.results import tradeoff
from leakbench.results import units as measured
from leakbench.results import utility as utility_table
from leakbench.results.configurations import Configuration, group
from leakbench.results.units import Unit
from leakbench.results.utility import Utility
from leakbench.scoring import flags

_FINAL_MODEL = "checkpoint/model.safetensors"


def gate_rows(runs: Sequence[Run]) -> list[GateRow]:
    """The rows of all complete runs: every line of tradeoff.csv, and the final utility of every
    configuration.

    Raises:
        BrokenFile: an artifact is missing, changed, damaged or of a newer schema.
        UsageError: two runs are the same seed of one configuration.
    """
    out = []
    for config in group(runs):
        if not config.runs:
            continue
        utilities = [utility_table.of_run(r) for r in config.runs]
        gained, _ = utility_table.rows(config, utilities)
        rows = [m for u in utilities for m in measured.of_run(u.run)]
        pooled, _ = tradeoff.rows(config, rows, utilities, gained[0])
        out += [_utility(config, utilities, gained[0]), *(_leakage(config, p) for p in pooled)]
    return out


def _leakage(config: Configuration, pooled: tradeoff.Pooled) -> GateRow:
    row, seeds, scale = pooled.row, pooled.seeds, pooled.seeds[0].scale
    units = {m.run.seed: _names(m.units["attack"]) for m in seeds}
    return GateRow(
        **_setting(config, [m.run for m in seeds]),
        attack=row["attack"],
        attack_params=_params(pooled),
        rung=row["rung"],
        metric=row["metric"],
        stage=row["stage"],
        probe=row["probe"],
        worse="up" if scale.leaks == "up" else "down",
        share=scale.share,
        range=(
            None if math.isinf(scale.low) else scale.low,
            None if math.isinf(scale.high) else scale.high,
        ),
        unit=row["unit"],
        **{c: row[c] for c in ("value", "low", "high", "utility")},
        scores={s: {name: u.score for name, u in us.items()} for s, us in units.items()},
        clusters={
            name: u.cluster
            for us in units.values()
            for name, u in us.items()
            if u.cluster != u.name
        },
        failed={s: sum(u.failed for u in us.values()) for s, us in units.items()},
        flags=sorted(flags.split(row["flags"])),
        guesses={m.run.seed: sorted(m.guesses.values()) for m in seeds},
        truths={m.run.seed: [_truth(m.run)] for m in seeds},
        version=scale.version,
    )


def _truth(run: Run) -> str:
    """One hash for all that is true of a run: of its truth files' own hashes."""
    listed = {name: sha for name, sha in run.meta["files"].items() if name.startswith("truth/")}
    return hashlib.sha256(canonical(listed).encode()).hexdigest()


def _utility(config: Configuration, utilities: Sequence[Utility], final: Row) -> GateRow:
    """The model's and the test data's hashes stand for guess and truth."""
    about = config.one.meta["utility"]
    models = {u.run.seed: inside(u.run.path, _FINAL_MODEL) for u in utilities}
    return GateRow(
        **_setting(config, [u.run for u in utilities]),
        attack=UTILITY,
        rung="",
        metric=about["metric"],
        stage="final",
        worse="down" if about["better"] == "up" else "up",
        share=about["metric"] == "accuracy",
        range=(0.0, 1.0),
        unit="test unit",
        **{c: final[c] for c in ("value", "low", "high")},
        scores={u.run.seed: _scores(u) for u in utilities},
        flags=sorted(flags.split(final["flags"])),
        guesses={seed: [digest(path)] for seed, path in models.items() if path.is_file()},
        truths={
            u.run.seed: [u.run.meta["test_data"]] for u in utilities if u.run.meta.get("test_data")
        },
    )


def _setting(config: Configuration, runs: Sequence[Run]) -> dict[str, Any]:
    spec = config.one.spec
    return {
        "task": config.label,
        "defense": spec["defense"]["name"],
        "defense_params": spec["defense"]["params"],
        "wrappers": list(spec["wrappers"]),
        "setting": {
            "rounds": spec["rounds"],
            **{f"task.{k}": v for k, v in spec["task"]["params"].items()},
        },
        "engine": "|".join(sorted({str(r.meta["engine"]) for r in runs})),
        "dtype": "|".join(sorted({str(r.meta["dtype"]) for r in runs})),
        "run_schema": max(int(r.meta.get("schema", SCHEMA)) for r in runs),
        "provenance": {
            **{
                c: sorted({str(r.meta[c]) for r in runs if c in r.meta})
                for c in ("commit", "device")
            },
            "dirty": any(bool(r.meta.get("dirty")) for r in runs),
        },
    }


def _params(pooled: tradeoff.Pooled) -> dict[str, Any]:
    return dict(json.loads(pooled.row["attack_params"]))


def _scores(utility: Utility) -> dict[str, float]:
    """By test unit; a metric that is no mean of units (EER) has one number per seed."""
    last = utility.evaluations[-1]
    return (
        {UTILITY: last.value}
        if last.scores is None
        else {str(i): float(v) for i, v in enumerate(last.scores)}
    )


def _names(units: Sequence[Unit]) -> Mapping[str, Unit]:
    """By name; a unit that is there several times (one client in several rounds) is numbered."""
    seen: dict[str, int] = defaultdict(int)
    out = {}
    for unit in units:
        seen[unit.name] += 1
        out[unit.name if seen[unit.name] == 1 else f"{unit.name}#{seen[unit.name]}"] = unit
    return out
