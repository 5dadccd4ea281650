"""docs/cards is what the committed tables say, and never kinder."""

from __future__ import annotations

import csv
import importlib.util
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def script():
    spec = importlib.util.spec_from_file_location("cards", ROOT / "benchmarks" / "cards.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


cards = script()


def cells(text: str, *begins: str) -> list[list[str]]:
    lines = [[c.strip() for c in x.strip("| ").split(" | ")] for x in text.splitlines()]
    return [line for line in lines if tuple(line[: len(begins)]) == begins]


@pytest.fixture(scope="module")
def made():
    return cards.pages(ROOT / "results")


def test_committed_cards_are_those_of_the_tables(made):
    there = {p.name: p.read_text("utf-8") for p in (ROOT / "docs" / "cards").glob("*.md")}
    assert made == there


def test_a_card_by_hand(made):
    """Claimed, measured the same way, strongest: read with nothing but csv."""
    path = ROOT / "results" / "findings-fedhide" / "smoke.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = [r for r in csv.DictReader(file) if r["label"] == "FedGN(0.5)" and r["value"]]
    named = [r for r in rows if r["metric"] == "p_leak"]
    (claimed,) = {r["claimed"] for r in named if r["claimed"]}
    (same,) = [r for r in named if r["claimed"]]
    best = max(named, key=lambda r: float(r["value"]))
    (line,) = [
        x
        for x in cells(made["fedhide.md"], "FedGN(0.5)", "digit-pairs", "`p_leak`")
        if "findings-fedhide" in x[-1]
    ]
    assert float(line[3]) == pytest.approx(float(claimed), abs=5e-4)
    assert float(line[4].split()[0]) == pytest.approx(float(same["value"]), abs=5e-4)
    assert float(line[5].strip("*").split()[0]) == pytest.approx(float(best["value"]), abs=5e-4)
    assert float(best["value"]) > float(same["value"])


def leaked(text: str) -> dict[tuple[str, ...], str]:
    lines = [x for x in cells(text) if len(x) == 9][1:]
    return {tuple(x[:3]): x[3].strip("*") for x in lines}


def test_a_share_short_of_all_is_a_lower_bound(made):
    found = leaked(made["index.md"])
    assert len(found) > 20
    for key, text in found.items():
        assert text == "-" or text.startswith("at least 0.") or float(text) >= 1, key


def test_what_a_dead_run_leaks_is_not_told(made):
    """Whichever row of the setting noted that the model learnt nothing."""
    rows = cards.row.read(ROOT / "results" / "findings-fedhide" / "smoke.csv")
    key = ("FedGN(0.5)", "digit-pairs", "`p_leak`")
    assert float(leaked(cards.index(rows))[key]) >= 1
    (found,) = [r for r in rows if r.label == key[0] and r.measure == "utility"]
    ill = found.model_copy(update={"flags": found.flags | {"dead_run"}})
    told = leaked(cards.index([ill if r is found else r for r in rows]))
    assert told[f"{key[0]} (dead run)", *key[1:]] == "-"
    assert "(dead run)" in made["fedhide.md"]


def test_smaller_is_worse_where_the_metric_says_so(made):
    (line,) = cells(made["index.md"], "FedMetric pos+neg(proxy)", "digits", "`centre_error`")
    rows = cards.row.read(ROOT / "results" / "findings-fedmetric" / "smoke.csv")
    errors = [
        r.ours.value
        for r in rows
        if (r.label, r.metric) == (line[0], "centre_error") and r.attack and r.ours
    ]
    assert len(errors) > 1
    assert float(line[4].split()[0]) == pytest.approx(min(errors), rel=1e-2)


def test_the_strongest_attack_gone_moves_the_number(tmp_path):
    """A card follows its table: without un-mixing FedHide would look better, and says so."""
    name = "findings-fedhide"
    (tmp_path / name).mkdir()
    for recipe in (name, "findings-digits"):
        shutil.copytree(ROOT / "results" / recipe, tmp_path / recipe, dirs_exist_ok=True)
    path = tmp_path / name / "smoke.csv"
    kept = [r for r in cards.row.read(path) if r.attack != "prototype_unmixing"]
    kept = [r for r in kept if r.attack != "prototype_from_update"]
    cards.row.write(path, kept)
    (line,) = cells(cards.pages(tmp_path)["index.md"], "FedHide(0.1, 5)", "digit-pairs", "`p_leak`")
    assert line[3].strip("*").startswith("at least 0.")
    assert "`prototype_unmixing`" in line[7]


def test_methods_that_nobody_attacked_are_named(made):
    rows = [r for path in cards.tables(ROOT / "results") for r in cards.row.read(path)]
    attacked = {r.method for r in rows if r.attack and r.ours}
    lost = {r.method for r in rows if r.ours and r.method} - attacked
    assert lost
    text = made["index.md"].split("## Not attacked")[1]
    assert all(f"`{name}`" in text for name in lost)
    assert not any(f"`{name}`" in text for name in attacked)
