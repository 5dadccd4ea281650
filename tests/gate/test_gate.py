"""`check` and `update`: every exit and its reason, and the file leakage.json."""

import json

import pytest
from helpers.gate_rows import changed, check, row, scores, update, utility

from leakbench.base.errors import BrokenFile, UsageError
from leakbench.gate.baseline import Baseline, load_baseline, save_baseline
from leakbench.gate.gate import _say
from leakbench.gate.looks import Compared, Look
from leakbench.gate.row import GateRow
from leakbench.statistics.differences import compare


def verdict(now, then, **kept):
    return check(
        [now] if isinstance(now, GateRow) else now,
        Baseline.of([then] if isinstance(then, GateRow) else then),
        **kept,
    )


def test_a_row_that_leaks_more_is_exit_1():
    got = verdict(row(0.4), row(0.2))
    assert (got.exit_code, got.rows[0].state) == (1, "leaks more")
    assert "0.2 -> 0.4, worse by +0.2" in got.lines[0]
    assert got.lines[-1] == "1 rows gated: 1 leaks more"


def test_a_row_that_leaks_less_is_fine():
    got = verdict(row(0.1), row(0.3))
    assert (got.exit_code, got.rows[0].state) == (0, "fine")


def test_lost_utility_is_exit_1_and_gained_utility_is_fine():
    got = verdict([utility(0.8), row(0.2)], [utility(0.9), row(0.2)])
    assert (got.exit_code, got.rows[0].state) == (1, "loses utility")
    assert verdict(utility(0.95), utility(0.9)).exit_code == 0


@pytest.mark.parametrize("less", ["lpips", "mse"])
def test_metrics_that_leak_when_they_fall(less):
    kept = {"metric": less, "worse": "down", "share": False, "range": (0.0, None)}
    assert verdict(row(0.2, **kept), row(0.4, **kept)).exit_code == 1
    assert verdict(row(0.4, **kept), row(0.2, **kept)).exit_code == 0


def test_too_few_units_cannot_tell_and_say_how_many_seeds_would():
    now, then = (row(0.5, scores=scores(0.5, range(3), 10, start)) for start in (0, 3))
    now = changed(now, guesses={})
    got = verdict(now, then)
    assert (got.exit_code, got.rows[0].state) == (3, "cannot tell")
    assert "seeds on each side would settle it" in got.lines[0]


def test_the_same_guesses_are_fine_even_of_one_seed_and_do_not_count():
    same = row(0.2, scores=scores(0.2, range(1), 5))
    got = verdict(same, same)
    assert got.exit_code == 0
    assert "unchanged" in got.lines[0]
    # Holm shares the level among the rows that changed: thirty unchanged rows take nothing from one
    # that did.
    now = row(0.6, defense="x", scores=scores(0.5, range(3), 20))
    then = row(0.2, defense="x", scores=scores(0.2, range(3), 20, 5))
    level = compare(
        now.units.scores, then.units.scores, worse="up", share=True, unit_range=True
    ).p()
    assert 0.05 / 31 < level < 0.05
    still = [
        row(0.2, stage=s, rung=r, metric=m)
        for s in ("early", "final")
        for r in ("method", "public", "transcript")
        for m in "abcde"
    ]
    alone, among = verdict(now, then), verdict([now, *still], [then, *still])
    assert alone.rows[0].state == among.rows[0].state == "leaks more"


def test_what_the_correction_alone_keeps_open_is_said_beside_the_interval():
    now = row(0.6, scores=scores(0.5, range(3), 20))
    then = row(0.2, scores=scores(0.2, range(3), 20, 5))
    d = compare(now.units.scores, then.units.scores, worse="up", share=True, unit_range=True)
    look = Look(d, 1.0, 3)
    held = Compared(now, then, 0.05, (look,))
    open_ = _say("x", "cannot tell", look, d.p() / 2, held)
    assert open_.low > 0  # as if it were decided
    (why,) = [one for one in open_.why if one.code == "corrected"]
    assert why.facts == {"p": d.p(), "level": d.p() / 2, "low": d.lower(d.p() / 2)}
    assert why.facts["low"] <= 0
    sure = _say("x", "leaks more", look, 0.05, held)
    assert "corrected" not in {one.code for one in sure.why}


@pytest.mark.parametrize("key", ["guesses", "truths", "version"])
def test_equal_scores_alone_are_not_the_same_guess(key):
    other = {
        "guesses": {s: ["other"] for s in range(20)},
        "truths": {s: ["other"] for s in range(20)},
        "version": 2,
    }[key]
    one = row(0.2, scores=scores(0.2, range(2), 5))
    got = verdict(changed(one, **{key: other}), one)
    assert got.exit_code == 3
    assert "unchanged" not in got.lines[0]


def test_a_guess_without_a_hash_is_never_the_same():
    one = row(0.2, scores=scores(0.2, range(2), 5), guesses={})
    assert verdict(one, one).exit_code == 3


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"flags": ["control_failed"]}, "control failed"),
        ({"flags": ["few_units", "dead_run"]}, "dead run"),
        ({"failed": {0: 1}}, "failed on 1 of 2000 units, in the baseline on 0"),
        ({"engine": "loop"}, "another engine (loop) than in the baseline (fused)"),
        ({"dtype": "float64"}, "another dtype"),
        ({"run_schema": 2}, "another schema"),
        ({"version": 2}, "another version of the metric"),
        ({"worse": "down"}, "another direction (down) than in the baseline (up)"),
        ({"range": (0.0, 100.0), "share": False}, "another range of scores"),
        ({"share": False}, "another kind of score (measured) than in the baseline (hit or miss)"),
    ],
)
def test_what_makes_a_row_impossible_to_judge_is_exit_3_with_its_reason(change, reason):
    then = row(0.2)
    got = verdict(changed(then, **change), then)
    assert got.exit_code == 3
    assert reason in got.lines[0]


def test_fewer_failed_units_than_then_are_no_reason():
    assert verdict(row(0.2, failed={0: 1}), row(0.2, failed={0: 1, 1: 1})).exit_code == 0


def test_a_missing_row_is_exit_3():
    got = verdict([utility()], [utility(), row()])
    assert got.exit_code == 3
    assert "no such row now" in got.lines[0]


def test_one_seed_of_changed_guesses_cannot_tell():
    got = verdict(row(0.9, scores=scores(0.9, [0])), row(0.1))
    assert got.exit_code == 3
    assert "seeds now: 1, in the baseline: 20; it takes at least 2" in got.lines[0]


def test_exit_1_goes_before_3():
    got = verdict([row(0.4), utility(engine="loop")], [row(0.2), utility()])
    assert (got.exit_code, [r.state for r in got.rows]) == (1, ["leaks more", "cannot tell"])


def test_a_new_row_cannot_be_told_unless_it_is_allowed():
    now = [row(), row(0.9, defense="fedaws")]
    got = verdict(now, row())
    assert got.exit_code == 3
    assert [r.state for r in got.rows] == ["new", "fine"]
    assert "a new setting, not in the baseline: --update adds it" in got.lines[0]
    allowed = verdict(now, row(), allow_new=True)
    assert allowed.exit_code == 0
    assert [r.state for r in allowed.rows] == ["new", "fine"]


def test_only_the_default_rows_and_named_ones_are_gated():
    kept = {"attack": "prototype_leakage", "attack_params": {"seed": 0}, "rung": "paper"}
    now, then = [row(), row(0.9, **kept)], [row(), row(0.1, **kept)]
    assert verdict(now, then).exit_code == 0
    assert verdict(now, then, named=["*/prototype_leakage/*"]).exit_code == 1
    assert verdict(now, [then[0], changed(then[1], named=True)]).exit_code == 1
    with pytest.raises(UsageError, match=r"no row is called 'digits/fedgm\*'"):
        verdict(now, then, named=["digits/fedgm*"])


def test_the_baselines_own_margin_counts():
    wide = row(0.2, margin=0.5)
    assert verdict(row(0.4), wide).exit_code == 0


def test_an_unknown_metric_without_a_range_needs_a_margin():
    kept = {"metric": "seconds_to_break", "share": False, "range": (0.0, None)}
    got = verdict(row(0.4, **kept), row(0.2, **kept))
    assert (got.exit_code, "no margin" in got.lines[0]) == (3, True)
    assert verdict(row(0.4, **kept), row(0.2, margin=0.1, **kept)).exit_code == 1


def test_two_rows_of_one_key_are_refused():
    with pytest.raises(UsageError, match="two rows are called digits/fedgn/"):
        verdict([row(), row(0.3)], row())


def test_no_baseline_is_exit_2_naming_update_and_an_empty_one_exit_3(tmp_path):
    with pytest.raises(UsageError, match="--update") as caught:
        load_baseline(tmp_path / "leakage.json")
    assert caught.value.exit_code == 2
    for text in ("", "{}", '{"rows": [], "schema": 1}'):
        (tmp_path / "leakage.json").write_text(text)
        got = check([row()], load_baseline(tmp_path / "leakage.json"))
        assert got.exit_code == 3


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[1]",
        '{"rows": {}}',
        '{"rows": [{"task": "digits"}]}',
        '{"rows": [], "schema": 99}',
        '{"rows": [], "metrics": []}',
        '{"rows": [], "metrics": null}',
        '{"rows": [], "metrics": {"p_leak": null}}',
        '{"rows": [], "metrics": {"p_leak": {"direction": "up", "margin": "x"}}}',
        "\xff",
    ],
)
def test_a_damaged_baseline_is_one_sentence_naming_it(tmp_path, text):
    path = tmp_path / "leakage.json"
    path.write_bytes(text.encode("latin1"))
    with pytest.raises(BrokenFile, match=r"leakage\.json"):
        load_baseline(path)


def test_the_file_is_sorted_readable_and_comes_back_the_same(tmp_path):
    path = tmp_path / "leakage.json"
    rows = [
        utility(range=(0.0, 1.0)),
        row(clusters={"client/1": "a"}, margin=0.1),
        row(0.3, defense="fedaws", range=(None, 100.0), share=False),
    ]
    save_baseline(path, Baseline.of(rows))
    assert load_baseline(path) == Baseline.of(reversed(rows))
    value = json.loads(path.read_text())
    assert list(value["settings"]) == ["digits/fedaws", "digits/fedgn"]
    # A row is one line, and no unit is in it.
    told = path.read_text()
    assert sum('"value": ' in line for line in told.splitlines()) == 3
    assert "client/1" not in told
    first = path.read_bytes()
    save_baseline(path, Baseline.of(rows[::-1]))
    assert path.read_bytes() == first


def test_the_first_update_writes_every_row_with_its_margin():
    got, said = update([row(), utility()], None)
    assert said.exit_code == 0
    assert {r.metric: r.margin for r in got.rows} == {"p_leak": 0.05, "accuracy": 0.02}
    with pytest.raises(UsageError, match="leakbench attack"):
        update([], None)


def test_update_refuses_a_row_that_leaks_more_unless_it_is_named():
    worse, then = row(0.4), Baseline.of([row(0.2), utility()])
    got, said = update([worse, utility()], then)
    assert (got, said.exit_code) == (None, 1)
    assert f"--accept {worse.name}" in said.lines[0]
    got, said = update([worse, utility()], then, accept=[worse.name])
    assert said.exit_code == 0
    assert got.by_name()[worse.name].value.value == pytest.approx(0.4)
    with pytest.raises(UsageError, match="no row is called"):
        update([worse], then, accept=["digits/nothing"])


def test_update_refuses_lost_utility_and_what_one_seed_cannot_be_sure_of():
    assert update([utility(0.8)], Baseline.of([utility(0.9)]))[0] is None
    one = row(0.3, scores=scores(0.3, [0]))
    assert verdict(one, row(0.2)).exit_code == 3
    assert update([one], Baseline.of([row(0.2)]))[0] is None
    assert update([row(0.22)], Baseline.of([row(0.2)]))[0] is not None


def test_what_update_refuses_is_accepted_by_the_one_command_that_it_says():
    """Of rows that surely leak more, too, and of those of which too little is known."""
    unsure = {"defense": "fedaws", "scores": scores(0.3, [0])}
    now = [row(0.4), row(0.3, **unsure), utility()]
    then = Baseline.of([row(0.2), row(0.2, defense="fedaws"), utility()])
    got, said = update(now, then)
    assert got is None
    command = said.lines[-1].split("--update ", 1)[1].split()
    assert command[::2] == ["--accept"] * 2
    got, said = update(now, then, accept=command[1::2])
    assert got is not None
    assert said.exit_code == 0
    alone = update([row(0.4), utility()], then)[1]
    assert "If all of that" not in alone.lines[-1]


def test_update_keeps_margins_names_and_absent_rows():
    then = Baseline.of([row(0.2, margin=0.3, named=True), row(0.2, defense="fedaws")])
    got, said = update([row(0.1)], then)
    kept = {r.configuration.defense: r for r in got.rows}
    assert (kept["fedgn"].margin, kept["fedgn"].named, kept["fedgn"].value.value) == (
        0.3,
        True,
        pytest.approx(0.1),
    )
    assert kept["fedaws"].value.value == pytest.approx(0.2)
    assert any("not among these runs" in line for line in said.lines)
    got, _ = update([row(0.1)], then, accept=[kept["fedaws"].name])
    assert [r.configuration.defense for r in got.rows] == ["fedgn"]


CODE = {"prototype_leakage-1": "a" * 16}
OTHER = {"prototype_leakage-1": "b" * 16}


@pytest.mark.parametrize("now", [0.5, 0.05], ids=["finds more", "finds less"])
def test_an_attack_that_was_changed_makes_a_method_neither_worse_nor_better(now):
    """One that was mended must not fail a method, nor one that was weakened pass it."""
    got = verdict(row(now, code=OTHER), row(0.2, code=CODE))
    assert (got.exit_code, got.rows[0].state) == (3, "cannot tell")
    assert f"0.2 -> {now}, but prototype_leakage ran with other code" in got.lines[0]
    # Which code it was is not known of older files: then it accuses, and does not acquit.
    got = verdict(row(now, code=OTHER), row(0.2)).rows[0]
    assert got.state == ("leaks more" if now > 0.2 else "cannot tell")


def test_other_code_that_makes_the_same_guesses_is_fine():
    got = verdict(row(0.2, code=OTHER), row(0.2, code=CODE))
    assert (got.exit_code, got.rows[0].state) == (0, "fine")
    assert "the same guesses" in got.lines[0]


def test_an_attack_that_is_not_the_installed_one_accuses_and_never_acquits():
    stale = ["stale_attack"]
    assert verdict(row(0.5, flags=stale), row(0.2)).exit_code == 1
    for now in (0.05, 0.2):  # less, and the same guesses
        got = verdict(row(now, flags=stale), row(0.2))
        assert (got.exit_code, got.rows[0].state) == (3, "cannot tell")
        assert "attacked by other code than what is installed; attack it again" in got.lines[0]
    # An older baseline row says nothing against the installed attack.
    assert verdict(row(0.2), row(0.2, flags=stale)).exit_code == 0


def test_the_code_is_in_the_file(tmp_path):
    save_baseline(tmp_path / "leakage.json", Baseline.of([row(code=CODE)]))
    assert load_baseline(tmp_path / "leakage.json").rows[0].units.code == CODE
