"""A user's name for a setting neither splits nor pools runs, and stands before what is read."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.run_folders import make_run

from leakbench.base.errors import UsageError
from leakbench.base.reason_words import reason_text
from leakbench.record.folders import find
from leakbench.results.settings import group
from leakbench.results.tables import collect


def test_runs_that_differ_in_their_name_alone_are_one_setting(tmp_path: Path) -> None:
    for seed, name in enumerate(("", "release", "release")):
        make_run(tmp_path, seed=seed, name=name)
    (setting,) = group(find([tmp_path]))
    assert setting.seeds == (0, 1, 2)
    assert setting.called == "release"
    assert setting.name == "release: FedGN σ 0.1"
    assert {r["seeds"] for r in collect(find([tmp_path])).rows("utility")} == {"0|1|2"}


def test_a_setting_without_a_name_is_read_as_ever(tmp_path: Path) -> None:
    make_run(tmp_path)
    (setting,) = group(find([tmp_path]))
    assert (setting.called, setting.name) == ("", "FedGN σ 0.1")


def test_two_names_of_one_setting_are_refused_with_both_runs(tmp_path: Path) -> None:
    one, two = (make_run(tmp_path, seed=s, name=n) for s, n in enumerate(("old", "release")))
    with pytest.raises(UsageError) as said:
        group(find([tmp_path]))
    for told in (str(one), str(two), "'old'", "'release'", "--as NAME"):
        assert told in str(said.value)
    assert group(find([one]))[0].called == "old"


def test_two_settings_may_be_shown_under_one_name(tmp_path: Path) -> None:
    for sigma in (0.1, 0.3):
        make_run(tmp_path, params={"sigma": sigma, "fraction": 1.0}, name="release")
    found = group(find([tmp_path]))
    assert [s.called for s in found] == ["release", "release"]
    assert [s.name for s in found] == ["release: FedGN σ 0.1", "release: FedGN σ 0.3"]


def test_a_name_does_not_move_a_setting_in_the_tables(tmp_path: Path) -> None:
    for sigma, name in ((0.1, "z"), (0.2, ""), (0.3, "a")):
        make_run(tmp_path, params={"sigma": sigma, "fraction": 1.0}, name=name)
    found = group(find([tmp_path]))
    assert [s.index for s in found] == [0, 1, 2]
    assert [s.called for s in found] == ["z", "", "a"]


def test_a_setting_tells_its_readers_what_it_rests_on_and_how_it_went(tmp_path: Path) -> None:
    make_run(tmp_path)
    make_run(tmp_path, seed=1, status="failed: MethodError: x")
    told = group(find([tmp_path]))[0].model_dump()
    assert told["seeds"] == (0,)
    assert {"reference", "state"} <= told.keys()
    make_run(tmp_path / "other", status="failed: MethodError: x")
    (failed,) = group(find([tmp_path / "other"]))
    assert (failed.state, reason_text(failed.reason)) == ("failed", "failed: MethodError: x")
