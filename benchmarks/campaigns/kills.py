"""Kills at random moments: what is resumed must equal what was never interrupted, byte for byte.

    python -m benchmarks.campaigns.kills --count 200 --seed 0 [--keep DIR]

Over train, attack, score, report, check --update and export; with SIGKILL, SIGTERM and SIGINT. The
first two signals that can be heard must end in one sentence and 143 or 130. Left out of the
comparison are how long an attack took, and the digests over that.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.campaigns import forked
from benchmarks.campaigns.forked import TINY, Command, command

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
AT_MOST = 3  # kills of one command before it is let through
TIMES = ("seconds", "digest", "guess_seconds")
NOW = rb"20\d\d-\d\d-\d\dT[0-9:]+\+00:00"  # when a report was made
QUICK = ("steps=3", "restarts=1", "targets=1", 'at=["final"]')
ATTACKS = [w for a in ("leakage", "averaging") for w in ("-a", f"prototype_{a}")]
ATTACKS += ["-a", "gradient_inversion"]
ATTACKS += [w for value in QUICK for w in ("-s", f"gradient_inversion.{value}")]


@dataclass(frozen=True)
class Case:
    """A command to kill: what it needs before, and how it is called."""

    name: str
    words: tuple[object, ...]
    given: str  # the folder of ``Stage`` that is copied to begin with, or ""
    before: Callable[[], None] = lambda: None


CASES = (
    Case(
        "train",
        ("train", "-d", "fedgn", "-s", "sigma=0.5", *TINY, "--rounds", 40, "--seeds", "0,1"),
        "",
        forked.checkpoints,
    ),
    Case("attack", ("attack", "runs", *ATTACKS), "trained"),
    Case("score", ("score", "runs"), "attacked"),
    Case("report", ("report", "runs", "--format", "html,csv,json,markdown,latex"), "attacked"),
    Case("check --update", ("check", "runs", "--update"), "attacked"),
    Case("export", ("export", "RUN", "--without-truth", "-o", "run.tar"), "trained"),
)


@dataclass
class Stage:
    """Folders that commands begin with, and what they make when nobody disturbs them."""

    place: Path
    whole: dict[str, dict[str, bytes]] = field(default_factory=dict)
    took: dict[str, float] = field(default_factory=dict)

    def words(self, case: Case) -> list[object]:
        """With the name of a run in place of RUN."""
        runs = self.place / "trained" / "runs"
        return [f"runs/{sorted(runs.iterdir())[0].name}" if w == "RUN" else w for w in case.words]

    def begin(self, case: Case, name: str) -> Path:
        where = self.place / name / "work"
        shutil.rmtree(where.parent, ignore_errors=True)
        if case.given:
            shutil.copytree(self.place / case.given, where)
        else:
            where.mkdir(parents=True)
        return where

    def make(self) -> None:
        """Each command once, in peace."""
        for case in CASES:
            where = self.begin(case, "whole")
            done = command(self.words(case), where, before=case.before)
            if done.code:
                raise RuntimeError(f"{case.name} fails by itself: {done.err}")
            self.whole[case.name], self.took[case.name] = content(where), done.seconds
            for made, name in (("train", "trained"), ("attack", "attacked")):
                if case.name == made:
                    shutil.rmtree(self.place / name, ignore_errors=True)
                    shutil.copytree(where, self.place / name)


def content(where: Path) -> dict[str, bytes]:
    """{name: bytes}, without times and the digests over them."""
    found = forked.files(where).items()
    return {name: timeless(name, data) for name, data in found if not name.endswith(".lock")}


def timeless(name: str, data: bytes) -> bytes:
    """A file as it would be if nothing took time."""
    if name.endswith("attack.json"):
        value = {k: v for k, v in json.loads(data).items() if k not in TIMES}
        return json.dumps(value, sort_keys=True).encode()
    return re.sub(NOW, b"now", data) if name.startswith("report/") else data


def kill(case: Case, stage: Stage, dice: random.Random, tally: Counter[str]) -> list[str]:
    """One command, killed a few times and then let through; what was wrong with it."""
    where, wrong = stage.begin(case, "cut"), []
    for _ in range(dice.randint(1, AT_MOST)):
        one, which = Command(stage.words(case), where, case.before), dice.choice(SIGNALS)
        time.sleep(0.02 + dice.random() * stage.took[case.name])
        try:
            one.send(which)
        except ProcessLookupError:
            one.wait()
            continue
        ended = one.wait()
        if ended.code == 0:  # it was through before
            continue
        tally[f"{case.name} by {which.name}"] += 1
        tally["kills"] += 1
        wrong += [f"{case.name}, {which.name}: {w}" for w in judged(ended, which)]
    done = command(stage.words(case), where, before=case.before)
    if done.code:
        wrong.append(f"{case.name}: not resumed: exit {done.code}: {done.err[-300:]}")
        return wrong
    now, whole = content(where), stage.whole[case.name]
    names = sorted(n for n in {*now, *whole} if now.get(n) != whole.get(n))
    if names:
        wrong.append(f"{case.name}: {len(names)} files differ, the first is {names[0]}")
    return wrong


def judged(ended: forked.Ended, which: signal.Signals) -> list[str]:
    """What is wrong with how it ended."""
    wrong = []
    if ended.hung:
        wrong.append("hung")
    if ended.code != 128 + which:
        wrong.append(f"exit {ended.code}: {ended.err[-300:]}")
    if "Traceback" in ended.err or "Exception ignored" in ended.err:
        wrong.append(f"a traceback: {ended.err[-300:]}")
    if which != signal.SIGKILL and ended.code == 128 + which:
        said = ended.said
        if len(said) != 1 or not said[0].startswith("leakbench: interrupted"):
            wrong.append(f"said {said}")
    return wrong


def campaign(count: int, seed: int, place: Path) -> tuple[Counter[str], list[str]]:
    """``count`` kills; how many of what, and what went wrong."""
    dice, tally, wrong = random.Random(seed), Counter[str](), list[str]()
    forked.ready()
    stage = Stage(place)
    stage.make()
    while tally["kills"] < count:
        case = CASES[tally["commands"] % len(CASES)]
        tally["commands"] += 1
        found = kill(case, stage, dice, tally)
        for line in found:
            print(line, flush=True)
        if found:
            kept = place / f"failed-{tally['commands']}"
            shutil.copytree(place / "cut", kept)
        wrong += found
    return tally, wrong


if __name__ == "__main__":
    sys.exit(forked.main(campaign, __doc__, count=200))
