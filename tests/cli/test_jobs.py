"""How many jobs there are at a time, and how many cores, changes no byte of what they make."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from leakbench.base.files import digests
from leakbench.record import folders

ATTACK = ["-a", "label_inference", "-s", "source=update"]
# A step that is over at once, in one thread; and one that is large enough for all cores.
TIMED = (".lock", "attack.json", "report.json", "index.html")  # how long it took, when it was made
SIZES = {"small": [], "large": ["-s", "task.model=mlp", "-s", "task.width=512"]}


def leakbench(*words: str, threads: str, where: Path) -> None:
    """The command, as a machine of so many cores runs it."""
    line = [sys.executable, "-m", "leakbench", *words, "-q"]
    env = {**os.environ, "OMP_NUM_THREADS": threads}
    subprocess.run(line, env=env, cwd=where, check=True, capture_output=True)


def made(where: Path, size: str, jobs: str, threads: str) -> dict[str, str]:
    """{file: SHA-256} of two runs, their attacks and their report; but what tells the time."""
    where.mkdir()
    more = ["--jobs", jobs]
    train = ["train", "-d", "fedavg", "--rounds", "3", "--seeds", "0,1", *SIZES[size], *more]
    for words in (train, ["attack", "runs", *ATTACK, *more], ["report", "runs"]):
        leakbench(*words, threads=threads, where=where)
    found = digests(where)
    for run in folders.find([str(where / "runs")]):
        assert run.meta["machine"]["threads"] == (1 if size == "small" else int(threads))
        for attack in run.attacks:
            assert attack.meta["machine"] == run.meta["machine"]
    return {k: v for k, v in found.items() if not k.endswith(TIMED)}


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_no_byte_depends_on_how_many_jobs_there_are(tmp_path: Path, size: str) -> None:
    alone = made(tmp_path / "alone", size, "1", "2")
    beside = made(tmp_path / "beside", size, "2", "2")
    assert len(alone) > 20
    assert {k for k in alone.keys() | beside.keys() if alone.get(k) != beside.get(k)} == set()


@pytest.mark.slow
def test_no_byte_of_a_small_run_depends_on_how_many_cores_there_are(tmp_path: Path) -> None:
    one = made(tmp_path / "one", "small", "1", "1")
    two = made(tmp_path / "two", "small", "1", "2")
    assert {k for k in one.keys() | two.keys() if one.get(k) != two.get(k)} == set()
