"""The program itself: help, version, signals, and what the others share."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
from helpers.commands import apart, gone, small
from helpers.jobs import fault
from helpers.small_runs import TASK, trained

import leakbench
from leakbench.base.files import read_sealed


class TestTheProgramItself:
    def test_help_everywhere(self, cli):
        for argv in (
            ["-h"],
            ["--help"],
            *(
                [c, "-h"]
                for c in (
                    "train",
                    "attack",
                    "score",
                    "report",
                    "check",
                    "list",
                    "show",
                    "doctor",
                    "demo",
                )
            ),
        ):
            code, out, err = cli(*argv)
            assert (code, err) == (0, "")
            assert out.startswith("Usage: leakbench")

    def test_version(self, cli):
        assert cli("--version") == (0, f"leakbench {leakbench.__version__}\n", "")

    def test_nothing_asked_is_the_help_on_stderr(self, cli):
        code, out, err = cli()
        assert (code, out) == (2, "")
        assert err.startswith("Usage: leakbench")
        assert "Commands:" in err

    def test_a_fault_of_ours_is_a_sentence_and_a_log(self, cli, made, monkeypatch):
        from leakbench.cli import attack

        monkeypatch.setattr(attack, "score", fault)
        code, out, err = cli("score", made)
        assert (code, out) == (70, "")
        assert err.startswith("leakbench: a fault of leakbench itself")
        assert ": KeyError: 'a fault of ours' (base/jobs.py, line 1); please report it with" in err
        log = Path(err.split("the log ")[1].strip().rstrip("."))
        assert "KeyError: 'a fault of ours'" in log.read_text()
        log.unlink()

    def test_an_interrupt_says_that_it_can_go_on(self, cli, made, monkeypatch):
        from leakbench.cli import attack

        def interrupt(*a, **k):
            raise KeyboardInterrupt

        monkeypatch.setattr(attack, "score", interrupt)
        assert cli("score", made) == (
            130,
            "",
            (
                "leakbench: interrupted. Finished scores are kept; the same command scores all"
                " again.\n"
            ),
        )

    @pytest.mark.slow
    @pytest.mark.parametrize("jobs", [1, 2])
    def test_ctrl_c_ends_in_130_and_the_same_command_goes_on(self, cli, tmp_path, jobs):
        """A real one, to the whole group of processes as a terminal sends it."""
        line = small(
            "-o",
            tmp_path / "runs",
            "--seeds",
            "0,1" if jobs == 2 else "0",
            "--jobs",
            jobs,
            rounds=4000,
        )
        process = apart(*line)
        deadline = time.monotonic() + 400
        while time.monotonic() < deadline and (
            len(list(tmp_path.glob("runs/*/transcript/round-*"))) < 3
            or len(list(tmp_path.glob("runs/*/run.json"))) < jobs  # the slower one has begun, too
        ):
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=120)
        assert (process.returncode, out) == (130, "")
        assert gone(process.pid)
        assert (
            err.splitlines()[-1]
            == "leakbench: interrupted. Finished runs are kept, and an unfinished one up to its"
            " last checkpoint; the same command goes on from there."
        )
        assert "Traceback" not in err
        for folder in (tmp_path / "runs").iterdir():
            assert read_sealed(folder / "run.json")["status"] == "running"
        code, _, err = cli("attack", tmp_path / "runs", "-a", "prototype_leakage")
        assert code == 4
        assert "is not complete (status: running)" in err

    @pytest.mark.slow
    def test_results_and_errors_of_a_real_process(self, made, tmp_path):
        process = apart("attack", made, "-a", "prototype_leakage", "--json", cwd=tmp_path)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, "")
        assert json.loads(out)
        process = apart("show", "fedgm", cwd=tmp_path)
        assert process.communicate(timeout=60) == (
            "",
            "leakbench: unknown name 'fedgm'. Did you mean 'fedgn'? A file of your own is named"
            " with --plugin.\n",
        )
        assert process.returncode == 2


def test_small_runs_are_what_the_command_line_makes(cli, tmp_path):
    """The helper and the options describe one and the same run."""
    assert cli(*small("-o", tmp_path / "a", rounds=1))[0] == 0
    run_ = trained(tmp_path / "b", rounds=1, record="standard")
    assert [f.name for f in (tmp_path / "a").iterdir()] == [run_.path.name]
    assert TASK.items() <= run_.spec["task"]["params"].items()
