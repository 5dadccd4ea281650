"""A kind of knowledge is one row: granted, withheld, handed over and said to lack by it alone."""

from __future__ import annotations

import tarfile
from typing import Any, ClassVar

import pytest
import torch
from helpers.small_runs import again, copied, results, trained
from torch import nn
from torch.nn.functional import cross_entropy

from leakbench import api
from leakbench.attacking import isolated
from leakbench.attacking.attack import Attack
from leakbench.attacking.guess import Guess
from leakbench.attacking.public_facts import Outline
from leakbench.attacking.transcript import Transcript
from leakbench.attacking.view import ThreatModel, View
from leakbench.base import plugins
from leakbench.base.errors import LeakbenchError, MethodError, ThreatViolation, UsageError
from leakbench.record.exporting import export
from leakbench.record.folders import load
from leakbench.record.knowledge import KNOWLEDGE, Knowledge

ROUNDS = 10
KINDS = ("prototype", "update")
# One row a kind: a tensor of every update, a number of it, examples.
NEW = {
    "rarest": Knowledge(
        "rarest",
        "the smallest label behind each update",
        held="updates",
        read=lambda held: {place: batch["y"].min() for place, batch in held.items()},
        given="write add('update', ..., labels=y)",
        flag="oracle_labels",
    ),
    "classes": Knowledge(
        "classes",
        "how many classes are behind each update",
        held="updates",
        read=lambda held: {place: len(batch["y"].unique()) for place, batch in held.items()},
    ),
    "few": Knowledge(
        "few",
        "an auxiliary example",
        held="aux_data",
        read=lambda held: held.some(torch.tensor([0])),
    ),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("runs"), "fedgn", ROUNDS, params={"sigma": 0.5}, seed=3)


@pytest.fixture
def more(monkeypatch):
    """The rows, as if they stood in the table."""
    for name, row in NEW.items():
        monkeypatch.setitem(KNOWLEDGE, name, row)


def threat(*knows, **fields):
    return ThreatModel(kinds=KINDS, knows=knows, **fields)


def view(run, *knows, at=ROUNDS, **fields):
    return View(threat(*knows, **fields), again(run), at)


def test_no_threat_model_names_what_is_not_in_the_table():
    for name in NEW:
        with pytest.raises(UsageError, match=r"knows.0 = .*: input should be 'method', 'facts'"):
            ThreatModel.build({"knows": [name]}, "the threat model")


@pytest.mark.usefixtures("more")
@pytest.mark.parametrize("name", NEW)
def test_a_row_is_granted_to_who_declares_it_and_withheld_from_everybody_else(run, name):
    assert view(run, name).know(name) is not None
    every = tuple(KNOWLEDGE.keys() - {name})
    with pytest.raises(ThreatViolation, match=f"'{name}' is not in the declared knowledge"):
        view(run, *every).know(name)


@pytest.mark.usefixtures("more")
@pytest.mark.parametrize("observer", ["server", "aggregator", "outsider", "client/3"])
@pytest.mark.parametrize("rounds", ["all", "audited", "last"])
def test_of_updates_it_tells_of_those_alone_whose_labels_could_be_granted(run, observer, rounds):
    seen = view(run, "labels", "rarest", "classes", at=5, observer=observer, rounds=rounds)
    labels, kept = seen.know("labels"), again(run).known("labels")
    assert seen.know("rarest") == {place: y.min() for place, y in labels.items()}
    assert seen.know("classes") == {place: len(y.unique()) for place, y in labels.items()}
    assert len(labels) < len(kept) == len(again(run).known("rarest"))


@pytest.mark.usefixtures("more")
def test_what_is_handed_out_is_a_copy_and_a_write_is_refused(run):
    class Writing(Attack):
        about: ClassVar[str] = "a test"
        what: ClassVar[Any] = None

        @property
        def threat(self):
            return threat(*NEW)

        def run(self, view, rng):
            known = view.know(self.what)
            (known.x if self.what == "few" else next(iter(known.values()))).add_(1)
            return [Guess("client/0", view.round, {"x": torch.zeros(1)})]

        blind = run

    recording = again(run)
    for name in ("rarest", "few"):
        attack = type("Writing", (Writing,), {"what": name})()
        for _ in range(2):
            with pytest.raises(MethodError, match=f"Writing wrote into the {name}"):
                attack(View(attack.threat, recording, ROUNDS))
    assert recording.known("rarest") == again(run).known("rarest")
    assert torch.equal(recording.known("few").x, again(run).known("few").x)


@pytest.mark.usefixtures("more")
@pytest.mark.parametrize("granted", [(), *((name,) for name in NEW), tuple(NEW)], ids=str)
def test_a_handout_holds_it_where_it_is_granted_and_only_there(run, tmp_path, granted):
    seen = view(run, *granted, at=5, rounds="audited")
    isolated.write_handout(seen, again(run).spec, tmp_path)
    there = {p.stem for p in (tmp_path / "known").glob("*")}
    assert there == {*granted}
    handed = isolated.handed(tmp_path)
    for name in NEW:
        if name not in granted:
            with pytest.raises(ThreatViolation, match=f"'{name}' is not in the declared"):
                handed.know(name)
        elif name == "few":
            assert torch.equal(handed.know(name).x, seen.know(name).x)
            assert torch.equal(handed.know(name).y, seen.know(name).y)
        else:
            assert handed.know(name) == seen.know(name) != {}
            assert list(map(type, handed.know(name).values())) == list(
                map(type, seen.know(name).values())
            )


@pytest.mark.usefixtures("more")
def test_an_export_lacks_what_is_read_off_private_batches(run, tmp_path):
    export(run, tmp_path / "run.tar")
    with tarfile.open(tmp_path / "run.tar") as tar:
        tar.extractall(tmp_path, filter="data")
    (there,) = (p for p in tmp_path.iterdir() if p.is_dir())
    recording = again(load(there))
    for name in ("rarest", "classes"):
        outline = Outline(recording, threat(name))
        assert not outline.holds(name)
        assert f"exported without the {name} of private batches" in outline.lacks(KINDS, (name,))
        with pytest.raises(UsageError, match=f"holds no knowledge called '{name}'"):
            View(threat(name), recording, ROUNDS).know(name)
    assert Outline(recording, threat("few")).lacks(KINDS, ("few",)) == ""
    assert len(View(threat("few"), recording, ROUNDS).know("few")) == 1


@pytest.mark.usefixtures("more")
def test_messages_in_memory_have_it_where_what_it_is_read_from_was_handed_in():
    net = nn.Linear(4, 3)
    bare = Transcript(net, cross_entropy, shape=(4,))
    bare.add("update", [torch.ones_like(p) for p in net.parameters()])
    how = r"given no rarest: write add\('update', ..., labels=y\)"
    with pytest.raises(UsageError, match=how):
        View(ThreatModel(knows=("rarest",)), bare, 1).know("rarest")
    told = Transcript(net, cross_entropy, shape=(4,), aux_data=(torch.rand(2, 4), [0, 1]))
    told.add("update", [torch.ones_like(p) for p in net.parameters()], labels=[2, 1])
    seen = View(ThreatModel(knows=tuple(NEW)), told, 1)
    assert seen.know("rarest") == {("client/0", 1, 2, None): torch.tensor(1)}
    assert seen.know("classes") == {("client/0", 1, 2, None): 2}
    assert seen.know("few").y.tolist() == [0]


# The attack and the row in one file, so that a process of its own has both.
PLUGIN = '''
"""Told: guesses by what it is told of the updates."""

import torch

from leakbench import Attack, Guess, ThreatModel
from leakbench.metrics import P_LEAK
from leakbench.record.knowledge import KNOWLEDGE, Knowledge

KNOWLEDGE["rarest"] = Knowledge(
    "rarest",
    "the smallest label behind each update",
    held="updates",
    read=lambda held: {place: batch["y"].min() for place, batch in held.items()},
    flag="oracle_labels",
)


class Told(Attack):
    """By the smallest label that it is told."""

    about = "a test"
    metrics = (P_LEAK,)
    granted: bool = True

    @property
    def threat(self):
        return ThreatModel(kinds=("prototype",), knows=("rarest",) if self.granted else ())

    def run(self, view, rng):
        told = {place[0]: int(y) for place, y in view.know("rarest").items()}
        return [Guess(c, view.round, {"prototype": torch.ones(8) * y}) for c, y in told.items()]

    def blind(self, view, rng):
        return [Guess(g.unit, g.round, {"prototype": torch.zeros(8)}) for g in self.run(view, rng)]
'''


@pytest.mark.slow
def test_a_process_of_its_own_is_told_it_where_it_is_granted(run, tmp_path, monkeypatch):
    (tmp_path / "told.py").write_text(PLUGIN)
    monkeypatch.setenv(plugins.VARIABLE, str(tmp_path / "told.py"))
    monkeypatch.setitem(KNOWLEDGE, "rarest", NEW["rarest"])
    one, two = (copied(run, tmp_path / where) for where in ("one", "two"))
    here, there = api.attack(one, "told").path, api.attack(two, "told", isolated=True).path
    guesses = [(p / "guess.safetensors").read_bytes() for p in (here, there)]
    assert guesses[0] == guesses[1]
    assert {"oracle_labels", "isolated"} <= set(results(there, "p_leak")["flags"].split("|"))
    for how in (True, False):
        with pytest.raises(LeakbenchError, match="'rarest' is not in the declared knowledge"):
            api.attack(two, "told", granted=False, isolated=how)
