"""Code of somebody's own may raise anything: one sentence with its file, its line and what it
raised, and never the exit code of a fault of leakbench.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
from helpers.small_runs import ON_THE_LINE, trained

from leakbench import cli
from leakbench.base import plugins
from leakbench.base.errors import MethodError
from leakbench.base.files import read_sealed
from leakbench.base.raised import is_fault, own_place, raised_text
from leakbench.cli import app

METHOD = '''
"""Odd."""

from leakbench import Defense


class Oops(Exception):
    """A class of one's own."""


class Odd(Defense):
    """Odd."""

    def {function}({given}):
        {body}  # here
'''
ATTACK = '''
"""Odd."""

from leakbench import Attack, ThreatModel
from leakbench.metrics import P_LEAK


class Odd(Attack):
    """Odd."""

    about = "odd"
    metrics = (P_LEAK,)

    def __getattribute__(self, name):
        if name == "{function}":
            {body}  # here
        return super().__getattribute__(name)

    @property
    def threat(self):
        return ThreatModel(observer="server", kinds=("update",), rung="transcript")

    def run(self, view, rng):
        return []

    def blind(self, view, rng):
        return []
'''
TASK = '''
"""Odd."""

from leakbench.tasks.digits import Digits


class Odd(Digits):
    """Odd."""

    about = "odd"

    def {function}({given}):
        {body}  # here
'''
LOSS, ME, SERVER = "self, net, batch, me", "self, me", "self, server"
METHODS = {  # what is raised -> function, parameters, body
    "NameError: name 'nothing' is not defined": ("loss", LOSS, "return nothing"),
    "Oops: bad": ("loss", LOSS, "raise Oops('bad')"),
    "SystemExit: 0": ("uplink", ME, "raise SystemExit(0)"),
    "NotImplementedError": ("prepare", ME, "raise NotImplementedError"),
    "ZeroDivisionError: division by zero": ("aggregate", SERVER, "return 1 / 0"),
    "KeyError: 'k'": ("predict", "self, net, x, me", "return {}['k']"),
    "FileNotFoundError: [Errno 2] No such file or directory: '/no/x'": (
        *("start", ME, "open('/no/x')"),
    ),
    "AssertionError": ("undefended", "self", "assert False"),
    "TypeError: odd": ("module", "self, module, facts", "raise TypeError('odd')"),
}


@pytest.fixture(autouse=True)
def nothing_named(monkeypatch):
    """No plugin is named; afterwards none is imported."""
    monkeypatch.setenv(plugins.VARIABLE, "")
    yield
    for name in [m for m in sys.modules if m.startswith(plugins.ONE)]:
        del sys.modules[name]
    importlib.invalidate_caches()


@pytest.fixture
def said(tmp_path, capsys):
    """The one sentence with which a command ends that runs ``text``, and its exit code."""

    def call(text: str, *argv: object) -> tuple[str, int, str]:
        path = tmp_path / "odd.py"
        path.write_text(text)
        line = 1 + next(i for i, words in enumerate(text.splitlines()) if "# here" in words)
        capsys.readouterr()
        code = cli.run([*map(str, argv), "-q"])
        out, err = capsys.readouterr()
        assert out == ""
        assert len(err.splitlines()) == 1
        return err.strip(), code, f"(odd.py, line {line})"

    return call


@pytest.mark.parametrize("what", METHODS)
def test_a_method_that_fails_is_told_by_its_line(tmp_path, said, what):
    function, given, body = METHODS[what]
    runs, file = tmp_path / "runs", tmp_path / "odd.py"
    train = ["train", "-d", "odd", "--plugin", file, *ON_THE_LINE, "--rounds", 3, "-o", runs]
    text = METHOD.format(function=function, given=given, body=body)
    sentence, code, line = said(text, *train)
    assert sentence.endswith(f"failed: {what} {line}.")
    assert code in (2, 4)
    for status in [read_sealed(p)["status"] for p in runs.glob("*/run.json")]:
        assert status == f"failed: {what} {line}"


@pytest.mark.parametrize("function", ["load", "facts", "module"])
def test_a_task_that_fails_is_told_by_its_line(tmp_path, said, function):
    given = {"load": "self", "facts": "self, method", "module": "self, facts"}[function]
    text = TASK.format(function=function, given=given, body="return nothing")
    train = ["train", "-d", "fedavg", "-t", tmp_path / "odd.py", "--rounds", 3, "-o", tmp_path]
    sentence, code, line = said(text, *train)
    assert sentence.endswith(f"failed: NameError: name 'nothing' is not defined {line}.")
    assert code in (2, 4)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return trained(tmp_path_factory.mktemp("runs"), "fedgn", rounds=3).path


@pytest.mark.parametrize("isolated", [False, True], ids=["here", "isolated"])
@pytest.mark.parametrize("function", ["run", "blind", "obstacle", "seconds", "threat"])
def test_an_attack_that_fails_is_told_by_its_line(tmp_path, said, run, function, isolated):
    text = ATTACK.format(function=function, body="raise SystemExit('bad')")
    attack = ["attack", run, "-a", "odd", "--plugin", tmp_path / "odd.py"]
    sentence, code, line = said(text, *attack, *["--isolated"] * isolated)
    assert f"SystemExit: bad {line}" in sentence
    assert code in (2, 4)


NOTHING = {
    "loss": (LOSS, "with odd.py"),
    "predict": ("self, net, x, me", "predict of Odd gives NoneType"),
    "module": ("self, module, facts", "module of Odd gives NoneType"),
}


@pytest.mark.parametrize("function", NOTHING)
def test_a_function_that_returns_nothing_is_named(tmp_path, said, function):
    given, words = NOTHING[function]
    train = ["train", "-d", "odd", "--plugin", tmp_path / "odd.py", *ON_THE_LINE]
    text = METHOD.format(function=function, given=given, body="return None")
    sentence, code, _ = said(text, *train, "--rounds", 3, "-o", tmp_path)
    assert words in sentence
    assert code in (2, 4)


def test_a_task_that_loads_nothing_and_an_attack_that_guesses_nothing(tmp_path, said, run):
    file, train = tmp_path / "odd.py", ["train", "-d", "fedavg", "--rounds", 3, "-o", tmp_path]
    text = TASK.format(function="load", given="self", body="return None")
    sentence, code, _ = said(text, *train, "-t", file)
    assert "load of Odd gives NoneType: expected a TaskData" in sentence
    assert code == 2
    nothing_imported = [m for m in sys.modules if m.startswith(plugins.ONE)]
    for name in nothing_imported:
        del sys.modules[name]
    text = ATTACK.format(function="none", body="pass").replace("return []", "return None")
    sentence, code, _ = said(text, "attack", run, "-a", "odd", "--plugin", file)
    assert "Odd returned NoneType: expected a list of Guess" in sentence
    assert code == 4


def test_what_leakbench_raises_itself_stays_its_own_fault(monkeypatch, capsys):
    """Code of leakbench, compiled where its file lies."""
    made: dict[str, object] = {}
    text = "def fails(*_args, **_named):\n    raise KeyError('ours')\n"
    code = compile(text, app.__file__, "exec")
    monkeypatch.setattr("leakbench.base.registry.names", _of(code, made))
    assert cli.run(["show", "fedavg"]) == cli.OUR_FAULT
    assert "a fault of leakbench itself" in capsys.readouterr().err


def _of(code, made):
    exec(code, made)
    return made["fails"]


def _full():
    raise OSError(28, "No space left on device", "runs/x")


def test_whose_an_exception_is():
    def caught(call):
        try:
            call()
        except BaseException as error:
            return error
        raise AssertionError

    mine = caught(lambda: open("/no/x"))  # noqa: SIM115, PTH123
    assert own_place(mine).startswith("test_own_faults.py, line ")
    assert is_fault(mine)
    assert not is_fault(FileNotFoundError("/no/x"))  # without a line of anybody's
    assert not is_fault(caught(_full))
    assert not is_fault(MemoryError())
    assert not is_fault(MethodError("said"))
    assert raised_text(MethodError("said")) == "said"
    assert raised_text(KeyError("k"), ["a.py", "b.py"]) == "KeyError: 'k' (with a.py and with b.py)"
