"""What settings and attacks are called, and which of then is which of now."""

import re

import pytest
from helpers.gate_rows import check, row, update, utility

from leakbench.base.errors import UsageError
from leakbench.gate.baseline import Baseline
from leakbench.gate.row_names import labelled, matched


def sigma(value, **kept):
    return {"defense_params": {"sigma": value, "lr": 0.1}, **kept}


def verdict(now, then, **kept):
    return check(now, Baseline.of(then), **kept)


def labels(rows):
    return [r.label for r in labelled(rows)]


def test_a_setting_is_called_after_what_tells_it_from_others():
    assert labels([row(**sigma(0.3))]) == ["digits/fedgn"]
    both = [row(**sigma(0.3)), row(**sigma(0.1))]
    assert labels(both) == ["digits/fedgn:sigma=0.3", "digits/fedgn:sigma=0.1"]
    clipped = row(wrappers=[{"name": "clip_noise", "params": {"clip": 1.0}}])
    assert labels([row(), clipped]) == ["digits/fedgn", "digits/fedgn+clip_noise"]
    assert labels([row(called="release"), row(**sigma(0.1))]) == ["release", "digits/fedgn"]


def test_no_name_holds_what_a_pattern_or_a_path_is_made_of():
    odd = [row(defense_params={"path": text}) for text in ("a/b*[c] d", "a/b*[c] e")]
    for name in labels(odd):
        assert re.fullmatch(r"[\w.=:+/~-]+", name)
        assert name.count("/") == 1
    assert len(set(labels(odd))) == 2
    long = [row(defense_params={"k": "x" * 50 + end}) for end in "ab"]
    assert len(set(labels(long))) == 2


def test_a_changed_parameter_is_a_changed_row_by_name():
    then = [row(0.2, called="release", **sigma(0.3)), utility(called="release", **sigma(0.3))]
    now = [row(0.5, called="release", **sigma(0.1)), utility(called="release", **sigma(0.1))]
    got = verdict(now, then)
    assert got.exit_code == 1
    assert got.rows[0].name == "release/cascade/transcript/p_leak/final"
    assert tuple(map(str, got.rows[0].changes)) == ("sigma 0.3 -> 0.1",)
    assert "release/cascade/transcript/p_leak/final (sigma 0.3 -> 0.1): 0.2 -> 0.5" in got.lines[0]


def test_a_changed_parameter_is_a_changed_row_where_no_other_setting_is_left():
    then, now = [row(0.2, **sigma(0.3))], [row(0.5, **sigma(0.1))]
    assert verdict(now, then).exit_code == 1
    beside = row(0.2, **sigma(0.7))
    assert verdict([beside, *now], [beside, *then]).exit_code == 1
    # Two that are left could be either.
    other = row(0.2, **sigma(0.9))
    got = verdict([*now, other], then)
    assert (got.exit_code, {r.state for r in got.rows}) == (3, {"cannot tell", "new"})


def test_names_win_over_parameters():
    then = [row(0.2, called="release", **sigma(0.3)), row(0.6, called="trial", **sigma(0.1))]
    now = [row(0.6, called="release", **sigma(0.1)), row(0.2, called="trial", **sigma(0.3))]
    states = {r.name.split("/")[0]: r.state for r in verdict(now, then).rows}
    assert states == {"release": "leaks more", "trial": "fine"}


def test_two_names_are_two_settings_and_a_renamed_one_is_the_same():
    got = verdict([row(0.1, called="b", **sigma(0.1))], [row(0.2, called="a", **sigma(0.3))])
    assert (got.exit_code, {r.state for r in got.rows}) == (3, {"cannot tell", "new"})
    same = verdict([row(called="b")], [row(called="a")])
    assert same.exit_code == 0
    assert verdict([row(called="b")], [row()]).exit_code == 0


def test_a_name_of_two_settings_is_refused():
    now = [row(called="release", **sigma(0.3)), row(called="release", **sigma(0.1))]
    with pytest.raises(UsageError, match=r"two settings are called 'release' \(sigma 0.3 -> 0.1\)"):
        verdict(now, [row()])


def test_a_dropped_wrapper_and_another_method_are_changes():
    clipped = [{"name": "clip_noise", "params": {"clip": 1.0}}]
    looser = [{"name": "clip_noise", "params": {"clip": 9.0}}]
    then = [row(0.2, called="release", wrappers=clipped)]
    told = {
        "clip_noise dropped": row(0.6, called="release"),
        "clip_noise.clip 1 -> 9": row(0.6, called="release", wrappers=looser),
        "fedgn -> fedaws": row(0.6, called="release", wrappers=clipped, defense="fedaws"),
    }
    for words, now in told.items():
        got = verdict([now], then)
        assert (got.exit_code, str(got.rows[0].changes[0])) == (1, words)
    assert verdict([row(0.6)], [row(0.2, wrappers=clipped)]).exit_code == 1


ATTACK = {"attack": "inversion", "rung": "method"}


def test_an_attack_with_other_parameters_says_nothing_of_the_method():
    weak, strong = ({**ATTACK, "attack_params": {"steps": s}} for s in (100, 500))
    old, new = [row(**weak).attacked_by], [row(**strong).attacked_by]
    then = [row(0.2, **weak), row(0.2, entered=dict.fromkeys(range(20), old))]
    now = [row(0.6, **strong), row(0.6, entered=dict.fromkeys(range(20), new))]
    got = verdict(now, then, named=["*/inversion/*"])
    assert (got.exit_code, [r.state for r in got.rows]) == (3, ["cannot tell"] * 2)
    assert all("inversion ran with steps 100 -> 500" in r.reason for r in got.rows)


def test_attacks_of_one_kind_are_told_apart_by_their_parameters():
    two = [row(**ATTACK, attack_params={"steps": s}) for s in (100, 500)]
    names = [r.name for r in Baseline.of(two).rows]
    assert sorted(names) == [
        "digits/fedgn/inversion:steps=100/method/p_leak/final",
        "digits/fedgn/inversion:steps=500/method/p_leak/final",
    ]
    # What has a name keeps it on the other side.
    both = matched(two[:1], Baseline.of(two).rows)
    assert list(both.here) == ["digits/fedgn/inversion:steps=100/method/p_leak/final"]


def test_an_attack_that_did_not_run_then_proves_nothing():
    one, other = (row(attack=name, rung="method") for name in ("weak", "strong"))
    old, new = [one.attacked_by], [one.attacked_by, other.attacked_by]
    then = [one, row(0.2, entered=dict.fromkeys(range(20), old))]
    now = [one, other, row(0.6, entered=dict.fromkeys(range(20), new))]
    got = verdict(now, then)
    assert (got.exit_code, got.rows[0].state) == (3, "cannot tell")
    assert "but strong attacked it, too, and did not in the baseline" in got.rows[0].reason
    less = [one, other, row(0.1, entered=dict.fromkeys(range(20), new))]
    assert verdict(less, then).exit_code == 0


def test_update_calls_a_setting_by_its_name_and_says_what_moved_and_why():
    then, _ = update([row(0.5, **sigma(0.1)), utility(**sigma(0.1))], None)
    now = [row(0.2, called="release", **sigma(0.3)), utility(called="release", **sigma(0.3))]
    fresh, said = update(now, then)
    assert {r.label for r in fresh.rows} == {"release"}
    told = [x for x in said.lines if x.startswith("moved")]
    assert told[0].split(None, 1)[1] == (
        "digits/fedgn/cascade/transcript/p_leak/final: 0.5 -> 0.2 (sigma 0.1 -> 0.3)"
    )
    worse = [row(0.5, called="release", **sigma(0.1)), utility(called="release", **sigma(0.1))]
    assert update(worse, fresh)[0] is None
    accepted, said = update(worse, fresh, accept=["release/cascade/*"])
    assert accepted is not None
    assert any("0.2 -> 0.5 (accepted)" in x for x in said.lines)
