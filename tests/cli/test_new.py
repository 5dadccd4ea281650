"""`leakbench new` names what it wrote, and what to run first, which runs as it is told."""

import re
import shlex
import subprocess
import sys

import pytest


def made(cli, place):
    """A new project, and the words of the two commands that it is said to begin with."""
    code, out, said = cli("new", place)
    assert code == 0
    assert set(out.splitlines()) == {str(path) for path in place.iterdir()}
    return re.search("Begin with (.+) && leakbench (train .+);", said).groups()


def run(place, *words):
    """`leakbench WORDS` there, in a process that knows no other task.py."""
    argv = [sys.executable, "-m", "leakbench", *words]
    done = subprocess.run(argv, cwd=place, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout + done.stderr


def test_a_new_project_says_what_to_run_first(cli, tmp_path):
    place = tmp_path / "a folder" / "mine"
    first, second = made(cli, place)
    assert shlex.split(first) == ["cd", str(place)]
    assert f"    leakbench {second} " in (place / "README.md").read_text()


@pytest.mark.slow
def test_the_first_command_runs(cli, tmp_path):
    _, second = made(cli, tmp_path / "mine")
    told = run(tmp_path / "mine", *shlex.split(second), "--rounds", "1")
    assert "mine-fedavg" in told
    assert "mine-fedprox" in told


@pytest.mark.slow
def test_each_row_that_its_gate_is_given_has_room_to_get_worse(cli, tmp_path):
    """FedAvg alone stands at its ceiling, so that most rows of its baseline gated nothing."""
    made(cli, tmp_path / "mine")
    told = run(tmp_path / "mine", "ci", "ci.toml", "--update")
    assert len(re.findall("^sees  ", told, re.MULTILINE)) == 17
    assert "sees nothing" not in told
    assert "too weak to judge" not in told
