"""Mutants of every kind of file that a command reads.

    python -m benchmarks.campaigns.mutants --count 2000 --seed 0 [--keep DIR]

Each mutant is one change to a copy of two attacked runs with a baseline, a report, a SPEC.toml and
a method of somebody's own; then one command reads it. It must end within seconds and 2 GiB in one
sentence and exit 2 or 4, or as if nothing had been changed: an answer that differs from the
untouched folder's, without a word, is the worst there is. Of every third mutant the digests are
recomputed: a seal is no signature, so another number may come of it, but no crash.
"""

from __future__ import annotations

import importlib
import os
import random
import shutil
import stat
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.campaigns import forked, mutations
from benchmarks.campaigns.forked import GIB, TINY, Ended, command

LIMIT, SECONDS = 2 * GIB, 30.0
TRAIN = ("train", "-d", "fedgn", "-s", "sigma=0.5", *TINY, "--rounds", 3, "--seeds", "0,1")
CSV = ("--format", "csv")
PLUGIN = '''
"""A method of somebody's own."""

from pydantic import Field

from leakbench import Defense


class FedOwn(Defense):
    """FedAvg under another name."""

    strength: float = Field(0.5, ge=0, description="of nothing")
'''
SPEC = """task = "digits"
rounds = 2
seeds = [0, 1]
[[defense]]
name = "fedgn"
sigma = [0.1, 0.3]
[[attack]]
name = "prototype_leakage"
"""
# What reads which kind of file.
READ = {
    "runs": (
        ("report", "runs", "-o", "new", *CSV),
        ("report", "runs", "-o", "new", "--format", "html,json,markdown"),
        ("check", "runs"),
        ("score", "runs", "-q"),
        ("attack", "runs", "-a", "prototype_leakage", "-q"),
        ("attack", "runs", "-a", "prototype_averaging", "-q"),
        ("export", "RUN", "--without-truth", "-o", "run.tar", "-q"),
        ("verify", "runs"),
        (*TRAIN, "-q"),
    ),
    "leakage.json": (
        ("check", "runs"),
        ("check", "runs", "--update"),
        ("report", "runs", "-o", "new", "--check", "leakage.json", *CSV),
    ),
    "report": (("report", "runs", "-o", "new", "--against", "report", "--format", "json"),),
    "spec.toml": (("train", "spec.toml", *TINY, "-o", "other", "-q"),),
    "plugin": (
        ("train", "-d", "fedown", *TINY, "--rounds", 1, "-o", "other", "-q"),
        ("list", "defenses"),
    ),
}
# What somebody writes by hand, or reviews as code: another text is another question.
ASKED = ("spec.toml", "plugin", "leakage.json", "report")
# How often each kind is tried.
SHARES = {"runs": 14, "leakage.json": 4, "report": 2, "spec.toml": 2, "plugin": 1}


@dataclass
class Stage:
    """The untouched folder, and what every command answers on it."""

    place: Path
    answers: dict[tuple[object, ...], tuple[Ended, dict[str, bytes]]] = field(default_factory=dict)

    def make(self) -> None:
        base = self.place / "base"
        shutil.rmtree(base, ignore_errors=True)
        base.mkdir(parents=True)
        (base / "spec.toml").write_text(SPEC)
        (base / "plugin").mkdir()
        (base / "plugin" / "fedown.py").write_text(PLUGIN)
        attack = ("attack", "runs", "-a", "prototype_leakage")
        report = ("report", "runs", "--format", "csv,json")
        for words in (TRAIN, attack, report, ("check", "runs", "--update")):
            done = command(words, base)
            if done.code:
                raise RuntimeError(f"{words[0]} fails by itself: {done.err}")

    def copy(self, name: str) -> Path:
        """A copy that shares what nobody writes into."""
        where = self.place / name / "work"
        shutil.rmtree(where.parent, ignore_errors=True)
        shutil.copytree(self.place / "base", where, copy_function=os.link)
        return where

    def words(self, words: tuple[object, ...]) -> tuple[object, ...]:
        first = sorted((self.place / "base" / "runs").iterdir())[0].name
        return tuple(f"runs/{first}" if w == "RUN" else w for w in words)

    def answer(self, words: tuple[object, ...]) -> tuple[Ended, dict[str, bytes]]:
        """How a command ends on the untouched folder, and what numbers it gives."""
        if words not in self.answers:
            where = self.copy("sound")
            done = command(words, where, before=plugged(where))
            self.answers[words] = done, numbers(where, words, done)
        return self.answers[words]


def plugged(where: Path) -> Callable[[], None]:
    """Makes the method in the folder one of leakbench's."""

    def plug() -> None:
        package = importlib.import_module("defenses")
        package.__path__.append(str(where / "plugin"))
        importlib.invalidate_caches()

    return plug


def numbers(where: Path, words: tuple[object, ...], done: Ended) -> dict[str, bytes]:
    """What a reader takes from a command: its table, and the tables that it wrote."""
    out, written = {"stdout": done.out.encode()}, ["new/*.csv"]
    if words[0] in ("attack", "score"):
        written += [f"runs/*/attacks/*/{name}.csv" for name in ("results", "units")]
    for pattern in written:
        for path in sorted(where.glob(pattern)):
            if path.is_file():
                out[str(path.relative_to(where))] = path.read_bytes()
    return out


def candidates(where: Path, kind: str) -> list[Path]:
    """The files of a kind."""
    top = where / kind
    if top.is_file():
        return [top]
    return sorted(p for p in top.rglob("*") if p.is_file())


def mutant(stage: Stage, dice: random.Random, tally: Counter[str]) -> list[str]:
    """Make one, read it, and say what was wrong."""
    where = stage.copy("mutant")
    kind = dice.choices(list(SHARES), list(SHARES.values()))[0]
    files = candidates(where, kind)
    if kind == "runs" and dice.random() < 0.5:  # most of the files are messages
        files = [p for p in files if p.suffix != ".safetensors"]
    file = dice.choice(files)
    what = f"{file.relative_to(where)}: {mutations.mutation(file, dice)(file, where, dice)}"
    resealed = kind == "runs" and dice.random() < 1 / 3
    if resealed:
        mutations.reseal(where / "runs")
        what += " (resealed)"
    words = stage.words(dice.choice([w for w in READ[kind] if known(w)]))
    before = kept(where, file)
    done = command(words, where, seconds=SECONDS, before=plugged(where))
    tally["mutants"] += 1
    tally[f"of {file.suffix or file.name}"] += 1
    tally[f"exit {done.code}"] += 1
    wrong = judged(done, words)
    sound, answer = stage.answer(words)
    if done.code in (0, 1, 3) and not wrong:
        found = numbers(where, words, done)
        own = str(file.relative_to(where))  # who does not read it leaves it as it is
        found, answer = dict(found), dict(answer)
        found.pop(own, None)
        answer.pop(own, None)
        if found == answer and done.code == sound.code:
            tally["read as if untouched"] += 1
        elif kind in ASKED:
            tally["another question, answered"] += 1
        elif resealed:
            tally["another number under new seals"] += 1
        elif done.code == 3 or len(done.said) > len(sound.said):
            tally["another answer, with a word"] += 1
        else:
            changed = sorted(n for n in {*found, *answer} if found.get(n) != answer.get(n))
            wrong.append(f"accepted, exit {done.code}; changed: {', '.join(changed)[:80]}")
    elif not wrong:
        tally["refused"] += 1
    wrong += overwritten(where, before, words, done)
    if {p.name for p in where.parent.iterdir()} != {"work", "work.out", "work.err"}:
        wrong.append("something was written beside the folder")
    return [f"{' '.join(map(str, words))[:60]} | {what} | {w}" for w in wrong]


def known(words: tuple[object, ...]) -> bool:
    """Is there such a command here?"""
    import typer.main

    from leakbench.cli.app import app

    return words[0] in typer.main.get_command(app).commands  # type: ignore[attr-defined]


def judged(done: Ended, words: tuple[object, ...]) -> list[str]:
    """What is wrong with how a command ended."""
    wrong = []
    slow = "spec.toml" in words  # who asks for 10^9 rounds gets them
    if done.hung and not slow:
        wrong.append(f"hung for {SECONDS:.0f} s")
    elif done.code not in (0, 1, 2, 3, 4) and not done.hung:
        wrong.append(f"exit {done.code}: {done.err.strip()[-200:]}")
    if "Traceback" in done.err or "Exception ignored" in done.err:
        wrong.append(f"a traceback: {done.err.strip()[-300:]}")
    if done.bytes > LIMIT:
        wrong.append(f"{done.bytes / GIB:.1f} GiB")
    if done.code == 2 and not done.hung:
        said = done.said
        if words[0] == "verify" and done.out:  # its answer is what it found
            return wrong
        if not said or not said[-1].startswith("leakbench: ") or len(said) > 4:
            wrong.append(f"said {said}")
    if "\x1b" in done.out + done.err:
        wrong.append("an escape sequence reached the terminal")
    return wrong


def kept(where: Path, file: Path) -> dict[Path, bytes]:
    """What no refusal may change: the files of the runs but for attacks, and the baseline."""
    out = {}
    for path in [*where.glob("runs/**/*"), where / "leakage.json"]:
        if path.name == ".lock":  # says who is at work
            continue
        if "attacks" not in path.parts and path.exists() and stat.S_ISREG(path.lstat().st_mode):
            out[path] = path.read_bytes()
    return out


def overwritten(
    where: Path, before: dict[Path, bytes], words: tuple[object, ...], done: Ended
) -> list[str]:
    """Files that a command changed though it refused, or though it only reads."""
    if done.code not in (2, 4) and words[0] not in ("report", "check", "export"):
        return []
    if "--update" in words and done.code == 0:
        before = {p: b for p, b in before.items() if p.name != "leakage.json"}
    changed = [p for p, b in before.items() if not p.is_file() or p.read_bytes() != b]
    return [f"overwritten: {p.relative_to(where)}" for p in changed[:1]]


def campaign(count: int, seed: int, place: Path) -> tuple[Counter[str], list[str]]:
    """``count`` mutants; how they were taken, and what went wrong."""
    dice, tally, wrong = random.Random(seed), Counter[str](), list[str]()
    forked.ready()
    stage = Stage(place)
    stage.make()
    base = forked.files(place / "base")
    for _ in range(count):
        try:
            found = mutant(stage, dice, tally)
        except OSError as error:  # a mutation that cannot be made
            tally["not made"] += 1
            print(f"not made: {error}", flush=True)
            continue
        for line in found:
            print(line, flush=True)
        wrong += found
    if forked.files(place / "base") != base:
        wrong.append("the folder that the copies share was written into")
        print(wrong[-1])
    return tally, wrong


if __name__ == "__main__":
    sys.exit(forked.main(campaign, __doc__, count=2000))
