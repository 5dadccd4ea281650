"""The command line in this process, and runs to call it on."""

from __future__ import annotations

import pytest
from helpers.small_runs import trained

from leakbench import api
from leakbench.cli import run
from leakbench.record import folders


@pytest.fixture
def cli(capsys):
    """`leakbench ARGV` in this process: (exit code, stdout, stderr)."""

    def call(*argv):
        capsys.readouterr()
        code = run([str(a) for a in argv])
        done = capsys.readouterr()
        assert "Traceback" not in done.err
        return code, done.out, done.err

    return call


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with one attacked run."""
    out = tmp_path_factory.mktemp("made") / "runs"
    api.attack(trained(out, rounds=3, params={"sigma": 0.5}), "prototype_leakage")
    return out


@pytest.fixture(scope="module")
def gated(tmp_path_factory):
    """Runs of three seeds, attacked, and their baseline."""
    folder = tmp_path_factory.mktemp("gate")
    for seed in range(3):
        api.attack(
            trained(folder / "runs", rounds=12, params={"sigma": 0.5}, seed=seed),
            "prototype_leakage",
        )
    api.update(folders.find([folder / "runs"]), baseline=folder / "leakage.json")
    return folder
