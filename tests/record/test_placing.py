"""Replacing an attack's folder: a reader sees the old one or the new one."""

from __future__ import annotations

import threading
import time

import pytest
from helpers.run_folders import add_attack, edited, make_run, measure

from leakbench.base.errors import BrokenFile
from leakbench.base.files import read_sealed
from leakbench.record import placing
from leakbench.record.folders import load
from leakbench.results import units
from leakbench.results.cells import missing_text

GOOD, BAD = [1.0] * 10, [0.0] * 10


def attack(run, right, folder=""):
    row = measure("p_leak", right, 0.1, GOOD)
    # As in a real one, where the seconds differ, no two say the same.
    missing = [{"metric": "mse", "reason": folder}]
    return add_attack(run, "prototype_leakage", [row], folder=folder, missing=missing)


def test_the_new_files_are_there_and_no_others(tmp_path):
    run = make_run(tmp_path)
    old, new = attack(run, BAD), attack(run, GOOD, ".new")
    (old / "more.csv").write_text("left over\n")
    placing.put(new, old)
    assert not new.exists()
    assert sorted(p.name for p in old.iterdir()) == [
        "attack.json",
        "guess.safetensors",
        "results.csv",
        "units.csv",
    ]
    assert [m.value.value for m in units.measured_of_run(load(run))] == [1.0]


def test_who_reads_while_it_is_replaced_waits_for_the_new_one(tmp_path):
    run = make_run(tmp_path)
    old = attack(run, BAD)
    done = read_sealed(old / "attack.json")
    edited(old / "attack.json", lambda m: m.update(status=placing.REPLACING, files={}))

    def finish():
        time.sleep(0.3)
        edited(old / "attack.json", lambda m: m.update(done))

    writer = threading.Thread(target=finish)
    writer.start()
    assert [m.value.value for m in units.measured_of_run(load(run))] == [0.0]
    writer.join()


def test_who_reads_again_and_again_never_sees_half_of_it(tmp_path):
    run = make_run(tmp_path)
    folder, seen = attack(run, BAD), set()

    def replace():
        for i in range(40):
            placing.put(attack(run, GOOD if i % 2 else BAD, f".new{i}"), folder)
            time.sleep(0.005)

    writer = threading.Thread(target=replace)
    writer.start()
    while writer.is_alive():
        seen.add(tuple(m.value.value for m in units.measured_of_run(load(run))))
    writer.join()
    assert seen <= {(0.0,), (1.0,)}
    assert seen


def test_one_that_was_killed_in_between_is_not_complete_and_says_so(tmp_path, monkeypatch):
    from leakbench.results.lacking import Lacking
    from leakbench.results.settings import group

    run = make_run(tmp_path)
    folder = attack(run, BAD)
    edited(folder / "attack.json", lambda m: m.update(status=placing.REPLACING, files={}))
    monkeypatch.setattr("leakbench.record.folders.time.sleep", lambda _: None)
    lacking = Lacking(None, None)
    (setting,) = group([load(run)])
    lacking.not_there(setting)
    assert units.measured_of_run(load(run)) == []
    assert [missing_text(m) for m in lacking.missing if not m.metric] == [
        "not finished (status being replaced): run the same command again"
    ]


def test_what_is_damaged_stays_damaged(tmp_path):
    run = make_run(tmp_path)
    folder = attack(run, BAD)
    (folder / "units.csv").write_text("role\n")
    with pytest.raises(BrokenFile, match=r"units.csv was changed"):
        units.measured_of_run(load(run))


def test_guesses_that_could_not_be_scored_are_kept_without_the_old_scores(tmp_path):
    run = make_run(tmp_path)
    folder = attack(run, GOOD)
    placing.fail(folder, "no such metric")
    meta = read_sealed(folder / "attack.json")
    assert meta["status"] == "failed: no such metric"
    assert set(meta["files"]) == {"guess.safetensors"}
    assert sorted(p.name for p in folder.iterdir()) == ["attack.json", "guess.safetensors"]
    assert units.measured_of_run(load(run)) == []
