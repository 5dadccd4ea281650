"""The table of a recipe as a file: what is committed in results/ is what is written today."""

from __future__ import annotations

from pathlib import Path

import pytest

from leakbench.base.errors import BrokenFile, UsageError
from leakbench.federation.utility import meanings
from leakbench.reproduce import catalogue, marks, overview, row, write
from leakbench.reproduce.row import Measurement, Row
from leakbench.results.number import Claim

RESULTS = Path(__file__).parents[2] / "results"
CURVES = "-curves.csv"
TABLES = [
    path
    for path in sorted(RESULTS.glob("*/*.csv"))
    if path.parent.name in catalogue.RECIPES and not path.name.endswith(CURVES)
]
PLAIN = Row(
    recipe="r", scale="smoke", dataset="d", task="t", label="a, b", measure="m", metric="p_leak"
)
FULL = PLAIN.model_copy(
    update={
        "params": {"sigma": 0.5},
        "attack": "prototype_leakage",
        "attack_params": {},
        "claim": Claim(value=0.5, low=None, high=None, source="Table 1"),
        "ours": Measurement(value=0.25, low=0.125, high=0.5, n=4, unit="client"),
        "floor": 0.0,
        "flags": frozenset(("one_seed", "dead_run")),
        "seeds": (0, 2),
        "rounds": 10,
        "engine": ("fused", "loop"),
        "differs": ("clients 10, not 100", "1 seed, not 3"),
        "differs_as": ("default", "setup"),
        "kept": True,
        "note": "dead run",
    }
)


def test_there_are_tables():
    assert len(TABLES) > 15


@pytest.mark.parametrize("path", TABLES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_what_is_committed_is_read_and_written_again_byte_for_byte(path, tmp_path):
    rows = row.read_rows(path)
    assert {(r.recipe, r.scale) for r in rows} == {(path.parent.name, path.stem)}
    row.write_rows(tmp_path / "again.csv", rows)
    assert (tmp_path / "again.csv").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("path", TABLES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_the_committed_page_is_made_of_the_committed_table(path, tmp_path):
    """All of its numbers, notes and statements; what is said of our own choices may have grown
    since.
    """
    rows, recipe, scale = row.read_rows(path), catalogue.find_recipe(path.parent.name), path.stem
    rows = marks.marked(recipe, [_with_meaning(r) for r in rows])
    said = []
    for dataset in dict.fromkeys(r.dataset for r in rows):
        said += overview.judged(recipe, scale, rows, dataset)
    figures = [path.with_suffix(".svg")] if path.with_suffix(".svg").exists() else []
    _, page = write.write_paper_table(recipe, scale, rows, said, figures, tmp_path)
    now, then = (p.read_text(encoding="utf-8") for p in (page, path.with_suffix(".md")))
    assert _without_choices(now) == _without_choices(then)


def _with_meaning(r):
    """A file does not say how a metric is read."""
    if r.ours is None:
        return r
    known = r.ours.model_copy(update={"meaning": meanings().get(r.metric)})
    return r.model_copy(update={"ours": known})


def _without_choices(page):
    before, _, rest = page.partition("## What the paper leaves open")
    return before, rest.partition("## Runs")[2]


@pytest.mark.parametrize("one", [PLAIN, FULL])
def test_a_row_is_read_as_it_was(one, tmp_path):
    row.write_rows(tmp_path / "t.csv", [one])
    assert row.read_rows(tmp_path / "t.csv") == [one]


def test_a_table_of_before_does_not_say_of_what_a_difference_is(tmp_path):
    row.write_csv(tmp_path / "t.csv", [c for c in row.COLUMNS if c not in row.LATER], [FULL.cells])
    (before,) = row.read_rows(tmp_path / "t.csv")
    assert before.differences == tuple((text, "") for text in FULL.differs)
    assert [d.kind for d in FULL.differences] == ["default", "setup"]
    assert (before.notes, FULL.notes) == (("dead run",), ("dead run", row.KEPT))


def test_cells_are_text_numbers_or_nothing():
    cells = FULL.cells
    assert tuple(cells) == row.COLUMNS
    assert (cells["seeds"], cells["flags"], cells["engine"]) == (
        "0|2",
        "dead_run|one_seed",
        "fused|loop",
    )
    assert (cells["value"], cells["n"], cells["unit"]) == (0.25, 4, "client")
    assert (cells["claimed"], cells["claimed_low"], cells["std"]) == (0.5, "", "")
    assert (cells["params"], cells["attack_params"]) == ('{"sigma":0.5}', "{}")
    assert cells["differs"] == "clients 10, not 100; 1 seed, not 3"
    assert (cells["differs_as"], cells["kept"]) == ("default|setup", "yes")
    assert {
        PLAIN.cells[c] for c in ("value", "low", "n", "claimed", "rounds", "attack_params")
    } == {""}


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        ("value", "much"),
        ("n", "1.5"),
        ("params", "{"),
        ("seeds", "0|x"),
        ("claimed", "?"),
        ("differs_as", "setup"),
        ("differs_as", "setup|x"),
    ],
)
def test_a_cell_that_is_not_what_its_column_says(column, cell, tmp_path):
    path = tmp_path / "t.csv"
    row.write_csv(path, row.COLUMNS, [FULL.cells | {column: cell}])
    with pytest.raises(BrokenFile, match=r"t\.csv is damaged .*Make it again") as told:
        row.read_rows(path)
    assert "\n" not in str(told.value)
    assert isinstance(told.value, UsageError)


@pytest.mark.parametrize(
    "cells",
    [
        {"seeds": "0|0"},
        {"each": '{"0":0.25}'},  # of two seeds
        {"each": '{"0":0.25,"1":0.25}'},  # of others
        {"each": '{"0":0.5,"2":0.75}'},  # among which 0.25 is not
    ],
    ids=str,
)
def test_a_row_that_contradicts_its_seeds_is_damaged(cells, tmp_path):
    path = tmp_path / "t.csv"
    fine = FULL.cells | {"each": '{"0":0.125,"2":0.375}'}
    row.write_csv(path, row.COLUMNS, [fine])
    assert row.read_rows(path)[0].ours.each == {0: 0.125, 2: 0.375}
    row.write_csv(path, row.COLUMNS, [fine | cells])
    with pytest.raises(BrokenFile, match=r"t\.csv is damaged \(a, b: "):
        row.read_rows(path)
