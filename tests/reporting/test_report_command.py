"""The command that makes a report again, whatever made its runs."""

import html
import json
import shlex
from pathlib import Path

import pytest
from helpers.run_folders import make_run

from leakbench.base import plugins
from leakbench.cli import run as cli
from leakbench.record.folders import PASSING, find
from leakbench.reporting import write


@pytest.fixture(autouse=True)
def own(monkeypatch):
    """Whatever a command names as a plugin is forgotten afterwards."""
    monkeypatch.setenv(plugins.VARIABLE, "")


def told(runs, out, **more):
    tables = write.read_tables(find(runs))
    made = write.write_report(tables, out, title="leakbench", formats=["html", "json"], **more)
    command = json.loads((made / "report.json").read_text())["command"]
    page = html.unescape((made / "index.html").read_text())
    assert command == "" or f"<li>This page<pre>{command}</pre>" in page
    assert ("<li>This page" in page) == bool(command)
    return command


def test_runs_made_in_python_are_reported_by_a_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runs = Path("runs")
    for seed in (0, 1):
        make_run(runs, seed=seed, command="")
    assert told(["runs"], Path("report")) == "leakbench report runs"
    before = (tmp_path / "report" / "tradeoff.csv").read_bytes()
    assert cli(shlex.split("leakbench report runs")[1:]) == 0
    assert (tmp_path / "report" / "tradeoff.csv").read_bytes() == before
    one = sorted(runs.iterdir())[0]
    expected = f"leakbench report {one} -o two --redact --check a.json"
    assert told([one], Path("two"), redact=True, baseline=Path("a.json")) == expected


def test_the_files_of_plugins_are_named(tmp_path):
    made = "leakbench train -t digits -d fedgn --plugin '/a b/task.py' --seeds 0"
    run = make_run(tmp_path / "runs", command=made)
    expected = f"leakbench report {run} --plugin '/a b/task.py' -o {tmp_path / 'out'}"
    assert told([run], tmp_path / "out") == expected


def test_what_lives_as_long_as_its_process_has_no_command(tmp_path, monkeypatch):
    monkeypatch.setattr("leakbench.record.folders.gettempdir", lambda: str(tmp_path))
    make_run(tmp_path / f"{PASSING}x")
    assert told([tmp_path / f"{PASSING}x"], tmp_path / "out") == ""
