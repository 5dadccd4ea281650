"""The committed tables of who was trained on say what the units beside them say."""

from __future__ import annotations

import csv
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "results" / "membership"
TASKS = sorted({file.name.rpartition("-")[0] for file in (FOLDER / "units").glob("*.csv")})
MEASURED = ("value", "low", "high", "floor")


def place(row):
    return row["method"], row["clients_hold"], row["attack"], row["metric"]


def test_there_are_units():
    assert TASKS == ["cifar10", "uci-har"]


@pytest.mark.parametrize("task", TASKS)
def test_a_table_says_what_its_units_say(task):
    script = runpy.run_path(str(ROOT / "benchmarks" / "membership.py"))
    files = sorted((FOLDER / "units").glob(f"{task}-*.csv"))
    seeds = {int(file.stem.rpartition("-")[2]): script["scores_in"](file) for file in files}
    made = {place(row): row for row in script["found"](seeds)}
    with (FOLDER / f"{task}.csv").open(encoding="utf-8", newline="") as sheet:
        table = {place(row): row for row in csv.DictReader(sheet)}
    assert made.keys() == table.keys()
    for key, row in table.items():
        assert str(made[key]["n"]) == row["n"], key
        for name in (name for name in MEASURED if row[name]):
            assert made[key][name] == pytest.approx(float(row[name]), abs=1e-9), (key, name)
