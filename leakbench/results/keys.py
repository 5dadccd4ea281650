"""Names of configurations and of numbers, made from the columns that tell them apart."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from leakbench.base.spec import canonical

Row = Mapping[str, Any]


def params(value: Any) -> Any:
    """A `*_params` or `wrappers` cell: JSON text, or what it stands for."""
    return json.loads(value or "{}") if isinstance(value, str) else value


def setting_key(row: Row) -> str:
    """The name of a configuration: task, defense, its parameters and its wrappers, seeds apart."""
    return canonical(
        [
            row["task"],
            row["defense"],
            params(row.get("defense_params", "{}")),
            params(row.get("wrappers", "[]")) or [],
        ]
    )


def run_setting_key(run: Row) -> str:
    """The ``setting_key`` of a run.json."""
    spec = run["spec"]
    return canonical(
        [
            spec["task"]["name"],
            spec["defense"]["name"],
            spec["defense"].get("params", {}),
            list(spec.get("wrappers", [])),
        ]
    )


def row_key(row: Row) -> str:
    """The name of one number of tradeoff.csv."""
    attack = [
        row["attack"],
        params(row["attack_params"]),
        row["metric"],
        row["stage"],
        bool(row["probe"]),
    ]
    return setting_key(row) + canonical(attack)
