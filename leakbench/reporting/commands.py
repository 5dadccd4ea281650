"""The shell commands behind a report's settings and numbers, as run folders record them.

A run folder may come from a stranger, and people copy what a report tells them to run: only
commands of leakbench itself are repeated, every word quoted anew.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from leakbench.attacking import choices
from leakbench.base.errors import UsageError
from leakbench.base.spec import command_words, option_text
from leakbench.gate.row import GateRow, TrainingRecord
from leakbench.record.folders import AttackFolder
from leakbench.record.policy import Policy
from leakbench.results.number import Number
from leakbench.results.settings import Setting

RUNS = Path("runs")  # where `leakbench train` puts runs unless told
TITLE, REPORT = "leakbench", Path("report")  # of a page, and where it goes, unless told


def trains(setting: Setting) -> str:
    """What trains it into the folder of its runs, with all its seeds.

    "" where no command of ours is recorded.
    """
    words = recorded(setting.one.meta, "train")
    if not words:
        return ""
    words = _with_seeds(words, [r.seed for r in setting.every])
    return shlex.join([*words, *into(setting.one.path.parent)])


def into(folder: Path) -> list[str]:
    """The option that trains into ``folder``; none where it is what is trained into anyway."""
    return [] if folder == RUNS else ["-o", str(folder)]


def reports(
    settings: Sequence[Setting],
    out: Path,
    *,
    title: str,
    redact: bool,
    against: Path | None,
    baseline: Path | None,
) -> str:
    """What makes the report again, of whatever made the runs.

    "" where a run is gone when the process ends that recorded it.
    """
    runs = [run for s in settings for run in s.every]
    if any(run.passing for run in runs):
        return ""
    words = ["leakbench", "report", *_places([run.path for run in runs])]
    made = chain.from_iterable((run, *run.attacks) for run in runs)
    for file in dict.fromkeys(chain.from_iterable(m.plugin_files for m in made)):
        words += ["--plugin", file]
    words += ["-o", str(out)] * (out != REPORT) + ["--title", title] * (title != TITLE)
    words += ["--redact"] * redact
    for option, path in (("--against", against), ("--check", baseline)):
        words += [] if path is None else [option, str(path)]
    return shlex.join(words)


def _places(runs: Sequence[Path]) -> list[str]:
    """The runs, or the folder that holds several of them and no other."""
    out: dict[str, None] = {}
    for run in runs:
        beside = {file.parent for file in run.parent.glob("*/run.json")}
        whole = len(beside) > 1 and beside <= {*runs}
        out[str(run.parent if whole else run)] = None
    return list(out)


def made_by(setting: Setting) -> dict[tuple[str, str], AttackFolder]:
    """(attack, its parameters) -> its folder, of the first run that has it."""
    return {(a.name, a.params): a for run in reversed(setting.runs) for a in run.attacks}


def attack_command(
    setting: Setting, number: Number, folders: Mapping[tuple[str, str], AttackFolder]
) -> str:
    """What makes the number again; "" for what is made from other attacks' units, or in Python.

    ``folders``: what is ``made_by`` the setting.
    """
    mine = None if number.attacker.made else folders.get(number.attacker.key)
    if mine is None or mine.meta.get("command") == "":  # made in Python
        return ""
    words = recorded(mine.meta, "attack")
    runs = [str(r.path) for r in setting.every]
    if "-a" in words:
        return shlex.join(["leakbench", "attack", *runs, *words[words.index("-a") :]])
    return attack_commands(runs, [(number.attacker.name, number.attacker.params)])


def attack_commands(runs: Sequence[str], attacks: Iterable[tuple[str, Mapping[str, Any]]]) -> str:
    """What makes these attacks, (name, parameters), on ``runs``: all that fit where none is named.

    Of each the parameters that are not its own defaults. One that is made in several settings
    needs as many commands, for a list of values would make all their combinations.
    """
    rounds: list[dict[str, list[str]]] = []
    for name, params in attacks:
        options = _options(f"{name}.", _chosen(name, params))
        free = next((r for r in rounds if name not in r), None)
        if free is None:
            rounds.append({name: options})
        else:
            free[name] = options
    begin, commands = ["leakbench", "attack", *runs], []
    for made in rounds or [{}]:
        named = [word for name in made for word in ("-a", name)]
        commands.append(shlex.join([*begin, *named, *chain.from_iterable(made.values())]))
    return " && ".join(commands)


def _chosen(name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that are not what the attack has unless told; all of one not installed."""
    try:
        usual = choices.build(name, {}).attack.parameters()
    except UsageError:
        return dict(params)
    return {k: v for k, v in params.items() if k not in usual or usual[k] != v}


def recorded(meta: Mapping[str, Any], command: str) -> list[str]:
    """The words of the `leakbench COMMAND` that run.json or attack.json holds.

    None if it holds something else.
    """
    words = command_words(meta.get("command", ""))
    return words if words[:2] == ["leakbench", command] else []


def training_command(row: GateRow, seeds: int, folder: Path = RUNS) -> str:
    """The command that trains the setting of a baseline's row with at least so many seeds.

    Into ``folder``; it is as complete as the row tells.
    """
    c, setting = row.configuration, row.training.setting
    words = ["leakbench", "train", "-t", c.plain_task, "-d", c.defense]
    words += _options("", c.params)
    for w in c.wrappers:
        words += ["-w", str(w["name"]), *_options(f"{w['name']}.", w.get("params", {}))]
    rounds = setting.get("rounds")
    words += _options("", {k: v for k, v in setting.items() if k.startswith("task.")})
    words += ["--rounds", str(rounds)] if rounds else []
    words += [*_how(row.training), *into(folder)]
    return shlex.join(_with_seeds(words, more_seeds(row.units.scores, seeds)))


def _how(training: TrainingRecord) -> list[str]:
    """The options that say how numbers are made, and what is called what, as a run records them."""
    words = ["--engine", training.engine, "--dtype", training.dtype]
    usual, kept = Policy().parameters(), dict(training.record)
    name = kept.pop("name", "")
    words += _options("record.", {k: v for k, v in kept.items() if v != usual.get(k)})
    words += ["--record", str(name)] if name else []
    return [*words, *(["--as", training.called] if training.called else [])]


def more_seeds(there: Sequence[int] | Mapping[int, Any], count: int) -> list[int]:
    """The seeds that are there, and the smallest others up to ``count``."""
    out = sorted(there)
    out += [s for s in range(count + len(out)) if s not in out][: max(count - len(out), 0)]
    return sorted(out)


def _options(prefix: str, values: Mapping[str, Any]) -> list[str]:
    told = [f"{prefix}{k}={option_text(v)}" for k, v in values.items()]
    return [word for text in told for word in ("-s", text)]


def _with_seeds(words: Sequence[str], seeds: Sequence[int]) -> list[str]:
    text = ",".join(str(seed) for seed in sorted(set(seeds)))
    if "--seeds" in words[:-1]:
        at = words.index("--seeds") + 1
        return [*words[:at], text, *words[at + 1 :]]
    return [*words, "--seeds", text]
