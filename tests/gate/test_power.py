"""What `--update` says beforehand: what a row can see, and where it cannot get worse."""

import pytest
from helpers.gate_rows import changed, check, row, scores, update, utility

from leakbench.gate.baseline import Baseline
from leakbench.gate.comparison import end_of
from leakbench.gate.power import sight
from leakbench.words.outcomes import whole_reason


def seen_by(row, rows):
    return whole_reason([sight(row, rows)])


def test_the_two_ends():
    assert end_of(row(1.0)) == end_of(row(0.98)) == "ceiling"
    assert end_of(row(0.9)) == ""
    assert end_of(row(0.12, floor=0.1)) == "floor"
    assert end_of(row(0.3, floor=0.1)) == ""
    assert end_of(utility(0.0)) == "ceiling"
    assert end_of(utility(1.0)) == ""
    falls = {"metric": "mse", "worse": "down", "share": False, "range": (0.0, None)}
    assert end_of(row(0.0, **falls)) == "ceiling"
    assert end_of(row(0.9, **falls)) == ""


def test_a_row_at_its_ceiling_is_fine_says_so_and_takes_no_level_from_others():
    then, now = row(1.0), row(0.99, scores=scores(0.99))
    got = check([now], Baseline.of([then]))
    assert (got.exit_code, got.rows[0].end) == (0, "ceiling")
    assert "at its ceiling in the baseline: it cannot get worse" in got.rows[0].reason
    assert "every gated leakage was at its ceiling" in got.notes[0]
    assert got.rows[0].d is None
    # Yet it has to be there, and to say something.
    assert check([utility()], Baseline.of([then, utility()])).exit_code == 3
    weak = changed(now, flags=["control_failed"])
    assert check([weak], Baseline.of([then])).exit_code == 3


def test_update_says_what_each_row_can_see():
    _, said = update([row(0.2), row(1.0, stage="early"), utility(0.9)], None)
    told = {x.split()[1].rstrip(":"): x for x in said.lines if x.startswith("sees")}
    assert "worse by 0." in told["digits/fedgn/cascade/transcript/p_leak/final"]
    assert "digits/fedgn: 1 of 3 rows are at their ceiling" in told["nothing"]
    assert told["nothing"].endswith(": cascade/transcript/p_leak/early")
    assert len(told) == 3


def test_few_seeds_and_little_room_are_said():
    few = row(0.2, scores=scores(0.2, range(2), 10))
    assert "seeds are needed to be fine (it has 2 seeds)" in seen_by(few, 1)
    assert "of 1 seed: only the same guesses are fine" in seen_by(row(scores=scores(0.2, [0])), 1)
    high = row(0.9, scores=scores(0.9, range(2), 10))
    assert "only 0.1 is left to its ceiling" in seen_by(high, 1)
    assert "from a blind guess" in seen_by(row(0.1, floor=0.1), 1)


@pytest.mark.parametrize("p", [0.2, 0.5])
def test_more_rows_and_fewer_seeds_see_less(p):
    def seen(rows, seeds):
        told = seen_by(row(p, scores=scores(p, range(seeds))), rows)
        return float(told.split("worse by ")[1].split()[0])

    assert seen(1, 20) < seen(20, 20)
    assert seen(1, 20) < seen(1, 4)


def test_a_row_that_will_never_be_judged_sees_nothing():
    assert seen_by(row(0.2, flags=["dead_run"]), 1).startswith("nothing: dead run")
    assert seen_by(row(0.2, flags=["control_failed"]), 1).startswith("nothing: the control failed")


def test_a_weaker_attack_on_a_row_at_its_ceiling_is_no_news():
    now = row(0.4, control=0.4)
    got = check([now], Baseline.of([row(1.0)]))
    assert (got.exit_code, got.rows[0].state) == (3, "cannot tell")
    assert "the control fell from 1 to 0.4" in got.rows[0].reason
