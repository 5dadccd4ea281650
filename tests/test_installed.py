"""The wheel in an environment of its own: what somebody does who has no clone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SHY = '''
"""Shy: a client sends its prototype with every sign drawn anew."""

from defenses import Prototypes


class Shy(Prototypes):
    """Every coordinate keeps its sign by chance."""

    def proxy(self, w, me):
        return w * ((me.rng.uniform("keep", me.facts.dim) < 0.5) * 2 - 1)
'''
TINY = ["-s", "task.model=mlp", "-s", "task.width=8", "-s", "task.dim=8", "--rounds", "3"]


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Its folder of programs. Built over the source archive, installed from the wheel.

    What leakbench needs is taken from here, but no module of leakbench: this clone's is found by a
    file that only the environment of the clone reads.
    """
    uv = shutil.which("uv")
    if uv is None:
        pytest.skip("uv is not installed")
    out = tmp_path_factory.mktemp("dist")
    place = tmp_path_factory.mktemp("plain") / "venv"

    def call(*words):
        subprocess.run([uv, *map(str, words)], check=True, capture_output=True, cwd=out)

    call("build", "--out-dir", out, ROOT)
    (wheel,) = out.glob("*.whl")
    assert len(list(out.glob("*.tar.gz"))) == 1
    call("venv", "--python", sys.executable, place)
    call("pip", "install", "--python", place, "--no-deps", wheel)
    (site,) = place.glob("lib/python*/site-packages")
    (site / "what_it_needs.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return place / "bin"


def call(program, *words, where):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "LEAKBENCH"))}
    environment["XDG_CONFIG_HOME"] = str(where)
    return subprocess.run(
        [str(program), *map(str, words)],
        cwd=where,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.slow
def test_without_the_clone_a_defense_of_ones_own_is_trained_attacked_and_reported(plain, tmp_path):
    told = call(
        plain / "python", "-c", "import leakbench; print(leakbench.__file__)", where=tmp_path
    )
    assert Path(told.stdout.strip()).is_relative_to(plain.parent), told.stderr
    (tmp_path / "shy.py").write_text(SHY)
    own = ["--plugin", "shy.py"]
    for words in (
        ["list", "defenses", *own],
        ["train", "-d", "shy", *TINY, *own],
        ["attack", "runs", "-a", "prototype_leakage,prototype_averaging", *own],
        ["report", "runs", "-o", "report", *own],
        ["check", "runs", "--update", *own],
        ["verify", "runs", *own],
    ):
        done = call(plain / "leakbench", *words, where=tmp_path)
        assert done.returncode == 0, f"{words}: {done.stderr}"
    assert "shy" in (tmp_path / "report" / "tradeoff.csv").read_text()
    assert (tmp_path / "report" / "index.html").is_file()
