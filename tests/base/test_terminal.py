"""Every text that reaches a terminal goes one way, and nothing on it steers the terminal."""

from __future__ import annotations

import ast
import io
import sys
import warnings
from pathlib import Path

import pytest

import leakbench
from leakbench.base import terminal
from leakbench.base.errors import UsageError
from leakbench.base.printable_text import on_one_line
from leakbench.cli.console import Console, emit, emit_json, show_table

EVIL = "a[/foo]b [link=http://x]c[/link]\x1b]0;owned\x07\x1b[2J\nleakbench: all is well\u202e"
ROOT = Path(leakbench.__path__[0])
# Who writes: the one way itself, and the console, which asks whether somebody looks.
WRITERS = {"base/terminal.py", "cli/console.py"}


def writes(tree):
    """Lines on which a module reaches for stdout or stderr, or prints."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in ("stdout", "stderr", "__stderr__"):
            found += [node.lineno] * (isinstance(node.value, ast.Name) and node.value.id == "sys")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found += [node.lineno] * (node.func.id in ("print", "input"))
    return found


def test_nobody_else_writes_to_stdout_or_stderr():
    found = {}
    for root in (ROOT, *(ROOT.parent / p for p in ("attacks", "defenses", "reports"))):
        for path in root.rglob("*.py"):
            name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
            found[name] = writes(ast.parse(path.read_text(encoding="utf-8")))
    # A download of torchvision's prints to stdout, which is the result's: it is sent to stderr.
    assert {n for n, lines in found.items() if lines} == WRITERS | {"data/image_sets.py"}


@pytest.mark.parametrize("line", ["sys.stderr.write(x)", "print(x)", "print(x, file=sys.stdout)"])
def test_who_writes_is_found(line):
    assert writes(ast.parse(line))


def test_a_sentence_is_one_line_and_keeps_its_blanks():
    assert on_one_line("a  b\n\n  c\td") == "a  b c d"
    assert on_one_line("runs/a\nleakbench: fine") == "runs/a leakbench: fine"
    assert "\x1b" not in on_one_line(EVIL)


def test_what_is_said_is_one_line_without_controls(capsys):
    terminal.say(EVIL)
    Console().say(EVIL)
    Console().warn(EVIL)
    Console(verbose=True).detail(EVIL)
    with Console().progress(1) as tell:
        tell(EVIL, 0, 1, EVIL)
    emit(EVIL)
    show_table([{"x": EVIL}], {"x": EVIL})
    emit_json({EVIL: EVIL, "\x7f": "\x9b"})
    out, err = capsys.readouterr()
    assert len(err.splitlines()) == 5
    assert len(out.splitlines()) == 3 + 4
    assert not {"\x1b", "\x07", "\x7f", "\x9b", "\u202e"} & {*out, *err}
    assert "\nleakbench:" not in out + err


class Screen(io.StringIO):
    """A terminal that keeps what reaches it."""

    encoding = "utf-8"

    def isatty(self):
        return True


def test_a_jobs_name_is_text_on_the_progress_bar(monkeypatch):
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with Console().progress(1) as tell:
        tell(EVIL, 0, 2, EVIL)
        tell(EVIL, 1, 2, EVIL)
    shown = screen.getvalue()
    assert "a[/foo]b" in shown
    assert "]0;owned\x07" not in shown
    assert "\x1b]" not in shown  # no window title, no link
    assert "\x1b[2J\x1b" not in shown
    assert "\x07" not in shown


class Full(io.StringIO):
    """A device without room."""

    def write(self, _):
        raise OSError(28, "No space left on device")


class Gone(io.StringIO):
    """A pipe that nobody reads."""

    def write(self, _):
        raise BrokenPipeError(32, "Broken pipe")


def test_where_stderr_cannot_be_written_the_work_goes_on(monkeypatch):
    for stream in (Full(), Gone(), None):
        monkeypatch.setattr(sys, "stderr", stream)
        terminal.say("on it goes")


def test_a_terminal_that_is_gone_stops_no_job(monkeypatch):
    class Closed(Screen):
        def write(self, _=""):
            raise OSError(5, "Input/output error")

        flush = write

    monkeypatch.setattr(sys, "stderr", Closed())
    with Console().progress(1) as tell, Console().busy("on it goes"):
        tell("a", 0, 2, "b")
        tell("a", 1, 2, "b")


def test_a_stdout_that_is_full_is_said_and_a_reader_who_has_gone_is_none(monkeypatch):
    monkeypatch.setattr(sys, "stdout", Gone())
    emit("the first line is enough")
    monkeypatch.setattr(sys, "stdout", Full())
    with pytest.raises(UsageError, match=r"cannot be written to stdout \(No space left on device"):
        emit("a result")


def test_letters_that_stdout_does_not_know_are_spelt(monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(io.BytesIO(), encoding="latin-1"))
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    terminal.prepare()
    emit("é中 " + b"\xff".decode("utf-8", "surrogateescape"))
    sys.stdout.flush()
    assert raw.getvalue() == b"\\xe9\\u4e2d \\ufffd\n"


def test_a_warning_is_a_sentence(monkeypatch, capsys):
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    terminal.prepare()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning(UserWarning(EVIL), UserWarning, "x.py", 3)
    err = capsys.readouterr().err
    assert err.startswith("UserWarning: a[/foo]b")
    assert err.count("\n") == 1
    assert "\x1b" not in err
