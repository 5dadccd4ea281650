"""Methods of one's own in a file or folder that is named, not installed."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys

import pytest
from helpers.small_runs import ON_THE_LINE, TASK

import leakbench.api as leakbench
from leakbench import cli
from leakbench.base import plugins, registry, sources
from leakbench.base.errors import UnknownName, UsageError

SHY = '''
"""Shy: a client sends its prototype with every sign drawn anew."""

from defenses import Prototypes


class {name}(Prototypes):
    """Every coordinate keeps its sign by chance."""

    def proxy(self, w, me):
        return w * ((me.rng.uniform("keep", me.facts.dim) < 0.5) * 2 - 1)
'''
LAST = '''
"""Last: the last message of each client is taken for its prototype."""

from leakbench import Attack, Guess, ThreatModel
from leakbench.metrics import P_LEAK


class Last(Attack):
    """The last one."""

    about = "the last message"
    metrics = (P_LEAK,)

    @property
    def threat(self):
        return ThreatModel(observer="server", kinds=("prototype",), rounds="all", rung="transcript")

    def run(self, view, rng):
        last = {m.sender: m.payload for m in view.messages("prototype") if m.sender != "server"}
        return [Guess(c, view.round, {"prototype": w}) for c, w in sorted(last.items())]

    def blind(self, view, rng):
        return [Guess(g.unit, g.round, {"prototype": -g.tensors["prototype"]})
                for g in self.run(view, rng)]
'''


@pytest.fixture(autouse=True)
def nobodys(tmp_path, monkeypatch):
    """No plugin is named, none lies in the configuration; afterwards none is imported."""
    monkeypatch.setenv(plugins.VARIABLE, "")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(registry, "_said", set())
    yield
    for name in [m for m in sys.modules if m.startswith((plugins.ONE, plugins.SEVERAL))]:
        del sys.modules[name]
    importlib.invalidate_caches()


@pytest.fixture
def shy(tmp_path):
    path = tmp_path / "elsewhere" / "shy.py"
    path.parent.mkdir()
    path.write_text(SHY.format(name="Shy"))
    return path


def test_a_file_anywhere_is_trained_attacked_and_reported(shy, tmp_path, capsys):
    attack = shy.with_name("last.py")
    attack.write_text(LAST)
    runs, named = tmp_path / "runs", ["--plugin", str(shy), "--plugin", str(attack)]
    sets = ["-s", "task.model=mlp", "-s", "task.width=8", "-s", "task.dim=8"]
    train = ["train", "-d", "shy", *sets, "--rounds", "3", "-o", str(runs), "-q"]
    assert cli.run([*train, *named]) == 0
    assert cli.run(["attack", str(runs), "-a", "last", "-q", *named]) == 0
    assert cli.run(["report", str(runs), "-o", str(tmp_path / "report"), "-q", *named]) == 0
    assert ",shy," in (tmp_path / "report" / "tradeoff.csv").read_text()
    capsys.readouterr()
    assert cli.run(["show", "shy", *named]) == 0
    assert "client -> server: prototype" in capsys.readouterr().out


def test_one_file_may_hold_a_method_of_each_kind(tmp_path, capsys):
    """They are named after the file; a task with hyphens, which may be left out. Reported is
    without it, and what that lacks is said.
    """
    path = tmp_path / "tiny_pairs.py"
    task = """
from leakbench.tasks.digit_pairs import DigitPairs


class TinyPairs(DigitPairs):
    \"\"\"Twelve.\"\"\"

    about = "twelve clients"


class _Helper(DigitPairs):
    pass
"""
    path.write_text(SHY.format(name="Shy") + LAST + task)
    runs, named = tmp_path / "runs", ["--plugin", str(path)]
    train = ["train", "-d", "tiny-pairs", "-t", "tiny_pairs", *ON_THE_LINE, "-o", str(runs)]
    assert cli.run([*train, "--rounds", "3", "-q", *named]) == 0
    assert cli.run(["attack", str(runs), "-a", "tiny_pairs", "-q", *named]) == 0
    (run,) = runs.iterdir()
    assert run.name.startswith("tiny-pairs-tiny_pairs-")
    os.environ[plugins.VARIABLE] = ""
    capsys.readouterr()
    assert cli.run(["report", str(runs), "-o", str(tmp_path / "report"), "-q"]) == 0
    assert ",tiny_pairs," in (tmp_path / "report" / "tradeoff.csv").read_text()
    told = "unknown task 'tiny-pairs': it is of a file of one's own, so add --plugin " + str(path)
    lacking = f"which attacks would fit cannot be told here: {told}."
    assert lacking in (tmp_path / "report" / "missing.csv").read_text()
    assert lacking in capsys.readouterr().err
    assert cli.run(["attack", str(runs), "-a", "prototype_leakage"]) == 2
    assert told in capsys.readouterr().err
    path.unlink()  # as on another machine
    assert cli.run(["attack", str(runs), "-a", "prototype_leakage"]) == 2
    assert "A file of your own is named with --plugin." in capsys.readouterr().err


def test_two_methods_of_one_kind_in_a_file_are_refused(tmp_path, capsys):
    path = tmp_path / "both.py"
    path.write_text(SHY.format(name="Shy") + SHY.format(name="Quiet"))
    assert cli.run(["list", "defenses", "--plugin", str(path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "both.py must define one public defense at most" in line
    assert "it defines Shy and Quiet" in line


@pytest.mark.slow
def test_processes_that_are_started_find_it_too(shy, tmp_path):
    attack = shy.with_name("last.py")
    attack.write_text(LAST)
    leakbench.plugin(shy)
    leakbench.plugin(attack)
    runs = str(tmp_path / "runs")
    train = ["train", "-d", "shy", *ON_THE_LINE, "--seeds", "0-1", "--rounds", "3"]
    train += ["--jobs", "2", "-o", runs]
    assert cli.run([*train, "-q"]) == 0
    assert cli.run(["attack", runs, "-a", "last", "--isolated", "--jobs", "2", "-q"]) == 0
    assert len(leakbench.tables(runs).to_frame("tradeoff")) > 0


def test_the_environment_and_the_users_configuration_name_some_too(shy, tmp_path, monkeypatch):
    monkeypatch.setenv(plugins.VARIABLE, str(shy))
    place = plugins.folder() / "defenses"
    place.mkdir(parents=True)
    (place / "quiet.py").write_text(SHY.format(name="Quiet"))
    (place / "_help.py").write_text("raise RuntimeError('no method')\n")
    assert {"shy", "quiet", "fedavg"} <= set(registry.names("defenses"))
    assert registry.plugged("defenses") == ["quiet", "shy"]
    assert registry.plugged("attacks") == []
    assert registry.load_plugin("defenses", "quiet").__name__ == "Quiet"
    (plugins.folder() / "attacks").mkdir()
    shutil.move(place / "quiet.py", place / "silent.py")
    assert "quiet" not in registry.names("defenses")


def test_a_folder_is_listed_without_importing_torch(tmp_path):
    place = tmp_path / "mine" / "defenses"
    place.mkdir(parents=True)
    (place / "shy.py").write_text(SHY.format(name="Shy"))
    code = (
        "import sys; from leakbench import cli;"
        f"assert cli.run(['list', 'defenses', '--plugin', {str(tmp_path / 'mine')!r}]) == 0;"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "Shy: a client sends its prototype" in done.stdout


BROKEN = [
    ("import nothing_of_that_name\n", "No module named 'nothing_of_that_name'"),
    ("def broken(:\n", "SyntaxError"),
    ("X = 1\n", "defines no public method: derive a class from one of Defense"),
    ("import sys\nsys.exit(0)\n", "SystemExit"),
]


@pytest.mark.parametrize(("text", "why"), BROKEN)
def test_one_that_is_broken_is_named_and_left_out(tmp_path, capsys, monkeypatch, text, why):
    """By the environment: nobody typed it for this command."""
    path = tmp_path / "torn.py"
    path.write_text(text)
    monkeypatch.setenv(plugins.VARIABLE, str(path))
    for _ in range(2):
        assert cli.run(["list", "attacks"]) == 0
    said = capsys.readouterr()
    assert "prototype_leakage" in said.out
    (line,) = said.err.splitlines()  # once, not once a question
    assert line.startswith("leakbench: left out: ")
    assert str(path) in line
    assert why in line
    with pytest.raises(UnknownName, match="unknown defense 'torn'"):
        registry.load_plugin("defenses", "torn")


NO_METHOD = (
    "from leakbench.base.spec import Spec\n\n\nclass Torn(Spec):\n    pass\n",
    "defines no public method (but ['Torn'])",
)


@pytest.mark.parametrize(("text", "why"), [*BROKEN, NO_METHOD])
def test_a_broken_file_that_was_typed_stops_the_command(tmp_path, capsys, text, why):
    """Else an attack that was asked for would be missing, and the exit code say that all is well.

    It is forgotten again, so that who goes on in Python has no ruin in the way.
    """
    path = tmp_path / "torn.py"
    path.write_text(text)
    assert cli.run(["list", "attacks", "--plugin", str(path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert str(path) in line
    assert why in line
    with pytest.raises(UsageError, match="torn"):
        leakbench.plugin(path)
    assert str(path) not in os.environ[plugins.VARIABLE]
    assert "prototype_leakage" in registry.names("attacks")


def test_a_pipe_in_a_folder_of_methods_is_passed_over(tmp_path):
    place = tmp_path / "mine" / "attacks"
    place.mkdir(parents=True)
    os.mkfifo(place / "waiting.py")
    (place / "last.py").write_text(LAST)
    leakbench.plugin(place.parent)
    assert "last" in registry.names("attacks")
    assert "waiting" not in registry.names("attacks")


def test_a_broken_one_in_a_folder_does_not_stop_the_attacks(tmp_path, capsys):
    place = tmp_path / "mine" / "attacks"
    place.mkdir(parents=True)
    (place / "torn.py").write_text("import nothing_of_that_name\n")
    run = leakbench.train("fedgn", task_params=TASK, rounds=2, out=tmp_path / "runs")
    named = ["--plugin", str(place.parent), "--budget", "0"]
    assert cli.run(["attack", str(run.path), *named, "-q"]) in (0, 4)
    assert cli.run(["list", *named[:2]]) == 0
    assert "leakbench: left out: " in capsys.readouterr().err


def test_a_name_that_is_taken_is_refused_with_both_places(shy):
    taken = shy.with_name("fedavg.py")
    taken.write_text(SHY.format(name="FedAvg"))
    leakbench.plugin(taken)
    with pytest.raises(UsageError, match=r"'fedavg' is provided twice, by 'defenses\.fedavg' and"):
        registry.names("defenses")


def test_two_files_of_one_name_are_refused(shy, tmp_path):
    leakbench.plugin(shy)
    other = tmp_path / "shy.py"
    other.write_text(SHY.format(name="Shy"))
    leakbench.plugin(other)
    with pytest.raises(UsageError, match="have one name"):
        registry.names("attacks")


def test_one_name_in_two_folders_is_refused(tmp_path):
    for owner in ("a", "b"):
        place = tmp_path / owner / "defenses"
        place.mkdir(parents=True)
        (place / "shy.py").write_text(SHY.format(name="Shy"))
        leakbench.plugin(tmp_path / owner)
    with pytest.raises(UsageError, match="'shy' is provided twice"):
        registry.names("defenses")


@pytest.mark.parametrize("name", ["nowhere.py", "notes.txt"])
def test_what_is_no_plugin_is_one_sentence(tmp_path, capsys, name):
    (tmp_path / "notes.txt").write_text("nothing")
    assert cli.run(["list", "--plugin", str(tmp_path / name)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert str(tmp_path / name) in line
    assert "Name a .py file" in line


@pytest.mark.parametrize("what", ["_mine.py", "attack/x.py"])
def test_one_that_holds_nothing_is_refused(tmp_path, what):
    path = tmp_path / "mine" / what
    path.parent.mkdir(parents=True)
    path.write_text(LAST)
    named = path if what.startswith("_") else tmp_path / "mine"
    with pytest.raises(UsageError, match="there is no method"):
        leakbench.plugin(named)


def test_one_that_was_edited_since_it_was_imported_makes_no_run(shy, tmp_path, capsys):
    leakbench.plugin(shy)
    assert "shy" in registry.names("defenses")
    shy.write_text(shy.read_text().replace("0.5", "0.9"))
    with pytest.raises(UnknownName, match="unknown defense 'shy'"):
        leakbench.train("shy", task_params=TASK, rounds=2, out=tmp_path / "runs")
    assert "was changed since it was imported" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_what_it_rests_on_counts_as_its_source(shy, monkeypatch):
    """A base class of ours, and a plugin beside it."""
    beside = shy.with_name("knob.py")
    beside.write_text("K = 1\n")
    shy.write_text(f"from {plugins.ONE}knob import K\n{shy.read_text()}")
    monkeypatch.setenv(plugins.VARIABLE, os.pathsep.join([str(shy), str(beside)]))
    reached = sources._reached((f"{plugins.ONE}shy",))
    assert reached[f"{plugins.ONE}knob"] == beside
    assert {"defenses", "defenses.fedavg"} <= set(reached)
    first = sources.sources_digest([f"{plugins.ONE}shy"])
    beside.write_text("K = 2\n")
    assert sources.sources_digest([f"{plugins.ONE}shy"]) != first
    assert "defenses.fedhide" not in sources._reached(("defenses.fedavg",))  # ours as before


def test_its_source_is_told_from_a_changed_one(shy, tmp_path):
    leakbench.plugin(shy)
    run = leakbench.train("shy", task_params=TASK, rounds=2, out=tmp_path / "runs")
    leakbench.attack(run, "prototype_leakage")
    line = [sys.executable, "-m", "leakbench", "report", str(run.path), "--format", "csv", "-q"]
    for text, flagged in (("", False), ("# changed\n", True)):
        shy.write_text(shy.read_text() + text)
        out = tmp_path / f"report{flagged}"
        subprocess.run([*line, "-o", str(out)], check=True, env=dict(os.environ), timeout=120)
        assert ("stale_run" in (out / "results.csv").read_text()) is flagged
