"""`--limit`: breached, kept, cannot tell, and what is refused."""

import pytest
from helpers.gate_rows import check, row, scores, update, utility

from leakbench.base.errors import UsageError
from leakbench.gate.baseline import Baseline, load_baseline, save_baseline
from leakbench.gate.limits import parse

NOTHING = Baseline(())


def held(now, *limits, then=NOTHING):
    return check(now if isinstance(now, list) else [now], then, limits=limits)


def state(now, *limits):
    (one,) = held(now, *limits).limits
    return one.state


def test_breached_kept_and_neither():
    few = row(scores=scores(0.2, range(3), 10))
    for limit, words, code in (("0.1", "breached", 1), ("0.4", "kept", 0), ("0.2", "cannot", 3)):
        got = held(row(0.2), f"p_leak<={limit}")
        assert got.exit_code == code
        assert got.limits[0].state.startswith(words)
    assert state(few, "p_leak<=0.3") == "cannot tell"
    assert held(few, "p_leak<=0.3").limits[0].more == (3, 4)


def test_without_a_baseline_the_limits_alone_are_held_and_that_is_said():
    got = held(row(0.2), "p_leak<=0.4")
    assert (got.exit_code, got.rows) == (0, ())
    assert got.notes == ("no baseline: these runs are held to the limits alone",)
    assert "limits: 1 kept" in got.lines[-1]


@pytest.mark.parametrize("less", ["lpips", "mse"])
def test_what_leaks_when_it_falls_has_a_lower_limit(less):
    one = row(0.2, metric=less, worse="down", share=False, range=(0.0, None))
    assert state(one, f"{less}>=0.4") == "breached"
    assert state(one, f"{less}>=0.1") == "kept"
    with pytest.raises(UsageError, match=rf"goes down; write {less}>=0.4"):
        held(one, f"{less}<=0.4")


def test_utility_has_a_lower_limit_too():
    assert state(utility(0.9), "accuracy>=0.95") == "breached"
    assert state(utility(0.9), "accuracy>=0.8") == "kept"


def test_the_strongest_attack_counts_and_the_upper_bound_by_the_truth_does_not():
    paper = row(0.6, attack="paper", rung="paper")
    bound = row(0.9, attack="any_attack")
    got = held([row(0.1), paper, bound], "p_leak<=0.3")
    assert got.exit_code == 1
    assert got.limits[0].name == "digits/fedgn/paper/paper/p_leak/final"
    assert got.limits[0].rows == 2
    assert state([row(0.1), bound], "p_leak<=0.3") == "kept"
    assert held([row(0.1), bound], "*/any_attack/*<=0.3").exit_code == 1
    probe = row(0.9, attack="x", probe=True)
    assert state([row(0.1), probe], "p_leak<=0.3") == "kept"


def test_every_stage_and_every_setting_is_held():
    early = row(0.6, stage="early")
    got = held([row(0.1), early, row(0.1, defense="fedaws")], "p_leak<=0.3")
    assert [(o.setting, o.state) for o in got.limits] == [
        ("digits/fedgn", "breached"),
        ("digits/fedaws", "kept"),
    ]
    assert got.limits[0].reason.startswith("cascade/transcript/p_leak/early: 0.6 [")


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("control_failed", "too weak to judge"),
        ("dead_run", "did not learn"),
        ("stale_attack", "attack it again"),
    ],
)
def test_what_says_nothing_keeps_no_limit_and_may_breach_it(flag, words):
    got = held(row(0.1, flags=[flag]), "p_leak<=0.4")
    assert (got.exit_code, got.limits[0].state) == (3, "cannot tell")
    assert words in got.limits[0].reason
    assert held(row(0.8, flags=[flag]), "p_leak<=0.4").exit_code == 1


def test_one_seed_may_breach_and_never_keeps():
    one = {"scores": scores(0.1, [0])}
    assert state(row(0.1, **one), "p_leak<=0.4") == "cannot tell"
    assert state(row(0.9, scores=scores(0.9, [0])), "p_leak<=0.4") == "breached"


def test_seeds_that_differ_widen_what_units_would_say():
    apart = {s: u for s in range(4) for u in [scores((0.05, 0.45)[s % 2], [s])[s]]}
    assert state(row(scores=apart), "p_leak<=0.31") == "cannot tell"
    assert state(row(0.25, scores=scores(0.25, range(4))), "p_leak<=0.31") == "kept"


def test_a_row_that_is_gone_keeps_nothing():
    then = Baseline.of([row(0.1), utility()], ["p_leak<=0.3"])
    got = check([utility()], then)
    assert got.exit_code == 3
    assert got.limits[0].reason.startswith("no such row now: digits/fedgn/cascade")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("p_leak", "expected METRIC<=VALUE"),
        ("p_leak<0.2", "expected METRIC<=VALUE"),
        ("p_leak<=much", "expected METRIC<=VALUE"),
        ("p_leak<=nan", "expected METRIC<=VALUE"),
        ("<=0.2", "expected METRIC<=VALUE"),
        ("p_leek<=0.2", "Did you mean 'p_leak'"),
        ("p_leak>=0.2", "goes up; write p_leak<=0.2"),
        ("other/*<=0.2", "no row here is measured by 'other/\\*'"),
    ],
)
def test_what_is_no_limit_is_one_sentence(text, words):
    with pytest.raises(UsageError, match=words):
        held(row(0.1), text)


def test_a_limit_is_read_with_blanks_and_signs():
    one = parse(" release/cascade/*/p_leak/* <= 2e-1 ")
    assert (one.rows, one.sign, one.most) == ("release/cascade/*/p_leak/*", "<=", 0.2)


def test_limits_stand_in_the_file_and_update_does_not_pass_them(tmp_path):
    path = tmp_path / "leakage.json"
    fresh, _ = update([row(0.2)], None, limits=["p_leak<=0.3"])
    save_baseline(path, fresh)
    assert load_baseline(path).limits == ("p_leak<=0.3",)
    got = check([row(0.5)], load_baseline(path))
    assert {o.state for o in got.limits} == {"breached"}
    refused, said = update([row(0.5)], load_baseline(path), accept=["*"])
    assert refused is None
    assert "p_leak<=0.3 is breached by cascade/transcript/p_leak/final: 0.5" in said.lines[0]
    again, _ = update([row(0.1)], load_baseline(path))
    assert again.limits == ("p_leak<=0.3",)


def test_all_limits_together_keep_the_level():
    """Twenty rows whose true value is the limit: rarely is one of them called beyond it."""
    import numpy as np

    rng, alarms = np.random.default_rng(3), 0
    for _ in range(200):
        rows = []
        for i in range(20):
            hits = rng.random((5, 40)) < 0.3
            of = {}
            for s in range(5):
                of[s] = {f"client/{c}": float(hits[s, c]) for c in range(40)}
            rows.append(row(scores=of, stage=f"s{i}", value=float(hits.mean())))
        alarms += held(rows, "p_leak<=0.3").exit_code == 1
    assert alarms / 200 <= 0.05 + 3 * (0.05 * 0.95 / 200) ** 0.5
