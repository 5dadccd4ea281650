"""Guesses on an export that come back: taken for what they are, and nothing in them believed."""

from __future__ import annotations

import json
import shutil
import tarfile

import pytest
import torch
from helpers.run_folders import edited
from helpers.small_runs import copied, results, trained, units

from leakbench import api
from leakbench.attacking import guessing
from leakbench.base.errors import BrokenFile, UsageError
from leakbench.base.files import file_digest, read_sealed, read_tree, write_tree
from leakbench.cli import run as cli
from leakbench.record import exporting

NAME, LEAK = "guess.safetensors", "prototype_leakage"


@pytest.fixture(scope="module")
def sent(tmp_path_factory):
    """A run, and what somebody else made of an export of it."""
    out = tmp_path_factory.mktemp("runs")
    run = trained(out / "ours", "fedgn", 2, params={"sigma": 0.05}, seed=3)
    other = trained(out / "ours", "fedgn", 2, params={"sigma": 0.05}, seed=4)
    exporting.export(run, out / "run.tar")
    with tarfile.open(out / "run.tar") as tar:
        tar.extractall(out / "theirs", filter="data")
    (there,) = (out / "theirs").iterdir()
    return run, other, api.attack(there, LEAK).path


@pytest.fixture
def made(sent, tmp_path):
    run, _, guesses = sent
    shutil.copytree(guesses, tmp_path / "guesses")
    return copied(run, tmp_path), tmp_path / "guesses"


def rewritten(folder, table=None, tensors=None):
    """The submission with another table or other tensors, its digests made to fit."""
    tree, meta = read_tree(folder / NAME)
    if table:
        table(meta["guesses"])
    if tensors:
        tensors(tree)
    write_tree(folder / NAME, tree, meta)
    edited(folder / "attack.json", lambda m: m["files"].update({NAME: file_digest(folder / NAME)}))


def test_what_is_submitted_is_scored_as_if_it_had_been_made_here(sent, made, tmp_path):
    run, guesses = made
    path = api.submit(run, guesses).path
    assert path.parent == run.path / "attacks"
    own = api.attack(copied(sent[0], tmp_path / "own"), LEAK).path
    for metric in ("p_leak", "prototype_cosine"):
        for role in guessing.ROLES:
            assert units(path, metric, role) == units(own, metric, role)
    row = results(path, "p_leak")
    assert "submitted" in row["flags"].split("|")
    assert "no_control" not in row["flags"].split("|")
    assert read_sealed(path / "attack.json")["submitted"] is True
    assert not [p for p in path.parent.iterdir() if p.is_dir() and p != path]
    (folder,) = api.load(run.path).attacks
    assert folder.status == "done"


def test_by_other_code_it_has_no_control_and_its_floor_is_ours(made):
    run, guesses = made
    edited(guesses / "attack.json", lambda m: m["sources"].update(attack="0" * 64))

    def blind(table):
        return [str(i) for i, g in enumerate(table) if g["role"] == "floor"]

    _, meta = read_tree(guesses / NAME)
    theirs, mine = blind(meta["guesses"]), []

    def best(tree):
        """Their blind guess is as good as their attack: nothing would seem to leak."""
        mine.extend(tree[str(i)] for i, g in enumerate(meta["guesses"]) if g["role"] == "attack")
        tree.update(
            {i: {"prototype": t["prototype"].clone()} for i, t in zip(theirs, mine, strict=True)}
        )

    rewritten(guesses, tensors=best)
    path = api.submit(run, guesses).path
    row = results(path, "prototype_cosine")
    assert {"submitted", "no_control"} <= set(row["flags"].split("|"))
    assert row["control"] == row["value"] > 0.5
    assert row["floor"] < 0.4


def test_a_copied_digest_does_not_make_bad_guesses_acquit(made):
    """Guesses that are bad on purpose, said to be of the installed attack and believed by it."""
    run, guesses = made
    rng = torch.Generator().manual_seed(0)

    def dice(tree):
        for entry in tree.values():
            entry["prototype"] = torch.randn(8, generator=rng)

    def sure(table):
        for line in table:
            line["accepted"] = True

    rewritten(guesses, sure, dice)
    path = api.submit(run, guesses).path
    row = results(path, "prototype_cosine")
    assert {"submitted", "control_failed", "no_control"} <= set(row["flags"].split("|"))
    assert not any(g.guess.accepted for g in guessing.saved(path))


def test_what_fails_everywhere_acquits_nobody(made):
    """Without a control a value at the floor is an attack too weak."""
    run, guesses = made
    edited(guesses / "attack.json", lambda m: m["sources"].update(attack="0" * 64))
    rng = torch.Generator().manual_seed(0)

    def dice(tree):
        for entry in tree.values():
            entry["prototype"] = torch.randn(8, generator=rng)

    rewritten(guesses, tensors=dice)
    row = results(api.submit(run, guesses).path, "prototype_cosine")
    assert {"control_failed", "no_control"} <= set(row["flags"].split("|"))


def test_of_another_run_or_changed_since_it_is_refused(sent, made):
    run, guesses = made
    with pytest.raises(UsageError, match=r"was not made on an export of .*: expected one of"):
        api.submit(sent[1], guesses)
    edited(guesses / "attack.json", lambda m: m["of"].update(content="0" * 64))
    with pytest.raises(UsageError, match="was not made on an export"):
        api.submit(run, guesses)
    assert not (run.path / "attacks").exists()


def first(field, value):
    def change(table):
        next(g for g in table if g["role"] == "attack")[field] = value

    return change


def tensor(value):
    def change(tree):
        tree["0"] = {"prototype": value}

    return change


def drop(table):
    table.pop(0)


HOSTILE = {
    "nobody": (first("unit", "client/99"), None, "there is no such client"),
    "another round": (first("round", 7), None, "guesses at stage '[a-z]+', round 7"),
    "text for a round": (first("round", "1"), None, "round = '1'"),
    "huge round": (first("round", 10**12), None, "round = "),
    "another stage": (first("stage", "later"), None, "guesses at stage 'later'"),
    "another role": (first("role", "truth"), None, "role = 'truth'"),
    "a flag of ours": (first("flags", ["stand_in_data"]), None, "flags"),
    "a probe": (first("probe", 3), None, "it sent no probe 3"),
    "one twice": (first("unit", "client/1"), None, "guessed one unit twice|leaves out"),
    "one left out": (drop, None, "holds tensors of no guess|leaves out"),
    "not a list": (lambda table: table.clear(), None, "holds tensors of no guess"),
    "an odd field": (first("path", "/etc"), None, "unknown parameter 'path'"),
    "nan": (None, tensor(torch.full((8,), float("nan"))), "is not finite"),
    "a number": (None, tensor(torch.ones(1)), r"expected 'prototype' to be \(8,\)"),
    "too long": (None, tensor(torch.ones(9999)), r"expected 'prototype' to be \(8,\)"),
    "whole numbers": (None, tensor(torch.ones(8).long()), "expected 'prototype' to be"),
    "no tensor": (None, lambda tree: tree.pop("0"), "guesses nothing and does not say"),
    "another name": (None, lambda t: t.update({"0": {"../x": torch.ones(8)}}), "within|other name"),
    "a nested one": (None, tensor({"a": torch.ones(8)}), "tensors within tensors"),
    "none of it": (None, lambda t: t.update({"0": {"y": torch.ones(8)}}), "has no 'prototype'"),
    "odd whole ones": (
        None,
        lambda t: t["0"].update({"phase": torch.tensor(9)}),
        "holds 'phase', which no guess",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_submission_is_one_sentence_and_leaves_nothing(made, name):
    run, guesses = made
    table, tensors, why = HOSTILE[name]
    rewritten(guesses, table, tensors)
    with pytest.raises(UsageError, match=why) as told:
        api.submit(run, guesses)
    assert "\n" not in str(told.value)
    left = run.path / "attacks"
    assert not left.exists() or not [p for p in left.iterdir() if p.is_dir()]


def test_a_damaged_one_is_said_to_be(made):
    run, guesses = made
    data = (guesses / NAME).read_bytes()
    (guesses / NAME).write_bytes(data[:-9])
    with pytest.raises(BrokenFile, match="was changed or damaged"):
        api.submit(run, guesses)
    (guesses / NAME).unlink()
    (guesses / NAME).symlink_to("/etc/hostname")
    with pytest.raises(BrokenFile, match="leads out of"):
        api.submit(run, guesses)
    meta = json.loads((guesses / "attack.json").read_text())
    (guesses / "attack.json").write_text(json.dumps({**meta, "seconds": 1}))
    with pytest.raises(BrokenFile, match="does not fit its own digest"):
        api.submit(run, guesses)
    with pytest.raises(UsageError, match="is not a folder"):
        api.submit(run, guesses / "attack.json")


def test_an_attack_that_is_not_installed_cannot_be_scored(made):
    run, guesses = made
    edited(guesses / "attack.json", lambda m: m.update(attack="mine"))
    with pytest.raises(UsageError, match="unknown attack 'mine'"):
        api.submit(run, guesses)


def test_what_was_made_here_is_not_replaced_unless_asked(made):
    run, guesses = made
    own = api.attack(run, LEAK).path
    with pytest.raises(UsageError, match="were made here; with --force"):
        api.submit(run, guesses)
    assert "submitted" not in results(own, "p_leak")["flags"]
    assert cli(["submit", str(run.path), str(guesses), "--force", "-q"]) == 0
    assert "submitted" in results(own, "p_leak")["flags"]


def test_without_a_control_it_is_made_again_when_it_is_made_here(made):
    run, guesses = made
    edited(guesses / "attack.json", lambda m: m["sources"].clear())
    path = api.submit(run, guesses).path
    assert "no_control" in results(path, "p_leak")["flags"]
    assert "no_control" not in results(api.attack(run, LEAK).path, "p_leak")["flags"]
