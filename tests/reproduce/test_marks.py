"""Flags that are computed when a page is written: rows of before them do not look cleaner."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from leakbench.federation.utility import meanings
from leakbench.reproduce import (
    catalogue,
    differs,
    marks,
    orders,
    overview,
    power,
    row,
    statements,
    write,
)
from leakbench.reproduce.recipe import UTILITY
from leakbench.reproduce.row import Measurement, Row
from leakbench.scoring import flags

RESULTS = Path(__file__).parents[2] / "results"
TABLE2 = catalogue.find_recipe("fedmetric-table2")
PAPER = 100_000  # rounds on CIFAR-10


def line(label="a", value=0.5, measure=UTILITY, metric="auroc", dataset="cifar10", **more):
    """A live row of before the flags, at the paper's rounds."""
    meaning = meanings().get(metric)
    ends = {"low": value - 0.05, "high": value + 0.05}
    ours = Measurement(value=value, n=100, unit="test unit", meaning=meaning, **ends)
    about = {"recipe": TABLE2.name, "scale": "smoke", "dataset": dataset}
    about["task"] = more.pop("task", dataset)
    more = {"rounds": PAPER, "seeds": (0, 1, 2), **more}
    return Row(**about, label=label, measure=measure, metric=metric, ours=ours, **more)


def marked(**more):
    (found,) = marks.marked(TABLE2, [line(**more)])
    return set(found.flags)


def test_the_paper_prints_its_rounds():
    assert differs.printed("fedmetric", "cifar10")["rounds"] == PAPER
    assert differs.printed("fedmetric", "mnist")["rounds"] == 10_000


@pytest.mark.parametrize("rounds", [100, 9_999])
def test_a_row_of_before_with_a_fraction_of_the_rounds_is_undertrained(rounds):
    assert marked(rounds=rounds) == {"undertrained", "curve_unknown"}


def test_a_row_of_before_with_a_tenth_of_the_rounds_is_unknown_not_trained():
    assert marked(rounds=10_000) == {"curve_unknown"}
    assert marked(rounds=1000, dataset="mnist") == {"curve_unknown"}
    assert marked(rounds=999, dataset="mnist") == {"undertrained", "curve_unknown"}


def test_where_a_curve_is_known_it_counts_and_not_the_rounds():
    """Also where a page was written by another threshold: the flag follows the rise."""
    assert marked(rounds=100, rise=0.0) == set()
    assert marked(rounds=PAPER, rise=0.5) == {"undertrained"}
    assert marked(rise=flags.STEEP, flags=frozenset({"undertrained"})) == set()


def test_a_seed_whose_curve_nobody_knows_stays_so():
    """Of two seeds the one is flat."""
    assert marked(rise=0.0, flags=frozenset({"curve_unknown"})) == {"curve_unknown"}


def test_no_run_no_rounds_no_mark():
    assert marked(rounds=None) == set()
    (none,) = marks.marked(TABLE2, [line(rounds=100).model_copy(update={"ours": None})])
    assert none.flags == frozenset()


def test_what_an_untrained_network_gives_does_not_go_by_its_training():
    recipe = catalogue.find_recipe("fedhide-table2")
    stages = {m.key: m.stage for m in recipe.measures}
    fresh = next(k for k, stage in stages.items() if stage == "untrained")
    final = next(k for k, stage in stages.items() if stage != "untrained")
    rows = [line(measure=k, dataset="cifar100", rounds=60) for k in (fresh, final)]
    first, last = marks.marked(recipe, rows)
    assert not first.undertrained
    assert last.undertrained


def test_flags_that_the_other_cells_tell():
    """Made before there were these flags: seeds, units, stand-ins, and what the case's rows say."""
    assert marked(seeds=(0,), rise=0.0) == {"one_seed"}
    assert marked(seeds=(0, 1), rise=0.0) == {"few_seeds"}
    assert marked(dataset="mnist", rise=0.0) == set()
    assert marked(dataset="mnist", task="digits", rise=0.0) == {"stand_in_data"}
    stands = {"differs": ("digits",), "differs_as": ("data",)}
    assert marked(**stands, rise=0.0) == {"stand_in_data"}
    few = line(rise=0.0, attack="prototype_leakage", metric="p_leak", measure="p_leak")
    few = few.model_copy(update={"ours": few.ours.model_copy(update={"n": 10})})
    ill = line(rise=0.0, flags=frozenset({"dead_run"}))
    other = line("b", rise=0.0)
    found = marks.marked(TABLE2, [few, ill, other])
    assert [set(r.flags) for r in found] == [{"few_units", "dead_run"}, {"dead_run"}, set()]


def test_what_a_table_says_is_never_taken_back():
    seen = 0
    for name, recipe in catalogue.RECIPES.items():
        for path in (RESULTS / name).glob("s*.csv"):
            if path.stem in recipe.scales:
                before = row.read_rows(path)
                after = marks.marked(recipe, before)
                assert all(a.flags <= b.flags for a, b in zip(before, after, strict=True))
                seen += any(b.undertrained for b in after)
    assert seen > 5


def test_the_rise_is_in_the_table_where_it_is_known(tmp_path):
    rows = [line(rise=0.25), line("b")]
    row.write_rows(tmp_path / "t.csv", rows)
    assert [r.rise for r in row.read_rows(tmp_path / "t.csv")] == [0.25, None]
    row.write_rows(tmp_path / "old.csv", rows[1:])
    head = (tmp_path / "old.csv").read_text("utf-8").splitlines()[0].split(",")
    assert "rise" not in head
    assert row.read_rows(tmp_path / "old.csv")[0].rise is None


LOW, HIGH = line("a", 0.2), line("b", 0.8)
ORDER = orders.Less("a below b", UTILITY, pairs=(("a", "b"),))
TURNED = orders.Less("b below a", UTILITY, pairs=(("b", "a"),))


def flagged(r, *names):
    return r.model_copy(update={"flags": frozenset(names)})


def judge(order, *rows):
    return order.judge(rows, "cifar10")


@pytest.mark.parametrize("label", ["a", "b"])
def test_an_undertrained_row_neither_supports_nor_contradicts(label):
    assert judge(ORDER, LOW, HIGH).verdict == statements.HOLDS
    assert judge(TURNED, LOW, HIGH).verdict == statements.FAILS
    rows = [flagged(r, "undertrained") if r.label == label else r for r in (LOW, HIGH)]
    for order in (ORDER, TURNED):
        found = judge(order, *rows)
        assert found.verdict == statements.WITHIN
        assert f"but {label} undertrained" in found.sentence


def test_an_untuned_row_still_contradicts_and_both_are_said():
    """One mechanism: what was not tuned takes praise back, what is not trained both."""
    rows = (LOW, flagged(HIGH, "untuned"))
    assert judge(ORDER, *rows).verdict == statements.WITHIN
    assert judge(TURNED, *rows).verdict == statements.FAILS
    both = (flagged(LOW, "untuned", "undertrained"), flagged(HIGH, "undertrained"))
    found = judge(ORDER, *both)
    assert "but a untuned; a, b undertrained" in found.sentence
    found = judge(TURNED, *both)
    assert found.verdict == statements.WITHIN
    assert "but a untuned; b, a undertrained" in found.sentence


@pytest.mark.parametrize("label", ["a", "b"])
@pytest.mark.parametrize("few", ["one_seed", "few_seeds"])
def test_one_seed_or_two_decide_nothing_and_three_are_asked_for(few, label):
    """Their interval is of the examples of runs: how runs differ is not in it."""
    rows = [flagged(r, few) if r.label == label else r for r in (LOW, HIGH)]
    for order in (ORDER, TURNED):
        found = judge(order, *rows)
        assert found.verdict == statements.WITHIN
        assert f"but {label} of fewer than three seeds" in found.sentence
        assert (found.needs.labels, found.needs.seeds) == ((label,), power.FEWEST)


def test_a_dead_row_is_left_out_and_its_training_asked_of_nobody():
    third = line("c", 0.9)
    order = replace(ORDER, pairs=(("a", "b"), ("a", "c")))
    ill = flagged(third, "dead_run", "undertrained")
    assert judge(order, LOW, HIGH, third).verdict == statements.HOLDS
    found = judge(order, LOW, HIGH, ill)
    assert (found.verdict, found.needs.dead) == (statements.WITHIN, ("c",))
    assert "undertrained" not in found.sentence


def test_other_verdicts_stay():
    ill = flagged(LOW, "undertrained")
    assert judge(ORDER, ill).verdict == statements.OPEN
    assert judge(ORDER, ill, line("b", 0.21)).verdict == statements.WITHIN


def test_an_unknown_curve_is_no_better_than_one_that_rises():
    """Who takes the curve away makes no verdict firmer, but after as many rounds as the paper's."""
    rows = [flagged(LOW, "curve_unknown"), HIGH]
    found = judge(ORDER, *rows)
    assert (found.verdict, found.needs.curves) == (statements.WITHIN, ("a",))
    assert "Nothing tells whether training was over" in found.sentence
    whole = [r.model_copy(update={"rounds": 100}) for r in rows]
    assert ORDER.judge(whole, "cifar10", 100).verdict == statements.HOLDS
    assert ORDER.judge(whole, "cifar10", 101).verdict == statements.WITHIN


@pytest.mark.parametrize(
    "flag", ["control_failed", "no_control", "failed_units", "loss_did_not_fall"]
)
@pytest.mark.parametrize("order", [ORDER, TURNED])
def test_an_attack_that_does_not_work_decides_nothing(flag, order):
    found = judge(order, LOW, flagged(HIGH, flag))
    assert (found.verdict, found.needs.attacks) == (statements.WITHIN, ("b",))


@pytest.mark.parametrize("order", [ORDER, TURNED])
def test_a_number_without_an_interval_decides_nothing(order):
    bare = HIGH.model_copy(update={"ours": HIGH.ours.model_copy(update={"low": None})})
    found = judge(order, LOW, bare)
    assert found.verdict == statements.WITHIN
    assert "but b without an interval" in found.sentence


def test_what_is_said_of_all_needs_all_of_them():
    """Dead, or not there: nobody knows what they would have come to."""
    falling = [line(x, v) for x, v in zip("abcd", (0.9, 0.7, 0.4, 0.1), strict=True)]
    falls = orders.Falls("falls", UTILITY, along=tuple("abcd"))
    equals = orders.Equals("is", UTILITY, values=(("a", 0.9), ("b", 0.7)), tolerance=0.2)
    for order in (falls, equals):
        assert judge(order, *falling).verdict == statements.HOLDS
        dead = [flagged(r, "dead_run") if r.label == "b" else r for r in falling]
        without = [r for r in falling if r.label != "b"]
        for rows in (dead, without):
            found = judge(order, *rows)
            assert found.verdict == statements.WITHIN
            assert "but b not there, or dead" in found.sentence


def test_who_was_not_tried_may_be_the_best():
    best = orders.Best("the best is above", UTILITY, those=("a", "c"), reference="b")
    assert judge(best, LOW, HIGH, line("c", 0.1)).verdict == statements.FAILS
    assert judge(best, LOW, HIGH).verdict == statements.WITHIN


def test_who_is_to_win_and_was_not_tuned_may_yet():
    """Less: the second of each pair is the one that does better."""
    rows = (LOW, flagged(HIGH, "untuned"))
    assert judge(ORDER, *rows).verdict == statements.WITHIN
    found = judge(TURNED, *rows)  # b is said to be below a: it may rise further
    assert found.verdict == statements.FAILS
    assert judge(TURNED, flagged(LOW, "untuned"), HIGH).verdict == statements.WITHIN


def test_the_page_says_it_beside_the_number_and_of_which_runs_nobody_knows():
    rows = marks.marked(TABLE2, [line(m.key, 0.5, rounds=100) for m in TABLE2.measures[:1]])
    text = write.page(TABLE2, "smoke", rows, [], [])
    assert "0.500 [0.450, 0.550], undertrained |" in text
    assert f"(`curve_unknown`): {rows[0].label}." in text


def test_fedmetric_on_cifar10_at_a_thousandth_of_the_rounds_contradicts_nobody():
    """What the committed table was said to contradict, it had barely begun to learn."""
    rows = marks.marked_rows(TABLE2, RESULTS / TABLE2.name / "smoke.csv")
    mine = [r for r in rows if r.dataset == "cifar10"]
    assert {r.rounds for r in mine} == {100}
    said = overview.judged(TABLE2, "smoke", rows, "cifar10")
    assert len(said) == 4
    assert {s.verdict for s in said} <= {statements.WITHIN, statements.OPEN}


@pytest.mark.parametrize(("last10", "rising"), [(0.39, True), (0.41, False)])
@pytest.mark.parametrize("key", [UTILITY, "final"])
def test_a_mean_of_the_last_ten_far_below_the_end_is_a_rise(key, last10, rising):
    """Below .5 by more than a quarter of its .4 over chance."""
    of = {"metric": "accuracy", "chance": 0.1}
    rows = [line(value=0.5, measure=key, **of), line(value=last10, measure="last10", **of)]
    found = marks.marked(None, rows)
    assert {flags.UNDERTRAINED in r.flags for r in found} == {rising}
    told = [r.model_copy(update={"rise": 0.0}) for r in rows]  # its curve is known
    assert not any(flags.UNDERTRAINED in r.flags for r in marks.marked(None, told))
    assert not any(flags.UNDERTRAINED in r.flags for r in marks.marked(None, rows[:1]))


def test_what_is_not_beyond_chance_by_its_own_cells_is_dead():
    dead, alive = line(value=0.1, chance=0.1), line(label="b", value=0.3, chance=0.1)
    best = line(value=0.3, measure="best", chance=0.1)
    found = marks.marked(None, [dead, alive, best])
    assert [r.dead for r in found] == [True, False, True]


def test_a_utility_of_few_units_says_so():
    few = line(value=0.5)
    few = few.model_copy(update={"ours": few.ours.model_copy(update={"n": 3})})
    assert "few_units" in marks.marked(None, [few])[0].flags


@pytest.mark.parametrize(
    ("recipe", "path"),
    [pytest.param(r, p, id=f"{r.name}-{p.stem}") for r, p in overview.tables_below(RESULTS)],
)
def test_a_committed_table_has_the_flags_that_its_page_has(recipe, path):
    """`benchmarks/reproduced.py` writes them: who reads the table alone is told no less."""
    plain = row.read_rows(path)
    assert [r.flags for r in marks.marked(recipe, plain)] == [r.flags for r in plain]
