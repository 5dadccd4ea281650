"""results/fedhide-20000: five committed records as a table, of which no number looks safer."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import pytest

from leakbench.reproduce import cards, catalogue, plan, row
from leakbench.reproduce.strongest import rivals, worst

ROOT = Path(__file__).parents[2]
PLACE = ROOT / "results" / "fedhide-20000"
ROWS = {(r.label, r.measure): r for r in row.read_rows(PLACE / "small.csv")}
COLUMNS = ("p_leak", "p_leak_mean", "p_leak_centred", "p_leak_unmixed", "p_leak_update")


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("long", ROOT / "benchmarks" / "fedhide_20000.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def readme():
    """Label -> the cells of the first table."""
    out = {}
    for line in (PLACE / "README.md").read_text("utf-8").splitlines():
        cells = [c.strip() for c in line.strip("| ").split(" | ")]
        if len(cells) == 9 and cells[0].startswith("Fed"):
            out[cells[0]] = cells
    return out


def test_the_recipe_plans_the_very_runs_whose_records_are_here():
    """Named by every parameter: nothing differs, down to the seed."""
    planned = plan.plan(catalogue.find_recipe("fedhide-20000"), "small", data=False)
    names = {p.name for p in PLACE.iterdir() if p.is_dir()}
    assert {name for p in planned for name in p.folders} == names
    for p in planned:
        there = json.loads((PLACE / p.folders[0] / "run.json").read_text("utf-8"))["spec"]
        assert there["rounds"] == p.specs[0].rounds == 20_000
        assert there["defense"]["params"] == p.specs[0].defense.params


def test_every_number_is_the_readmes():
    """Read with nothing but split: accuracy, and the share that each attack named."""
    told = readme()
    assert {label for label, _ in ROWS} == set(told)
    for label, cells in told.items():
        accuracy = ROWS[label, "utility"].ours
        assert f"{accuracy.value:.3f} ({accuracy.low:.3f} to {accuracy.high:.3f})" == cells[2]
        for measure, cell in zip(COLUMNS, cells[4:], strict=True):
            ours = ROWS[label, measure].ours
            text = f"{ours.value:.2f} ({ours.low:.2f} to {ours.high:.2f})" if ours else "-"
            assert text == cell, (label, measure)


def test_what_is_not_of_the_record_says_so(script):
    """No update is in a record; each client's newest message is."""
    for (label, measure), r in ROWS.items():
        said = script.NOTE in r.note
        if measure == "p_leak_update":
            assert said, label
        if measure in ("utility", "p_leak"):
            assert not said, label
        if r.ours:
            assert r.undertrained
            assert r.rise > 0.1
            assert "stale_run" in r.flags
            assert ("stale_attack" in r.flags) == (measure != "utility")


def test_a_records_smaller_number_does_not_stand(script):
    """What it finds more of does."""
    bare = ROWS["FedHide(0.01, 10)", "p_leak_mean"]
    ran = ROWS["FedHide(0.01, 10)", "utility"]
    for value, stands in ((0.08, False), (0.12, True), (0.2, True)):
        given = bare.ours.model_copy(update={"value": value, "low": 0.0, "high": 1.0})
        one = bare.model_copy(update={"ours": given, "note": ""})
        assert (script.whole(one, ran) is one) == stands
    none = script.whole(bare.model_copy(update={"ours": None}), ran)
    assert (none.ours.value, none.ours.n, none.floor, none.control) == (0.12, 100, 0.01, 1.0)


def test_a_record_attacked_gives_the_committed_row(script, tmp_path):
    planned = plan.plan(catalogue.find_recipe("fedhide-20000"), "small", data=False)
    (p,) = [p for p in planned if p.case.label == "FedHide(0.01, 10)"]
    some = [a for a in p.attacks if a[0] in ("prototype_leakage", "prototype_from_update")]
    found = script.attacked(replace(p, attacks=tuple(some)), PLACE, tmp_path)
    (number,) = [n for n in found.setting.numbers if n.metric == "p_leak" and not n.attacker.made]
    assert number.value.value == ROWS["FedHide(0.01, 10)", "p_leak"].ours.value == 0.08
    assert found.said[0][0] == "prototype_from_update"


def test_the_cards_read_it():
    """FedHide(0.01, 10) stood at "at least 0.12" on CIFAR-100."""
    rows = cards.committed_rows(ROOT / "results")
    listed = {(q.best.label, q.best.task, q.best.metric): q for q in worst([*rivals(rows)])}
    for label in ("FedHide(0.01, 10)", "FedHide(0.1, 10)"):
        q = listed[label, "cifar100", "p_leak"]
        assert (q.best.recipe, q.verdict()) == ("fedhide-20000", "1.00")
        assert q.best.rounds == 20_000
