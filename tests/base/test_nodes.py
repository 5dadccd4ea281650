"""Is another machine fit for our jobs? By its code, and by what it sees of our folders."""

from __future__ import annotations

import os

import pytest

from leakbench.base import nodes
from leakbench.base.errors import UsageError
from leakbench.base.nodes import Wanted
from leakbench.base.ray_task import _Lines

DEAD = 2**22 + 1  # no process has such a number


def inside(folder):
    return sorted(p.name for p in folder.iterdir())


def test_what_killed_commands_left_goes_and_what_is_in_use_stays(tmp_path):
    dead, alive = (f"{nodes._marks()}{pid}-x" for pid in (DEAD, os.getpid()))
    for name in (dead, alive):
        (tmp_path / name).touch()
    with nodes.marked_nodes([tmp_path, tmp_path]) as marks:
        assert inside(tmp_path) == sorted([alive, *marks.values()])
        assert list(marks) == [str(tmp_path)]
        assert Wanted("a", {}, marks).unseen() == ""
    assert inside(tmp_path) == [alive]
    (tmp_path / "file").touch()
    with (
        pytest.raises(UsageError, match="cannot write"),
        nodes.marked_nodes([tmp_path, tmp_path / "file"]),
    ):
        pass
    assert inside(tmp_path) == [alive, "file"]


def test_a_folder_without_our_mark_is_another_one(tmp_path):
    for there in (str(tmp_path), str(tmp_path / "not there")):
        why = Wanted("a", {}, {there: "mark"}).unseen()
        assert f"does not see what a has at {there}: choose a folder on a disk" in why
        assert Wanted("a", nodes.node_code(), {there: "mark"}).refused() == why


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        ({"sources": "1", "torch": "2", "plugin p": "3"}, ""),
        ({"sources": "0", "torch": "2", "plugin p": "3"}, "node b has sources: 0, and a has"),
        ({"sources": "1", "torch": "1", "plugin p": "3"}, "has torch: 1, and a has torch: 2. Put"),
        ({"sources": "1", "torch": "2", "plugin p": "4"}, "plugin p: 4, and a has plugin p: 3"),
        ({"sources": "1", "torch": "2"}, "node b has plugin p: none, and"),
        (
            {"sources": "1", "torch": "2", "plugin p": "3", "plugin q": "4"},
            "and a has plugin q: none",
        ),
    ],
)
def test_a_node_that_has_something_else_is_named(theirs, said):
    ours = {"sources": "1", "torch": "2", "plugin p": "3"}
    why = Wanted("a", ours, {}).unlike("b", theirs)
    assert said in why
    assert bool(why) == bool(said)


def test_this_machine_is_fit_for_its_own_jobs_and_another_leakbench_is_not(tmp_path):
    with nodes.marked_nodes([tmp_path]) as marks:
        assert Wanted("a", nodes.node_code(), marks).refused() == ""
        other = {**nodes.node_code(), "sources of leakbench": "another"}
        assert "has sources of leakbench: " in Wanted("a", other, marks).refused()


def test_a_last_line_without_an_end_is_said_too():
    said = []
    with _Lines(said.append) as lines:
        lines.write("one\ntwo")
        assert said == ["one"]
    assert said == ["one", "two"]
