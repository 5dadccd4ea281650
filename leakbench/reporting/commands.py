"""The shell commands behind a report's settings and numbers, as run folders record them.

A run folder may come from a stranger, and people copy what a report tells them to run: only
commands of leakbench itself are repeated, every word quoted anew.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from leakbench.gate.baseline import GateRow
from leakbench.record.folders import Run
from leakbench.results.keys import row_key, run_setting_key, setting_key


def commands(runs: Sequence[Run], tradeoff: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """``setting_key`` -> what trains it, ``row_key`` -> what attacks it; none where none of ours is
    recorded.
    """
    out: dict[str, str] = {}
    of: dict[str, list[Run]] = {}
    for run in runs:
        of.setdefault(run_setting_key(run.meta), []).append(run)
    for key, several in of.items():
        words = recorded(several[0].meta, "train")
        if words:
            out[key] = shlex.join(_with_seeds(words, [r.seed for r in several]))
    attacks = {
        (key, a.name, a.params): a
        for key, several in of.items()
        for r in reversed(several)
        for a in r.attacks
    }
    for row in tradeoff:
        found = attacks.get((setting_key(row), row["attack"], row["attack_params"]))
        if found:
            words = recorded(found.meta, "attack")
            options = words[words.index("-a") :] if "-a" in words else ["-a", row["attack"]]
            out[row_key(row)] = shlex.join(
                ["leakbench", "attack", *(str(r.path) for r in of[setting_key(row)]), *options]
            )
    return out


def recorded(meta: Mapping[str, Any], command: str) -> list[str]:
    """The words of the `leakbench COMMAND` that run.json or attack.json holds; none if it holds
    something else.
    """
    try:
        words = shlex.split(str(meta.get("command", "")))
    except ValueError:  # an open quote
        return []
    return words if words[:2] == ["leakbench", command] else []


def training(row: GateRow, seeds: int) -> str:
    """The command that trains the setting of a row of a baseline, as far as the row tells, with at
    least so many seeds.
    """
    words = [
        "leakbench",
        "train",
        "-t",
        row.task.split(" (")[0],
        "-d",
        row.defense,
        *_options("", row.defense_params),
    ]
    for w in row.wrappers:
        words += ["-w", str(w["name"]), *_options(f"{w['name']}.", w.get("params", {}))]
    rounds = row.setting.get("rounds")
    words += _options("", {k: v for k, v in row.setting.items() if k.startswith("task.")})
    words += ["--rounds", str(rounds)] if rounds else []
    return shlex.join(_with_seeds(words, more_seeds(row.scores, seeds)))


def more_seeds(there: Sequence[int] | Mapping[int, Any], count: int) -> list[int]:
    """The seeds that are there, and the smallest others up to ``count``."""
    out = sorted(there)
    out += [s for s in range(count + len(out)) if s not in out][: max(count - len(out), 0)]
    return sorted(out)


def _options(prefix: str, values: Mapping[str, Any]) -> list[str]:
    import json

    return [
        w
        for k, v in values.items()
        for w in ("-s", f"{prefix}{k}={v if isinstance(v, str) else json.dumps(v)}")
    ]


def _with_seeds(words: Sequence[str], seeds: Sequence[int]) -> list[str]:
    text = ",".join(map(str, sorted(set(seeds))))
    if "--seeds" in words[:-1]:
        at = words.index("--seeds") + 1
        return [*words[:at], text, *words[at + 1 :]]
    return [*words, "--seeds", text]
