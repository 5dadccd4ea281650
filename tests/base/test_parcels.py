"""Folders that come back from another machine: whole, in their place, and over nobody's work."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from leakbench.base import nodes, parcels
from leakbench.base.errors import BrokenFile, UsageError
from leakbench.base.files import digest, read_sealed, write_sealed
from leakbench.base.folder_job import FolderJob
from leakbench.base.nodes import NodeCode
from leakbench.base.parcels import Brought
from leakbench.base.ray_worker import _Lines

DEAD = 2**22 + 1  # no process has such a number


def make_run(folder, result="right", status="done", attacks=()):
    folder.mkdir(parents=True)
    (folder / "result").write_text(result)
    files = {"result": digest(folder / "result")}
    write_sealed(folder / "run.json", {"status": status, "files": files})
    for name in attacks:
        (folder / "attacks" / name).mkdir(parents=True)
        (folder / "attacks" / name / "guess").write_text(name)
    return folder


def job(out, **how):
    return FolderJob("a", print, (str(out),), where=str(out), folder=out / "run", **how)


def brought(fresh, base=""):
    return Brought("run", parcels.sums(fresh), whole=True, base=base)


def inside(folder):
    return sorted(p.name for p in folder.iterdir())


def base(run):
    return digest(run / "run.json")


def test_a_folder_goes_in_pieces_and_comes_out_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(parcels, "PIECE", 100)
    here = make_run(tmp_path / "here", "r" * 1234, attacks=("one",))
    (here / "empty").touch()
    (here / ".lock").touch()
    sent = list(parcels.pieces(here, parcels.sums(here)))
    assert max(sum(len(data) for _, data in piece) for piece in sent) == 100
    for piece in sent:
        parcels.unpack(piece, tmp_path / "there")
    assert parcels.sums(tmp_path / "there") == parcels.sums(here)
    assert (tmp_path / "there" / "result").read_text() == "r" * 1234
    assert (tmp_path / "there" / "empty").exists()
    assert not (tmp_path / "there" / ".lock").exists()
    with pytest.raises(BrokenFile):
        parcels.unpack([("../outside", b"x")], tmp_path / "there")
    assert not (tmp_path / "outside").exists()


def test_what_comes_back_takes_the_place_of_an_unfinished_run(tmp_path):
    run = make_run(tmp_path / "run", "half", status="interrupted")
    fresh, was = make_run(tmp_path / ".fresh"), base(run)
    assert parcels.place(job(tmp_path), fresh, brought(fresh, was)) == ""
    assert (run / "result").read_text() == "right"
    assert inside(tmp_path) == ["run"]


@pytest.mark.parametrize(
    ("theirs", "said"), [("other", "other results; theirs are"), ("right", "")]
)
def test_a_run_that_somebody_else_finished_meanwhile_stays(tmp_path, theirs, said):
    run, fresh = make_run(tmp_path / "run", theirs), make_run(tmp_path / ".fresh")
    before = (run / "run.json").stat().st_mtime_ns
    why = parcels.place(job(tmp_path), fresh, brought(fresh))
    assert said in why
    assert bool(why) == bool(said)
    assert (run / "result").read_text() == theirs
    assert (run / "run.json").stat().st_mtime_ns == before


def test_attacks_that_somebody_else_made_meanwhile_stay(tmp_path):
    run = make_run(tmp_path / "run", attacks=("theirs",))
    fresh = make_run(tmp_path / ".fresh", attacks=("ours",))
    assert parcels.place(job(tmp_path), fresh, brought(fresh, base(run))) == ""
    assert inside(run / "attacks") == ["ours", "theirs"]


@pytest.mark.parametrize("what", ["a byte on the way", "a file that run.json lists"])
def test_what_is_damaged_takes_nobodys_place(tmp_path, what):
    run = make_run(tmp_path / "run", "half", "interrupted")
    fresh = make_run(tmp_path / ".fresh", attacks=("one",))
    told = brought(fresh, base(run))
    if what.startswith("a file"):
        (fresh / "result").write_text("wrong")
        told = brought(fresh, base(run))
    else:
        (fresh / "attacks" / "one" / "guess").write_text("wrong")
    with pytest.raises(BrokenFile):
        parcels.place(job(tmp_path), fresh, told)
    assert (run / "result").read_text() == "half"


def test_an_attack_on_a_run_that_was_changed_meanwhile_is_not_kept(tmp_path):
    run, fresh = make_run(tmp_path / "run"), tmp_path / ".fresh"
    make_run(fresh / "attacks" / "one")
    made, sums = job(tmp_path, back="attacks/one"), parcels.sums(fresh)
    why = parcels.place(made, fresh, Brought("run", sums, whole=True, base="other"))
    assert "was changed meanwhile" in why
    assert not (run / "attacks" / "one").exists()
    assert parcels.place(made, fresh, Brought("run", sums, whole=True, base=base(run))) == ""
    assert read_sealed(run / "attacks" / "one" / "run.json")["status"] == "done"


def test_what_killed_commands_left_goes_and_what_is_in_use_stays(tmp_path):
    dead, alive = (f"{nodes._marks()}{pid}-x" for pid in (DEAD, os.getpid()))
    for name in (dead, alive):
        (tmp_path / name).touch()
        make_run(tmp_path / f"{name}.3")
    mark = nodes.new_mark()
    nodes.mark(tmp_path, mark)
    assert inside(tmp_path) == sorted([alive, f"{alive}.3", mark])
    assert nodes.sees(str(tmp_path), {str(tmp_path): mark})
    assert not nodes.sees(str(tmp_path), {str(tmp_path): dead})
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot write"):
        nodes.mark(Path(tmp_path, "file"), mark)


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        (NodeCode("b", {"source": "1", "torch": "2"}, {"p": "3"}), ""),
        (NodeCode("b", {"source": "0", "torch": "2"}, {"p": "3"}), "node b has other sources"),
        (NodeCode("b", {"source": "1", "torch": "1"}, {"p": "3"}), "has torch 1, and a has 2"),
        (NodeCode("b", {"source": "1", "torch": "2"}, {"p": "4"}), "p in another version"),
        (NodeCode("b", {"source": "1", "torch": "2"}, {"p": ""}), "node b lacks the plugin p"),
        (
            NodeCode("b", {"source": "1", "torch": "2"}, {"p": "3", "q": "4"}),
            "q, which is not here",
        ),
    ],
)
def test_a_node_that_has_something_else_is_named(theirs, said):
    why = nodes.unlike(NodeCode("a", {"source": "1", "torch": "2"}, {"p": "3"}), theirs)
    assert said in why
    assert bool(why) == bool(said)


def test_a_last_line_without_an_end_is_said_too():
    said = []
    with _Lines(said.append) as lines:
        lines.write("one\ntwo")
        assert said == ["one"]
    assert said == ["one", "two"]
