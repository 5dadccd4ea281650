"""The trade-off on a terminal: what each setting gains, and what the paper's own and the best attacks reach."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from leakbench.cli.console import emit, table

Row = Mapping[str, Any]

# Shown where a reader looks first; the others say the same in other units.
FIRST = ("p_leak", "p_leak_public", "identification", "psnr", "dcor2_corrected", "context_accuracy", "exposure", "label_overlap")
HEADS = {
    **{"task": "task", "setting": "setting", "utility": "utility", "metric": "metric", "paper": "paper's own attack"},
    **{"cascade": "best real attacker", "any_attack": "worst case", "floor": "blind guess", "control": "nothing defended"},
    **{"n": "n", "note": "note"},
}
NOTES = {"control_failed": "attack too weak to judge", "dead_run": "dead run", "failed_units": "failed units", "probe": "probes"}


def tradeoff(rows: Sequence[Row]) -> None:
    """A line per setting and metric at the end of training; ``rows`` as in tradeoff.csv, typed."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for r in rows:
        if r["stage"] in ("final", "all"):
            key = (r["task"], r["defense"], r["defense_params"], r["wrappers"], r["metric"], r["probe"])
            groups.setdefault(key, []).append(r)
    shown = [_line(groups[key]) for key in sorted((k for k in groups if k[4] in FIRST), key=lambda k: (*k[:4], FIRST.index(k[4])))]
    table(shown, HEADS)
    if shown:
        emit("Values with 95 % intervals; every metric, stage and attack is in tradeoff.csv.")


def _line(several: Sequence[Row]) -> dict[str, Any]:
    one = several[0]
    wraps = "".join(f" + {w['name']}" for w in json.loads(one["wrappers"]))
    paper = [r for r in several if r["rung"] == "paper" and r["attack"] not in ("cascade", "any_attack")]
    by_name = {r["attack"]: r for r in several}
    worst = by_name.get("any_attack", one)
    flags = {f for r in several for f in r["flags"].split("|")}
    return {
        **{"task": one["task"], "setting": setting(one["defense"], json.loads(one["defense_params"])) + wraps},
        **{
            "utility": one["utility"],
            "metric": one["metric"],
            "paper": _value(_strongest(paper)),
            "cascade": _value(by_name.get("cascade")),
        },
        **{"any_attack": _value(by_name.get("any_attack")), "floor": worst["floor"], "control": worst["control"], "n": worst["n"]},
        "note": ", ".join(text for flag, text in NOTES.items() if flag in flags),
    }


def _strongest(rows: Sequence[Row]) -> Row | None:
    if not rows:
        return None
    sign = 1 if rows[0]["leaks"] == "up" else -1
    return max(rows, key=lambda r: sign * r["value"])


def _value(row: Row | None) -> str:
    return "not run" if row is None else f"{row['value']:.2f} ({row['low']:.2f} to {row['high']:.2f})"


def setting(name: str, params: Mapping[str, Any]) -> str:
    """fedhide(alpha=0.1, k=5): the fields that the method adds to the base's."""
    from leakbench import registry
    from leakbench.defense import Defense

    fields = registry.load("defenses", name).model_fields if name in registry.names("defenses") else params
    base = {*Defense.model_fields, "lam", "margin", "server_lr"}
    own = ", ".join(f"{k}={params[k]}" for k in fields if k in params and k not in base)
    return f"{name}({own})" if own else name
