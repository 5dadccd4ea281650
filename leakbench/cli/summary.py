"""The trade-off on a terminal: what each setting gains, and what the paper's own and the best
attacks reach.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from leakbench.cli.console import emit, table

Row = Mapping[str, Any]
Setting = tuple[str, str, str, str]  # task, defense, its parameters, wrappers: as in tradeoff.csv

# Shown where a reader looks first; the others say the same in other units.
FIRST = (
    "p_leak",
    "p_leak_public",
    "identification",
    "psnr",
    "dcor2_corrected",
    "context_accuracy",
    "exposure",
    "label_overlap",
)
HEADS = {
    "task": "task",
    "setting": "setting",
    "utility": "utility",
    "metric": "metric",
    "paper": "paper's own attack",
    "cascade": "best real attacker",
    "any_attack": "worst case",
    "floor": "blind guess",
    "control": "nothing defended",
    "n": "n",
    "note": "note",
}
NOTES = {
    "control_failed": "attack too weak to judge",
    "dead_run": "dead run",
    "failed_units": "failed units",
    "probe": "probes",
}


def tradeoff(rows: Sequence[Row]) -> None:
    """A line per setting and metric at the end of training; ``rows`` as in tradeoff.csv, typed."""
    named = labels(rows)
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for r in rows:
        if r["stage"] in ("final", "all") and r["metric"] in FIRST:
            groups.setdefault((*_setting(r), FIRST.index(r["metric"]), r["probe"]), []).append(r)
    shown = [_line(groups[key], named[_setting(groups[key][0])]) for key in sorted(groups)]
    table(shown, HEADS)
    if shown:
        emit("Values with 95 % intervals; every metric, stage and attack is in tradeoff.csv.")


def _line(several: Sequence[Row], setting: str) -> dict[str, Any]:
    one = several[0]
    paper = [
        r for r in several if r["rung"] == "paper" and r["attack"] not in ("cascade", "any_attack")
    ]
    by_name = {r["attack"]: r for r in several}
    worst = by_name.get("any_attack", one)
    flags = {f for r in several for f in r["flags"].split("|")}
    return {
        "task": one["task"],
        "setting": setting,
        "utility": one["utility"],
        "metric": one["metric"],
        "paper": _value(_strongest(paper)),
        "cascade": _value(by_name.get("cascade")),
        "any_attack": _value(by_name.get("any_attack")),
        "floor": worst["floor"],
        "control": worst["control"],
        "n": worst["n"],
        "note": ", ".join(text for flag, text in NOTES.items() if flag in flags),
    }


def _strongest(rows: Sequence[Row]) -> Row | None:
    if not rows:
        return None
    sign = 1 if rows[0]["leaks"] == "up" else -1
    return max(rows, key=lambda r: sign * r["value"])


def _value(row: Row | None) -> str:
    return "none" if row is None else f"{row['value']:.2f} ({row['low']:.2f} to {row['high']:.2f})"


def labels(rows: Sequence[Row]) -> dict[Setting, str]:
    """What each setting is called, in the command line's words: fedhide(alpha=0.1, k=5) +
    clip_noise.

    Told are the fields that a method adds to the base's, and what differs between settings that
    would else look alike.
    """
    found: dict[Setting, list[tuple[str, dict[str, Any]]]] = {}
    for r in rows:
        parts = [(w["name"], w["params"]) for w in json.loads(r["wrappers"])]
        found[_setting(r)] = [(r["defense"], json.loads(r["defense_params"])), *parts]
    # Of one task, with the same names.
    families: dict[tuple[str, ...], list[Setting]] = defaultdict(list)
    for key, parts in found.items():
        families[key[0], *(name for name, _ in parts)].append(key)
    told = {}
    for family in families.values():
        for key in family:
            texts = []
            for place, (name, params) in enumerate(found[key]):
                own = _own(name, params) if place == 0 else set()
                differ = {
                    k
                    for k, v in params.items()
                    if any(found[other][place][1].get(k) != v for other in family)
                }
                texts.append(_called(name, {k: v for k, v in params.items() if k in own | differ}))
            told[key] = " + ".join(texts)
    return told


def _setting(row: Row) -> Setting:
    return row["task"], row["defense"], row["defense_params"], row["wrappers"]


def _called(name: str, params: Mapping[str, Any]) -> str:
    return f"{name}({', '.join(f'{k}={v}' for k, v in params.items())})" if params else name


def _own(name: str, params: Mapping[str, Any]) -> set[str]:
    """The fields that the method adds to the base's; a switch, a word or a 0 only where it is not
    the method's own.
    """
    from leakbench.base import registry
    from leakbench.federation.defense import Defense

    fields = (
        registry.load("defenses", name).model_fields if name in registry.names("defenses") else {}
    )
    plain = {
        k
        for k, f in fields.items()
        if params.get(k) == f.get_default() and (isinstance(params[k], str) or not params[k])
    }
    return {*(fields or params)} - {*Defense.model_fields, "lam", "margin", "server_lr"} - plain
