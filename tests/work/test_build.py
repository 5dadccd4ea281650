"""Runs and attacks for a build: what would come out the same today is kept, all else is made."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest
from helpers.small_runs import TASK, plugged, tree_of

from leakbench import api
from leakbench.attacking import choices
from leakbench.base.errors import NewerFile, UsageError
from leakbench.base.files import read_sealed, write_sealed
from leakbench.base.jobs import run_jobs
from leakbench.work import build
from leakbench.work.wanted_run import wanted_runs

ASKED = {"defense": "fedgn", "task": "digits", "task_params": TASK, "rounds": 2}
PAPER, MEAN = ("prototype_leakage", {}), ("prototype_averaging", {})
DO = partial(run_jobs, workers=1)


def made(out, *asked):
    """(what was made, the lines that were said)."""
    said = []
    return build.make(wanted_runs(asked), out, "cpu", do=DO, say=said.append), said


def asked(seed=0, attacks=(PAPER,), **more):
    return {**ASKED, "seed": seed, "attacks": attacks, **more}


def edit(path, change):
    meta = read_sealed(path)
    change(meta)
    write_sealed(path, meta)


def test_the_second_time_nothing_is_made(tmp_path):
    first, said = made(tmp_path, asked(0, called="release"), asked(1, called="release"))
    assert said == [
        "release, seeds 0, 1: trained: not there yet",
        "release, seeds 0, 1: prototype_leakage is made",
    ]
    before = tree_of(tmp_path)
    again, said = made(tmp_path, asked(0, called="release"), asked(1, called="release"))
    assert said == ["release, seeds 0, 1: reused", "2 attacks reused"]
    assert tree_of(tmp_path) == before
    assert [r.path for r in again.runs] == [r.path for r in first.runs]
    assert [a.name for r in again.runs for a in r.attacks] == ["prototype_leakage"] * 2


@pytest.mark.parametrize(
    ("where", "key", "why"),
    [
        ("sources", "method", "the source of the method changed"),
        ("sources", "core", "the source of leakbench's core changed"),
        ("data", "digest", "the data changed"),
        ("versions", "torch", "the version of torch changed"),
    ],
)
def test_what_other_code_or_data_made_is_trained_anew_and_attacked_again(tmp_path, where, key, why):
    (run,) = made(tmp_path, asked())[0].runs
    before = tree_of(tmp_path)
    edit(run.path / "run.json", lambda meta: meta[where].update({key: "0" * 64}))
    assert made(tmp_path, asked())[1] == [
        f"digits: FedGN σ 0.1, seed 0: trained anew: {why}",
        "digits: FedGN σ 0.1, seed 0: prototype_leakage is made",
    ]
    after = tree_of(tmp_path)
    numbers = [n for n in before if n.endswith((".csv", "guess.safetensors"))]
    assert {n: after[n] for n in numbers} == {n: before[n] for n in numbers}


def test_an_attack_of_other_code_is_made_again_alone(tmp_path):
    (run,) = made(tmp_path, asked(attacks=[PAPER, MEAN]))[0].runs
    (folder,) = [a.path for a in run.attacks if a.name == PAPER[0]]
    edit(folder / "attack.json", lambda meta: meta["sources"].update(attack="0" * 64))
    assert made(tmp_path, asked(attacks=[PAPER, MEAN]))[1] == [
        "digits: FedGN σ 0.1, seed 0: reused",
        "digits: FedGN σ 0.1, seed 0: prototype_leakage is made: made by other code of"
        " prototype_leakage",
        "1 attack reused",
    ]


def test_only_the_attacks_that_are_asked_for_count(tmp_path):
    """What an earlier SPEC left in the cache would make cascade and any_attack stronger."""
    made(tmp_path, asked(attacks=[PAPER, MEAN]))
    (run,) = made(tmp_path, asked(attacks=[MEAN]))[0].runs
    assert [a.name for a in run.attacks] == ["prototype_averaging"]
    assert len(api.load(run.path).attacks) == 2


def test_without_a_list_every_attack_that_fits_and_is_not_too_long_runs(tmp_path, monkeypatch):
    names = ("prototype_leakage", "prototype_averaging", "context")
    few = [choices.build(name, {}) for name in names]
    monkeypatch.setattr(choices, "variants", lambda: few)
    long = type(few[1].attack)
    monkeypatch.setattr(long, "seconds", lambda self, source: 6000.0)
    found, said = made(tmp_path, asked(attacks=()))
    assert [a.name for a in found.runs[0].attacks] == ["prototype_leakage"]
    assert said[-1] == (
        "digits: FedGN σ 0.1, seed 0: prototype_averaging is not run: it would take about 100"
        " minutes; name it to run it"
    )


def test_an_attack_that_fits_one_setting_of_two_is_said_and_of_none_refused(tmp_path):
    plain = asked(defense="fedavg")
    both, said = made(tmp_path, asked(), plain)
    assert not both.failed
    assert [line for line in said if "does not fit" in line] == [
        line for line in said if line.startswith("prototype_leakage does not fit digits: FedAvg")
    ]
    assert len(both.runs) == 2
    with pytest.raises(UsageError, match="fits none of these runs"):
        made(tmp_path, plain)


FAULTY = '''
"""Fails in its second round."""

from leakbench import Defense


class Faulty(Defense):
    """FedAvg until it fails."""

    def uplink(self, me):
        if me.round > 1:
            raise ValueError("no second round")
        return None
'''


def test_what_fails_stops_nothing_else(tmp_path):
    with plugged("defenses", tmp_path, faulty=FAULTY):
        found, said = made(tmp_path / "runs", asked(defense="faulty", attacks=()), asked())
    assert [r.spec["defense"]["name"] for r in found.runs] == ["fedgn"]
    (failed,) = found.failed
    assert "failed" in failed.error
    assert said[0] == "digits: FedGN σ 0.1, seed 0: trained: not there yet"


def test_what_is_misspelt_is_said_before_anything_is_trained(tmp_path):
    with pytest.raises(UsageError, match="Did you mean 'prototype_averaging'"):
        made(tmp_path / "runs", asked(), asked(1, attacks=[("prototype_averagin", {})]))
    with pytest.raises(UsageError, match="model"):
        made(tmp_path / "runs", asked(), asked(1, task_params={"model": "mpl"}))
    assert not (tmp_path / "runs").exists()


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def turned(path):
    whole = bytearray(path.read_bytes())
    whole[-1] ^= 1
    path.write_bytes(bytes(whole))


def piped(path):
    path.unlink()
    os.mkfifo(path)


DAMAGE = [
    ("run.json", cut),
    ("run.json", lambda p: p.write_text("[]")),
    ("run.json", piped),
    ("run.json", Path.unlink),
    ("transcript/round-000001.safetensors", turned),
    ("truth/data.safetensors", Path.unlink),
    ("checkpoint/model.safetensors", turned),
    ("transcript/stray", Path.touch),
    ("attacks/*/attack.json", cut),
    ("attacks/*/attack.json", Path.unlink),
    ("attacks/*/guess.safetensors", turned),
    ("attacks/*/units.csv", cut),
    ("attacks/*/results.csv", piped),
]


@pytest.mark.parametrize(("name", "damage"), DAMAGE, ids=[f"{n}-{d.__name__}" for n, d in DAMAGE])
def test_what_is_damaged_is_made_again_and_said(tmp_path, name, damage):
    """A build's cache may be cut at any byte; refused once, it would be refused for ever."""
    first, _ = made(tmp_path, asked(called="release"))
    before = tree_of(tmp_path)
    (run,) = first.runs
    (path,) = list(run.path.glob(name)) or [run.path / name]
    damage(path)
    again, said = made(tmp_path, asked(called="release"))
    assert again.failed == ()
    assert any("damaged, so it is made again: " in line for line in said)
    assert not any("Make it again" in line for line in said)
    assert sorted(tree_of(tmp_path)) == sorted(before)
    for kept in ("transcript", "truth", "checkpoint"):
        for one in (run.path / kept).iterdir():
            assert (
                tree_of(tmp_path)[str(one.relative_to(tmp_path))]
                == before[str(one.relative_to(tmp_path))]
            )
    _, said = made(tmp_path, asked(called="release"))
    assert said == ["release, seed 0: reused", "1 attack reused"]


def test_a_damaged_attack_that_nobody_asked_for_is_not_opened(tmp_path):
    made(tmp_path, asked(attacks=(PAPER, MEAN)))
    (path,) = tmp_path.glob("*/attacks/prototype_averaging-*/attack.json")
    cut(path)
    again, said = made(tmp_path, asked())
    assert said[-1] == "1 attack reused"
    assert [a.name for r in again.runs for a in r.attacks] == ["prototype_leakage"]


def test_what_a_later_leakbench_wrote_is_refused_and_kept(tmp_path):
    first, _ = made(tmp_path, asked())
    path = first.runs[0].path / "run.json"
    path.write_text(path.read_text().replace('"schema": 2', '"schema": 99'))
    before = tree_of(tmp_path)
    with pytest.raises(NewerFile, match="Update leakbench"):
        made(tmp_path, asked())
    assert tree_of(tmp_path) == before
