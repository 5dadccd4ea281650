"""Which command answers what a check says: train more, attack again, or accept what is meant."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from leakbench.base.spec import command_words
from leakbench.gate.outcome import Comparison, LimitOutcome
from leakbench.gate.row import GateRow
from leakbench.reporting.commands import RUNS, attack_commands, more_seeds, training_command, trains
from leakbench.results.settings import Setting

WORSE = ("leaks more", "loses utility")


class Command(NamedTuple):
    """What answers a row.

    ``updates``: it writes the baseline anew, which answers only if the change is meant.
    ``accepts``: the name of the row that it accepts there, if it names one.
    """

    begin: str
    updates: bool = False
    accepts: str = ""

    @property
    def text(self) -> str:
        """What is typed."""
        return accepted(self.begin, [self.accepts]) if self.accepts else self.begin


def accepted(begin: str, names: Iterable[str]) -> str:
    """The command that accepts all of these rows."""
    return " ".join([begin, *(shlex.join(["--accept", name]) for name in names)])


class Settling:
    """Commands for the settings that were checked, and the baseline they were compared with.

    ``spec``: the SPEC.toml of a `leakbench ci`, which makes and checks its own runs alone.
    """

    def __init__(
        self, settings: Sequence[Setting], baseline: Path | None, spec: Path | None = None
    ) -> None:
        runs = [run for s in settings for run in s.every]
        self.folders = list(dict.fromkeys(str(r.path.parent) for r in runs))
        self.attacked = {s.key: _attacks(s) for s in settings}
        self.commands = {s.key: trains(s) for s in settings}
        self.spec = spec
        named = spec is None and baseline is not None and baseline != Path("leakage.json")
        self.baseline = ["--baseline", str(baseline)] if named else []

    def row(self, c: Comparison) -> Command:
        """Train what is missing or too little, attack it, or take it into the baseline."""
        now, then = c.now, c.then
        if c.state in WORSE:
            return Command(self._check("--update", *self._all_seeds(c)), True, c.name)
        if c.state == "new":
            return Command(self._check("--update"), True)
        if now is None and then is not None:
            trained = then.configuration.key in self.commands and not then.is_utility
            if trained:
                return Command(self._attack(then))
            folder = Path(self.folders[0]) if self.folders else RUNS
            train = training_command(then, len(then.units.scores), folder)
            return Command(f"{train} && {self._attack(then, folder)}")
        if now is not None and c.more:
            return Command(self._check("--spend", str(len(c.more))))
        if now is not None and c.seeds:
            train = self._train(now, more_seeds(now.units.scores, c.seeds))
            return Command(f"{train} && {self._attack(now)}")
        return Command(self._check("--update"), True, c.name)

    def _all_seeds(self, c: Comparison) -> list[str]:
        """A baseline of more seeds than a build trains is not written again with fewer."""
        if self.spec is None or c.then is None or c.now is None:
            return []
        if not c.then.units.scores.keys() - c.now.units.scores.keys():
            return []
        return ["--seeds", ",".join(map(str, sorted({*c.then.units.scores, *c.now.units.scores})))]

    def limit(self, limit: LimitOutcome) -> str:
        """Train the seeds of the next look at it; nothing where they do not help."""
        if limit.state != "cannot tell" or limit.row is None or not limit.more:
            return ""
        return self._check("--spend", str(len(limit.more)))

    def _attack(self, row: GateRow, folder: Path | None = None) -> str:
        """All that its setting was attacked by, and its own: one command for all its rows."""
        asked = set(self.attacked.get(row.configuration.key, ()))
        if not row.attacker.made and not row.is_utility:
            asked.add(row.attacker.key)
        made = [(name, json.loads(params)) for name, params in sorted(asked)]
        return attack_commands(self.folders or [str(folder or RUNS)], made)

    def _check(self, *options: str) -> str:
        made = ["ci", str(self.spec)] if self.spec else ["check", *self.folders]
        words = ["leakbench", *made, *self.baseline]
        return shlex.join([*words, *options])

    def _train(self, row: GateRow, seeds: Iterable[int]) -> str:
        """The command that trained the setting, with these seeds."""
        wanted = sorted(seeds)
        words = command_words(self.commands.get(row.configuration.key, ""))
        if "--seeds" not in words[:-1]:
            folder = Path(self.folders[0]) if self.folders else RUNS
            words = shlex.split(training_command(row, len(wanted), folder))
        words[words.index("--seeds") + 1] = ",".join(map(str, wanted))
        return shlex.join(words)


def _attacks(setting: Setting) -> set[tuple[str, str]]:
    """(attack, its parameters) of all that its runs were attacked by."""
    return {(a.name, a.params) for run in setting.runs for a in run.attacks}
