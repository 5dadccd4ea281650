"""A run in float64 is attacked like any other: what an attack makes up has the run's precision."""

import pytest

from leakbench import api
from leakbench.attacking import choices
from leakbench.record.folders import load
from leakbench.record.recording import Recording

CASES = {
    "gradient_inversion": ("fedgn", {"steps": 2, "restarts": 1, "targets": 1}),
    "prototype_picture": ("fedgn", {"steps": 2, "way": "pixels"}),
    "feature_inversion": ("flea", {"iterations": 1}),
    "decoder": ("flea", {"steps": 4}),
    "statistics_inversion": ("ccvr", {"clients": 1, "most": 200, "starts": 1, "steps": 2}),
    "adversarial_examples": ("fedaa", {"steps": 1}),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    out, made = tmp_path_factory.mktemp("runs"), {}
    how = {"fedaa": {"search_steps": 1, "epochs": 1}, "ccvr": {"shares": "statistics"}}
    for name in ("fedgn", "flea", "fedaa", "ccvr"):
        params = how.get(name, {})
        made[name] = api.train(name, params=params, rounds=1, out=out, dtype="float64")
    return made


@pytest.mark.parametrize("name", CASES)
def test_it_is_attacked_and_its_time_is_foretold(runs, name):
    defense, params = CASES[name]
    assert choices.build(name, params).seconds(Recording(load(runs[defense].path))) > 0
    rows = api.attack(runs[defense], name, **params).rows
    assert rows
    assert not all(row["failed"] == row["n"] for row in rows)
