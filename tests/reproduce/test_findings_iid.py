"""Where clients are alike: who loses by a method that has nothing to mend, and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from leakbench.federation.utility import METRICS
from leakbench.reproduce import catalogue, row

TABLE = Path(__file__).parents[2] / "results" / "findings-iid" / "smoke.csv"
MARGIN = METRICS["accuracy"].meaning.matters
RECIPE = catalogue.find_recipe("findings-iid")
BESIDE = {o.those[0]: o.reference for o in RECIPE.orders}
BECAUSE = {o.those[0]: o.because for o in RECIPE.orders if o.because}
UNRELATED, ALONE = "FLea without its correlation", "FedProto without its prototypes"
LABELS = {c.label for c in RECIPE.cases}


@pytest.fixture(scope="module")
def accuracy():
    return {r.label: r.ours.value for r in row.read_rows(TABLE)}


def lost(accuracy, label):
    """How far it is below what differs from it by the method alone."""
    shown = {UNRELATED: "FLea", ALONE: "FedProto"}  # they show why, and claim nothing
    return accuracy[BESIDE[shown.get(label, label)]] - accuracy[label]


def test_every_method_is_in_the_committed_table_over_three_seeds_at_least(accuracy):
    rows = row.read_rows(TABLE)
    assert set(accuracy) == LABELS
    assert all(r.seeds[:3] == (0, 1, 2) and r.rounds == 50 and r.twin for r in rows)
    assert not any("stale_run" in r.flags or r.dead or r.undertrained for r in rows)


def test_who_loses_more_than_the_margin_says_why_and_nobody_else(accuracy):
    assert {label for label in BESIDE if lost(accuracy, label) > MARGIN} == set(BECAUSE)


def test_the_rows_bear_out_the_reasons(accuracy):
    assert lost(accuracy, UNRELATED) < lost(accuracy, "FLea") / 2  # "most of this"
    assert accuracy[ALONE] <= accuracy["FedProto"] + MARGIN  # "as far below"


def test_a_reason_is_said_with_the_statement_unless_it_holds(accuracy):
    rows = row.read_rows(TABLE)
    said = {o.those[0]: o.judge(rows, "digits") for o in RECIPE.orders}
    for label, why in BECAUSE.items():
        assert said[label].verdict != "holds"
        assert why in said[label].sentence
    for gone in ("FLea", UNRELATED):
        left = [r for r in rows if r.label != gone]
        of = next(o for o in RECIPE.orders if o.those == ("FLea",))
        assert BECAUSE["FLea"] not in of.judge(left, "digits").sentence
    assert not any(why in said["FedBR"].sentence for why in BECAUSE.values())
    assert said.keys() == LABELS - {UNRELATED, ALONE, *BESIDE.values()}
