"""Which tests are tried on a change, and which changes are none."""

from __future__ import annotations

import importlib.util
import sys
import tomllib
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / "benchmarks" / "mutants.py"
SOURCE = """import os
LIMIT = 3


def one(x: int = 2) -> int:
    if (
        x > 1
    ):
        return (x
            + 1)
    return 0


class Two:
    size = 4

    def three(self):
        for i in range(2):
            print(i)
"""


@pytest.fixture(scope="module")
def mutants():
    spec = importlib.util.spec_from_file_location("mutants", PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutants"] = module  # where dataclasses look themselves up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["mutants"]


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        *((2, []), (5, []), (15, [])),  # run on import: whoever knows the module
        *((7, [6, 7, 8]), (9, [9, 10]), (10, [9, 10]), (11, [11]), (18, [18]), (19, [19])),
    ],
)
def test_the_statement_of_a_line(mutants, line, lines):
    assert list(mutants.statement(SOURCE, line)) == lines


def test_a_change_of_types_alone_is_none(mutants):
    same = mutants.meaning("def f(x: int | None) -> int:\n    y: int = 1")
    assert same == mutants.meaning("def f(x: int & None) -> str:\n    y: str = 1")
    assert same != mutants.meaning("def f(x: int | None) -> int:\n    y: int = 2")
    checked = "if TYPE_CHECKING:\n    import a\nb = 1"
    assert mutants.meaning(checked) == mutants.meaning("b = 1")


def test_every_room_has_its_share_by_lines(mutants):
    rooms = tuple(mutants.ROOMS)
    found = mutants.allotted(300, rooms)
    assert sum(found.values()) == 300
    lines = {room: mutants._lines(room) for room in rooms}
    for room in rooms:
        assert abs(found[room] - 300 * lines[room] / sum(lines.values())) < 1
    files = [f for room in rooms for f in mutants.test_files(room)]
    assert all((PATH.parents[1] / f).is_file() for f in files)


def test_the_quickest_tests_are_tried_file_by_file(mutants):
    seconds = {"a.py::1": 30.0, "b.py::1": 1.0, "a.py::2": 2.0, "b.py::2": 20.0, "c.py::1": 50.0}
    known = {"seconds": seconds, "failed": ["b.py::2"], "lines": {}}
    assert mutants.quickest(known, [*seconds]) == ["b.py::1", "a.py::2", "b.py::2", "a.py::1"]
    assert mutants.quickest(known, ["c.py::1"]) == ["c.py::1"]
    assert mutants.ordered(known, ["a.py::1", "b.py::1", "a.py::2"]) == [
        *("b.py::1", "a.py::1", "a.py::2")
    ]
    assert mutants.beside(known, ["b.py::1", "a.py::2"]) == ["a.py::1"]


def test_every_reason_begins_with_its_kind(mutants):
    import tomllib

    spared = tomllib.loads(mutants.REASONS.read_text(encoding="utf-8"))["spared"]
    kinds = ("equivalent: ", "only speed: ", "only words: ", "a guard: ")
    assert all(one["reason"].startswith(kinds) for one in spared)
    assert len({(o["file"], o["old"], o["new"]) for o in spared}) == len(spared)
    for one in spared:  # what is spared is there
        text = " ".join((PATH.parents[1] / one["file"]).read_text(encoding="utf-8").split())
        assert one["old"] in text


def test_every_bug_can_be_planted():
    """Where the code moved, nobody would notice that a bug is none any more."""
    path = PATH.with_name("mutations.toml")
    for bug in tomllib.loads(path.read_text(encoding="utf-8"))["bug"]:
        text = (PATH.parents[1] / bug["file"]).read_text(encoding="utf-8")
        assert text.count(bug["old"]) == 1, bug["what"]
