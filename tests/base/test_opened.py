"""What somebody's own code opens is noted, however it does."""

from __future__ import annotations

import importlib
import os
import py_compile
import sys

import pytest

from leakbench.base import opened, sources

MODULE = "somebodys_own"
OPENS = {
    "open": "with open(path) as f: f.read()",
    "pathlib": "pathlib.Path(path).read_bytes()",
    "FileIO of a path": "io.FileIO(pathlib.Path(path)).close()",
    "os.open of a path": "os.close(os.open(pathlib.Path(path), os.O_RDONLY))",
    "a thread": "threads(1).submit(pathlib.Path.read_text, pathlib.Path(path)).result()",
    "a thread's thread": (
        "submit, again = threads(1).submit, threads(1).submit\n"
        "submit(again, pathlib.Path.read_text, pathlib.Path(path)).result().result()"
    ),
}


@pytest.fixture
def own(monkeypatch):
    """A module of somebody's own, as a function that runs a line of it."""
    opened.listen_to("another")  # the first that is there hangs up the hook
    monkeypatch.setitem(opened.by, MODULE, {})
    head = "import io, os, pathlib\nfrom concurrent.futures import ThreadPoolExecutor as threads\n"

    def run(line, path):
        exec(head + line, {"__name__": MODULE, "path": str(path)})

    return run


@pytest.mark.parametrize("how", OPENS)
def test_a_file_is_heard(own, tmp_path, how):
    path, other = tmp_path / "table.csv", tmp_path / "other.csv"
    path.write_text("1")
    other.write_text("2")
    other.read_text()  # by nobody's own code
    own(OPENS[how], path)
    assert opened.by[MODULE] == {str(path): opened.stamp(str(path))}


def test_what_is_only_written_is_not(own, tmp_path):
    own("open(path, 'w').close()", tmp_path / "out.csv")
    assert opened.by[MODULE] == {}


def test_a_source_that_is_read_to_show_a_line_of_it_is_not(own, tmp_path):
    """Torch formats its stack when it is imported: the program that was started is no data."""
    program = tmp_path / "program"
    program.write_text("f()\n")
    code = compile("f()", str(program), "exec")
    shows = "import linecache, traceback, warnings\nlinecache.clearcache()\n"

    def started(line):
        exec(code, {"f": lambda: own(shows + line, program)})

    started("traceback.format_stack()")
    started("warnings.formatwarning('said', UserWarning, path, 1)")
    assert opened.by[MODULE] == {}
    started("linecache.getlines(path)")
    assert list(opened.by[MODULE]) == [str(program)]


def test_what_an_installed_library_reads_when_it_is_imported_is_not(own, tmp_path, monkeypatch):
    """Time zones, a list of fonts: of another machine the run would be one of other code."""
    path, library = tmp_path / "fonts.json", tmp_path / "library.py"
    path.write_text("[]")
    library.write_text(f"open({str(path)!r}).close()\ndef read(path): open(path).close()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    own("import library", path)
    assert str(path) in opened.by[MODULE]  # of a module that is not installed
    monkeypatch.setitem(opened.by, MODULE, {})
    monkeypatch.delitem(sys.modules, "library")
    monkeypatch.setattr(opened, "installed", lambda name: name == str(library))
    own("import library", path)
    assert str(path) not in opened.by[MODULE]
    own("import library; library.read(path)", path)
    assert str(path) in opened.by[MODULE]


def test_compiled_code_stands_for_its_source_and_else_for_itself(own, tmp_path):
    source = tmp_path / "helper.py"
    source.write_text("X = 1")
    compiled = py_compile.compile(str(source))
    own("open(path, 'rb').close()", compiled)
    assert list(opened.by[MODULE]) == [str(source)]
    source.unlink()
    own("open(path, 'rb').close()", compiled)
    assert list(opened.by[MODULE]) == [str(source), str(compiled)]


def test_a_file_that_changed_since_it_was_opened_has_no_digest(tmp_path, monkeypatch):
    module, path = tmp_path / f"{MODULE}.py", tmp_path / "table.csv"
    module.write_text("def read(path):\n    open(path).close()\n")
    path.write_text("1")
    monkeypatch.syspath_prepend(tmp_path)
    opened.listen_to(MODULE)
    loaded = importlib.import_module(MODULE)
    loaded.read(path)
    (first,) = sources.opened_by([MODULE]).values()
    assert first != sources.CHANGED
    path.write_text("2")
    os.utime(path, (1, 1))
    loaded.read(path)
    assert sources.opened_by([MODULE]) == {f"{MODULE}:table.csv": sources.CHANGED}
    monkeypatch.delitem(opened.by, MODULE)
