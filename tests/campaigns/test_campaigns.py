"""Small campaigns, each in seconds: the large ones stand in benchmarks/campaigns."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def campaign(name, *words):
    """It runs in a process of its own: what it forks must not have computed anything."""
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.campaigns.{name}", *map(str, words)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_few_kills():
    said = campaign("kills", "--count", 4, "--seed", 5)
    assert "0 failures" in said
    assert "kills" in said


@pytest.mark.slow
def test_a_few_mutants():
    said = campaign("mutants", "--count", 25, "--seed", 5)
    assert "   25  mutants" in said
    assert "0 failures" in said


@pytest.mark.slow
@pytest.mark.parametrize("case", ["limited_files", "too_long"])
def test_a_circumstance(case):
    assert f"{case}: 0 failures" in campaign("circumstances", "--only", case)


@pytest.mark.slow
def test_some_hostile_text():
    said = campaign("hostile_text", "--texts", "line", "--every", 60)
    assert "terminal: 0 failures" in said


# The judges find what they are there for.


def ended(code, err="", out="", **more):
    from benchmarks.campaigns.forked import Ended

    return Ended(code, out, err, 0.1, 10**8, **more)


def test_a_kill_that_is_not_survived_is_found():
    import signal

    from benchmarks.campaigns.kills import judged

    fine = ended(130, "[1/2] a\nleakbench: interrupted. Kept.\n")
    assert judged(fine, signal.SIGINT) == []
    assert judged(ended(137), signal.SIGKILL) == []
    for bad in (
        ended(2, "leakbench: x is damaged. Make it again.\n"),
        ended(130, "Traceback (most recent call last):\nKeyboardInterrupt\n"),
        ended(130, "leakbench: a is damaged.\nleakbench: interrupted. Kept.\n"),
        ended(130, "leakbench: interrupted. Kept.\n", hung=True),
    ):
        assert judged(bad, signal.SIGINT), bad


def test_a_mutant_that_does_harm_is_found():
    from benchmarks.campaigns.mutants import LIMIT, judged

    words = ("report", "runs")
    assert judged(ended(2, "leakbench: a is damaged. Make it again.\n"), words) == []
    for bad in (
        ended(70, "leakbench: a fault of leakbench itself\n"),
        ended(1, "Traceback (most recent call last):\n"),
        ended(2, ""),
        ended(2, "leakbench: \x1b[2J.\n"),
        ended(137, hung=True),
    ):
        assert judged(bad, words), bad
    large = ended(0)
    large.bytes = LIMIT + 1
    assert judged(large, words)


def test_a_steered_terminal_and_a_forged_line_are_found():
    from benchmarks.campaigns.hostile_text import judged

    assert judged(ended(0), "\x1b[?25l\x1b[2K\x1b[1;32mname\x1b[0m  a [/foo] b\r\n") == []
    for shown in ("\x1b]0;owned\x07", "\x1b[2J", "\x9b2J", "x\r\nleakbench: all is well\r\n"):
        assert judged(ended(0), shown), shown


def test_every_mutation_changes_something_in_the_copy_and_nothing_in_what_it_was_linked_from(
    tmp_path,
):
    import os
    import shutil

    from benchmarks.campaigns import mutations

    base = tmp_path / "base"
    base.mkdir()
    (base / "run.json").write_text(json.dumps({"a": [1, {"b": "c"}], "files": {}}))
    (base / "units.csv").write_text("a,b\n1,2\n3,4\n")
    (base / "other.csv").write_text("c\n5\n")
    before = {p.name: p.read_bytes() for p in base.iterdir()}
    changed = 0
    for i in range(200):
        where = tmp_path / f"copy{i}"
        shutil.copytree(base, where, copy_function=os.link)
        file = where / ("run.json" if i % 2 else "units.csv")
        dice = random.Random(i)
        assert mutations.mutation(file, dice)(file, where, dice)
        there = [p for p in where.iterdir() if p.is_file() and not p.is_symlink()]
        now = {p.name: p.read_bytes() for p in there}
        changed += now != before
        assert {p.name: p.read_bytes() for p in base.iterdir()} == before
    assert changed > 180
