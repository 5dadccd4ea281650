"""The five examples of first reports on one's own run as they stand, and find what there is."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "own"
NAMES = sorted(p.stem for p in EXAMPLES.glob("*.py"))


def test_all_five_are_there():
    assert NAMES == ["folder", "loop", "resnet", "table", "text"]


@pytest.mark.parametrize("name", NAMES)
def test_an_example_ends_in_a_report(name, tmp_path):
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py")],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    report = tmp_path / done.stdout.splitlines()[-1]
    assert (report / "index.html").stat().st_size > 10_000
    with (report / "tradeoff.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    found = {r["metric"] for r in rows}
    assert "label_overlap" in found
    strongest = max(float(r["value"]) for r in rows if r["metric"] == "label_overlap")
    assert strongest > 0.6
    if name == "folder":
        assert max(float(r["value"]) for r in rows if r["metric"] == "psnr") > 30


def test_a_new_project_trains_and_its_loop_runs(tmp_path):
    def run(*words):
        done = subprocess.run(
            [sys.executable, *words], cwd=tmp_path / "mine", capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    (tmp_path / "mine").mkdir()
    written = run("-m", "leakbench", "new", "my-own").split()
    assert [Path(p).name for p in written] == [
        *("README.md", "task.py", "loop.py", "ci.toml", "test_leakage.py")
    ]
    train = ("train", "-t", "my-own/task.py", "-d", "fedavg,fedprox", "--rounds", "5")
    assert "my-own-fedavg" in run("-m", "leakbench", *train)
    again = ("attack", "runs", "--plugin", "my-own/task.py", "-a", "label_inference")
    assert "label_overlap" in run("-m", "leakbench", *again)
    assert run("my-own/loop.py").strip().endswith("report")
    refused = subprocess.run(
        [sys.executable, "-m", "leakbench", "new", "my-own"],
        cwd=tmp_path / "mine",
        capture_output=True,
        text=True,
    )
    assert refused.returncode == 2
    assert "there and not empty" in refused.stderr
