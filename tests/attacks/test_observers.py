"""A client that attacks: what it sees, of whom its guesses are, and what its rows say."""

import pytest
from helpers.small_runs import TASK, trained

from leakbench import api
from leakbench.base.errors import UsageError
from leakbench.base.files import read_sealed
from leakbench.record.columns import UNITS

CURIOUS = {"observer": "client/9"}


@pytest.fixture(scope="module")
def hiding(tmp_path_factory):
    out = tmp_path_factory.mktemp("hiding")
    return trained(out, "fedhide", params={"k": 3, "fraction": 0.5}, rounds=12)


@pytest.mark.parametrize("name", ["prototype_averaging", "prototype_unmixing"])
def test_its_units_are_the_others(hiding, name):
    rows = api.attack(hiding, name, **CURIOUS).rows
    [row] = [r for r in rows if r["metric"] == "p_leak"]
    assert row["observer"] == "client/9"
    folder = next(f for f in hiding.attacks if f.name == name and "client/9" in f.params)
    units = {u["unit"] for u in folder.table("units.csv", UNITS) if u["role"] == "attack"}
    assert "client/9" not in units
    assert units <= {f"client/{i}" for i in range(9)}
    assert len(units) == row["n"] >= 8


def test_nothing_acquits_by_a_control_that_a_client_has_not(hiding, tmp_path):
    """The banks that it gets are made of defended proxies in the control, too."""
    [row, *_] = api.attack(hiding, "prototype_averaging", **CURIOUS).rows
    assert "no_control" in row["flags"]
    [row, *_] = api.attack(hiding, "prototype_averaging").rows
    assert "no_control" not in row["flags"]
    bare = trained(tmp_path, "fedhide", params={"k": 3, "alpha": 1.0}, rounds=4)
    [row, *_] = api.attack(bare, "prototype_averaging", **CURIOUS).rows
    assert "no_control" not in row["flags"]


def test_who_is_nobody_or_sees_nothing_is_told(hiding, tmp_path):
    with pytest.raises(UsageError, match="there is no client/99: the clients are 0 to 9"):
        api.attack(hiding, "prototype_averaging", observer="client/99")
    with pytest.raises(UsageError, match="clients receive no update of other clients"):
        api.attack(hiding, "prototype_from_update", **CURIOUS)
    alone = trained(tmp_path, "fedaws", rounds=3)
    with pytest.raises(UsageError, match="clients receive no prototype of other clients"):
        api.attack(alone, "prototype_averaging", **CURIOUS)


def test_who_sent_an_update_and_is_no_unit_is_counted(tmp_path):
    drawn = {"fraction": 0.3, "select": "random"}
    run = api.train("fedgn", params=drawn, task_params=TASK, rounds=20, out=tmp_path, device="cpu")
    rows = api.attack(run, "prototype_from_update").rows
    n = next(r["n"] for r in rows if r["metric"] == "p_leak" and r["stage"] == "final")
    folder = next(f for f in run.attacks if f.name == "prototype_from_update")
    told = [m["reason"] for m in read_sealed(folder.path / "attack.json")["missing"]]
    why = "the last layer of their newest update was not kept (stage final)"
    assert n < 10
    assert f"{10 - n} of 10 clients: {why}" in told
