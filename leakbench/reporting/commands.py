"""The shell commands behind a report's settings and numbers, as run folders record them.

A run folder may come from a stranger, and people copy what a report tells them to run: only
commands of leakbench itself are repeated, every word quoted anew.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from leakbench.gate.row import GateRow
from leakbench.record.folders import AttackFolder
from leakbench.results.number import Number
from leakbench.results.settings import Setting


def trains(setting: Setting) -> str:
    """What trains it, with all its seeds; "" where no command of ours is recorded."""
    words = recorded(setting.one.meta, "train")
    return shlex.join(_with_seeds(words, [r.seed for r in setting.every])) if words else ""


def made_by(setting: Setting) -> dict[tuple[str, str], AttackFolder]:
    """(attack, its parameters) -> its folder, of the first run that has it."""
    return {(a.name, a.params): a for run in reversed(setting.runs) for a in run.attacks}


def attack_command(
    setting: Setting, number: Number, folders: Mapping[tuple[str, str], AttackFolder]
) -> str:
    """What makes the number again; "" for what is made from other attacks' units.

    ``folders``: what is ``made_by`` the setting.
    """
    mine = None if number.attacker.made else folders.get(number.attacker.key)
    if mine is None:
        return ""
    words = recorded(mine.meta, "attack")
    options = words[words.index("-a") :] if "-a" in words else ["-a", number.attacker.name]
    runs = [str(r.path) for r in setting.every]
    return shlex.join(["leakbench", "attack", *runs, *options])


def recorded(meta: Mapping[str, Any], command: str) -> list[str]:
    """The words of the `leakbench COMMAND` that run.json or attack.json holds.

    None if it holds something else.
    """
    try:
        words = shlex.split(str(meta.get("command", "")))
    except ValueError:  # an open quote
        return []
    return words if words[:2] == ["leakbench", command] else []


def training_command(row: GateRow, seeds: int) -> str:
    """The command that trains the setting of a baseline's row with at least so many seeds.

    It is as complete as the row tells.
    """
    c, setting = row.configuration, row.training.setting
    words = ["leakbench", "train", "-t", c.task.split(" (")[0], "-d", c.defense]
    words += _options("", c.params)
    for w in c.wrappers:
        words += ["-w", str(w["name"]), *_options(f"{w['name']}.", w.get("params", {}))]
    rounds = setting.get("rounds")
    words += _options("", {k: v for k, v in setting.items() if k.startswith("task.")})
    words += ["--rounds", str(rounds)] if rounds else []
    return shlex.join(_with_seeds(words, more_seeds(row.units.scores, seeds)))


def more_seeds(there: Sequence[int] | Mapping[int, Any], count: int) -> list[int]:
    """The seeds that are there, and the smallest others up to ``count``."""
    out = sorted(there)
    out += [s for s in range(count + len(out)) if s not in out][: max(count - len(out), 0)]
    return sorted(out)


def _options(prefix: str, values: Mapping[str, Any]) -> list[str]:
    told = {k: v if isinstance(v, str) else json.dumps(v) for k, v in values.items()}
    return [word for k, v in told.items() for word in ("-s", f"{prefix}{k}={v}")]


def _with_seeds(words: Sequence[str], seeds: Sequence[int]) -> list[str]:
    text = ",".join(str(seed) for seed in sorted(set(seeds)))
    if "--seeds" in words[:-1]:
        at = words.index("--seeds") + 1
        return [*words[:at], text, *words[at + 1 :]]
    return [*words, "--seeds", text]
