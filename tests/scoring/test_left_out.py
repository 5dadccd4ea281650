"""An attack that is silent about some clients is not judged on the others alone."""

from __future__ import annotations

import pytest
from helpers.small_runs import again, build, copied, results, trained, units, write_guesses

from leakbench.attacking import guessing
from leakbench.base.files import read_sealed
from leakbench.record.folders import load
from leakbench.scoring import score


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("runs"), rounds=4, params={"sigma": 0.01})


def test_units_that_are_left_out_count_as_failed(run, tmp_path):
    run, attack = copied(run, tmp_path), build("prototype_averaging")
    folder = guessing.guess(again(run), "prototype_averaging", attack)
    found = guessing.saved(folder)
    kept = [g for g in found if g.role != "attack" or g.guess.unit in ("client/0", "client/1")]
    recorded = [(g.role, g.stage, g.guess) for g in kept]
    write_guesses(again(run), "prototype_averaging", attack, recorded)
    score.score(again(run), "prototype_averaging", attack)
    row = results(folder, "p_leak", "all")
    assert (row["n"], row["failed"]) == (10, 8)
    assert "failed_units" in row["flags"]
    silent = {u: s for u, s in units(folder, "p_leak").items() if u not in ("client/0", "client/1")}
    assert set(silent.values()) == {0.1}  # what the blind guess scores


def test_clients_of_whom_nobody_speaks_are_counted(run, tmp_path):
    run, attack = copied(run, tmp_path), build("prototype_averaging")
    folder = guessing.guess(again(run), "prototype_averaging", attack)
    few = [g for g in guessing.saved(folder) if g.guess.unit in ("client/0", "client/1")]
    recorded = [(g.role, g.stage, g.guess) for g in few]
    write_guesses(again(run), "prototype_averaging", attack, recorded)
    score.score(again(run), "prototype_averaging", attack)
    (attacked,) = load(run.path).attacks
    said = [m["reason"] for m in read_sealed(attacked.path / "attack.json")["missing"]]
    assert "8 of 10 clients: the attack made no guess about them (stage all)" in said
