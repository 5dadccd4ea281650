"""The edges of what makes two rows comparable, each at the number where it turns."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers.gate_rows import check, row, scores, utility
from scipy.stats import beta
from scipy.stats import t as student

from leakbench.base.jobs import Outcome
from leakbench.base.reason import reason
from leakbench.gate.attackers import extra, less_than_then
from leakbench.gate.baseline import Baseline
from leakbench.gate.change import changed_attack, changed_parameters
from leakbench.gate.comparison import (
    blocked,
    changed,
    common_seeds,
    end_of,
    fewer_units,
    further,
    other_code,
    policies,
    room,
    unchanged,
    weaker,
)
from leakbench.gate.limits import Limit, held, parse
from leakbench.gate.outcome import CheckResult, concluded
from leakbench.gate.row_names import Matched, labelled
from leakbench.gate.sketch import Sketch


def alike(p=0.2, **kept):
    """A row that says all that a baseline of today says."""
    return row(p, **{"code": {"a-1": "x"}, "entered": {s: ["a-1"] for s in range(20)}, **kept})


@pytest.mark.parametrize(("units", "told"), [(100, False), (90, False), (89, True), (120, False)])
def test_a_tenth_of_the_units_may_be_missing(units, told):
    then, now = row(0.2), row(0.2, scores=scores(0.2, units=units))
    assert bool(fewer_units(now, then)) == told
    # Of other seeds, by the mean of a seed: half of the seeds are no fewer units.
    other = row(0.2, scores=scores(0.2, seeds=range(50, 55), units=units))
    assert bool(fewer_units(other, then)) == told
    # Of the seeds that both have, though there are more now.
    more = {**scores(0.2, units=units), 77: {"client/0": 1.0}}
    assert bool(fewer_units(row(0.2, scores=more), then)) == told


def test_seeds_are_compared_alone_where_there_are_two_or_all_of_a_side():
    def of(*seeds):
        return row(0.2, scores=scores(0.2, seeds=seeds))

    assert common_seeds(of(1, 2, 3), of(2, 3, 4)) == {2, 3}
    assert common_seeds(of(1, 2, 3), of(3, 4, 5)) == set()
    assert common_seeds(of(3), of(3, 4, 5)) == {3}
    assert common_seeds(of(3, 4, 5), of(3)) == {3}
    assert common_seeds(of(1, 2), of(3, 4)) == set()


@pytest.mark.parametrize("kind", ["failed", "unsettled"])
def test_as_many_units_as_then_may_have_failed_or_be_open(kind):
    then = alike(**{kind: {0: 2, 1: 3}})
    for count, told in ((5, False), (6, True)):
        now = alike(**{kind: {0: count, 99: 50}})  # of a seed that neither has nothing counts
        assert bool(blocked(now, then)) == (told and kind == "failed")
        if kind == "unsettled":
            assert bool(weaker(now, then)) == told
    # Of the same seeds numbers are compared, though a few units are missing now.
    fewer = alike(scores=scores(0.2, units=95), **{kind: {0: 5}})
    assert not blocked(fewer, then)
    assert not weaker(fewer, then)
    # Other seeds, of half as many units: shares are compared.
    half = scores(0.2, seeds=range(50, 60))
    for count, told in ((2, False), (3, True)):
        now = alike(scores=half, **{kind: {50: count}})
        said = blocked(now, then) if kind == "failed" else weaker(now, then)
        assert bool(said) == told


@pytest.mark.parametrize(("control", "told"), [(1.0, False), (0.95, False), (0.94, True)])
def test_the_control_may_fall_by_the_margin(control, told):
    assert bool(weaker(alike(control=control), alike())) == told
    assert not weaker(alike(control=control), utility())  # which has none
    wide = alike(margin=0.06)
    assert not weaker(alike(control=0.94), wide)


def test_what_an_older_baseline_does_not_say():
    assert weaker(alike(), alike()) is None

    def unknown(now, then):
        why = weaker(now, then)
        assert why.code == "unknown_on_a_side"
        return why.facts["what"], why.facts["attacks"]

    assert unknown(alike(), alike(control=None)) == (("control",), ())
    assert unknown(alike(), alike(record={})) == (("record",), ())
    assert unknown(alike(), alike(code={})) == ((), ("a-1",))
    assert unknown(alike(code={}), alike()) == ((), ("a-1",))
    # Another attack's code is nobody's business.
    assert weaker(alike(), alike(code={"a-1": "x", "b-2": "y"})) is None
    assert "no_control" not in alike().flags
    assert weaker(alike(flags=["no_control"]), alike())
    assert weaker(alike(flags=["no_control"]), alike(flags=["no_control"])) is None
    assert weaker(alike(flags=["weaker_observer"]), alike())


def test_tables_tell_by_flags_alone_whether_the_search_was_open():
    then, now = alike(code={}, record={}), alike(code={}, record={}, unsettled={0: 1})
    assert weaker(now, then, tables=True)
    assert not weaker(now, alike(flags=["failed_units"]), tables=True)
    assert not weaker(then, then, tables=True)
    assert weaker(alike(control=0.9), then, tables=True)
    assert weaker(alike(scores=scores(0.2, units=80)), then, tables=True)


def test_other_code_names_the_attacks_that_both_ran():
    now, then = (
        alike(code={"a": "1", "b": "2", "c": "3"}),
        alike(code={"a": "1", "b": "9", "d": "4"}),
    )
    assert other_code(now, then).facts == {"attacks": ("b",)}
    both = other_code(alike(code={"a": "1", "b": "2"}), alike(code={"a": "0", "b": "0"}))
    assert both.facts == {"attacks": ("a", "b")}
    assert other_code(now, now) is None


@pytest.mark.parametrize(
    ("change", "what", "old", "new"),
    [
        ({"task": "pairs"}, "task", "digits", "pairs"),
        ({"engine": "loop"}, "engine", "fused", "loop"),
        ({"dtype": "float64"}, "dtype", "float32", "float64"),
        ({"version": 2}, "version of the metric", 1, 2),
        ({"flags": ["unofficial_data"]}, "set of data", "official", "unofficial"),
        ({"share": False}, "kind of score", "hit or miss", "measured"),
        ({"record": {"last": 200}}, "recording policy", "name standard", "name None"),
        ({"setting": {"rounds": 5, "a": 1}}, "number of rounds", 9, 5),
        ({"setting": {"rounds": 9}}, "value of a", 1, None),
        ({"setting": {"rounds": 9, "a": 1, "b": 2}}, "value of b", None, 2),
    ],
)
def test_what_makes_two_rows_no_longer_like_with_like(change, what, old, new):
    base = {"setting": {"rounds": 9, "a": 1}}
    then, now = row(0.2, **base), row(0.2, **{**base, **change})
    assert changed(now, then) == {what: (old, new)}
    assert blocked(now, then) == reason("unlike", what=what, old=old, new=new)
    assert changed(then, then) == {}


def test_another_range_of_scores_makes_two_rows_unlike():
    then, now = (row(0.2, share=False, range=(0.0, end)) for end in (1.0, None))
    told = {"what": "range of scores", "old": (0.0, 1.0), "new": (0.0, None)}
    assert changed(now, then) == {told["what"]: (told["old"], told["new"])}
    assert blocked(now, then) == reason("unlike", **told)
    assert changed(then, then) == {}


def test_a_longer_name_of_a_task_and_what_a_side_does_not_say_are_no_change():
    then = row(0.2, setting={"rounds": 9})
    assert changed(row(0.2, task="digits (width 8)", setting={"rounds": 9}), then) == {}
    assert changed(row(0.2), then) == {}
    assert changed(row(0.2, record={}, setting={"rounds": 9}), then) == {}
    assert changed(utility(record={"last": 1}), utility()) == {}  # is measured, not recorded
    assert policies({"a": 1, "b": 2}, {"a": 1, "b": 3, "c": 4}) == ("b 2, c None", "b 3, c 4")


def test_the_same_guesses_of_all_the_seeds_of_a_side():
    then = row(0.2)
    assert unchanged(row(0.2), then)
    some = row(0.2, scores=scores(0.2, seeds=range(3)))
    assert unchanged(some, then)
    assert unchanged(then, some)
    assert not unchanged(row(0.2, scores=scores(0.2, seeds=(0, 1, 99))), then)
    assert not unchanged(row(0.2, scores=scores(0.2, seeds=(50, 51))), then)
    assert not unchanged(row(0.2, guesses={}), then)
    assert not unchanged(row(0.2, truths={s: ["other"] for s in range(20)}), then)
    two = {s: ["a", "b"] for s in range(20)}
    turned = {s: ["b", "a"] for s in range(20)}
    assert unchanged(row(0.2, guesses=two), row(0.2, guesses=turned))


def test_of_the_same_guesses_the_difference_is_none_and_has_no_width():
    (found,) = check([row(0.2)], Baseline.of([row(0.2)])).rows
    assert (found.state, found.d, found.low, found.high) == ("fine", 0.0, 0.0, 0.0)


def test_how_far_it_moved_against_the_method():
    assert further(0.3, 0.2, row(0.3), row(0.2)) == pytest.approx(0.1)
    assert further(0.9, 0.8, utility(0.9), utility(0.8)) == pytest.approx(-0.1)
    few = {"metric": "samples_to_90", "worse": "down", "share": False, "range": (1.0, None)}
    one = row(0.2, **few)
    assert further(10.0, 20.0, one, one) == pytest.approx(math.log(2))
    assert further(0.1, math.e, one, one) == pytest.approx(1.0)  # below 1 counts as 1


# -- ends ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "floor", "end"),
    [
        (1.0, None, "ceiling"),
        (0.975, None, "ceiling"),  # half of the margin is left
        (0.974, None, ""),
        (0.974, 0.95, "floor"),
        (0.15, 0.1, "floor"),
        (0.151, 0.1, ""),
        (0.05, 0.1, "floor"),
        (0.05, None, ""),
    ],
)
def test_a_row_stands_at_its_ceiling_or_its_floor(value, floor, end):
    assert end_of(row(0.2, value=value, floor=floor)) == end
    assert room(row(0.2, value=value)) == pytest.approx(1 - value)


def test_ends_of_what_falls_and_of_what_has_no_end():
    assert room(utility(0.9, value=0.9)) == pytest.approx(0.9)
    endless = {"metric": "m", "range": (0.0, None), "share": False}
    assert math.isinf(room(row(0.2, **endless)))
    assert end_of(row(0.2, **endless)) == ""  # no margin is known
    assert end_of(row(0.2, margin=0.1, value=1.0, **{**endless, "range": (0.0, 1.0)})) == "ceiling"
    # A margin that somebody widened moves no end, a narrower one does.
    assert end_of(row(0.2, value=0.9, margin=0.3)) == ""
    assert end_of(row(0.2, value=0.98, margin=0.02)) == ""


@pytest.mark.parametrize("worse", ["up", "down"])
def test_at_an_early_look_a_limit_is_kept_at_the_looks_own_level(worse):
    """Of looks after 5 and 8 seeds the first has half of the level: 0.025, not 0.05."""
    if worse == "up":
        one, sign = row(0.1, scores=scores(0.1, range(5))), 1  # 50 of 500
        ends = [beta.ppf(1 - level, 51, 450) for level in (0.05, 0.025)]
    else:
        units = scores(0.9, range(5))
        one, sign = utility(0.9, scores=units), -1
        each = np.mean([list(of.values()) for of in units.values()], axis=0)
        error = each.std(ddof=1) / math.sqrt(100)
        ends = [0.9 - student.ppf(1 - level, 99) * error for level in (0.05, 0.025)]
    text = f"{one.metric}{'<=' if worse == 'up' else '>='}"
    between, beyond = sum(ends) / 2, ends[1] + sign * 1e-4
    here = {r.name: r for r in labelled([one])}
    for most, state in ((between, "cannot tell"), (beyond, "kept")):
        (found,) = held([f"{text}{most}"], here, {}, looks=(5, 8))
        assert found.state == state
    (found,) = held([f"{text}{between}"], here, {})  # one look at all there is
    assert found.state == "kept"


@pytest.mark.parametrize(("lost", "state"), [(10, "kept"), (11, "cannot tell")])
def test_a_limit_is_not_kept_where_more_than_a_tenth_failed_or_is_open(lost, state):
    units = scores(0.1, range(5), 20)  # a hundred
    one = row(0.1, scores=units, failed={0: 4}, unsettled={1: lost - 4})
    here = {r.name: r for r in labelled([one])}
    assert held(["p_leak<=0.5"], here, {})[0].state == state


# -- limits, outcomes, names ---------------------------------------------------------------------


def test_how_far_beyond_a_limit():
    assert Limit("a<=0.2", "a", "<=", 0.2).over(0.5) == pytest.approx(0.3)
    assert Limit("a>=0.2", "a", ">=", 0.2).over(0.5) == pytest.approx(-0.3)
    assert parse(" a/b >= -1e-3 ") == Limit("a/b >= -1e-3", "a/b", ">=", -0.001)


@pytest.mark.parametrize(
    ("code", "damaged", "end"),
    [(0, False, 4), (3, False, 4), (3, True, 2), (1, True, 1), (1, False, 1)],
)
def test_what_failed_goes_before_what_is_fine_and_after_what_leaks(code, damaged, end):
    failed = [Outcome("a", error="it failed.", damaged=damaged)]
    assert concluded(CheckResult(code), failed).exit_code == end
    assert concluded(CheckResult(code), []).exit_code == code


@pytest.mark.parametrize(("tensors", "apart", "near"), [(4, 1.99e-4, True), (4, 2.01e-4, False)])
def test_sketches_are_near_within_a_ten_thousandth_of_each_tensors_norm(tensors, apart, near):
    one = Sketch(exact="x", tensors=tensors, at=(0.0,) * 8)
    for i in (0, 7):
        moved_ = tuple(apart if i == j else 0.0 for j in range(8))
        assert one.near(Sketch(exact="x", tensors=tensors, at=moved_)) == near
        assert one.near(Sketch(exact="x", tensors=tensors, at=tuple(-x for x in moved_))) == near
    assert not one.near(Sketch(exact="y", tensors=tensors, at=one.at))
    assert not one.near(Sketch(exact="x", tensors=tensors + 1, at=one.at))
    assert not one.near(Sketch(exact="x", tensors=tensors, at=(0.0,) * 7))
    none = Sketch(exact="x", tensors=0, at=(0.0,))
    assert none.near(Sketch(exact="x", tensors=0, at=(1e-4,)))


def texts(then, now, changed=changed_parameters):
    return tuple(map(str, changed(then, now)))


def test_parameters_that_changed():
    # Equal numbers are the same, whichever file they were read from.
    a = row(0.2, defense_params={"sigma": 0.1, "k": 2, "same": float("1.5")})
    b = row(0.2, defense_params={"sigma": 0.25, "n": True, "same": float("1.5")})
    assert texts(a, b) == ("sigma 0.1 -> 0.25", "k 2 -> not set", "n not set -> true")
    clip = {"name": "clip", "params": {"c": 1.0}}
    wrapped = row(0.2, wrappers=[clip])
    tight = row(0.2, wrappers=[{"name": "clip", "params": {"c": 0.5}}])
    assert texts(wrapped, row(0.2)) == ("clip dropped",)
    assert texts(row(0.2), wrapped) == ("clip added",)
    assert texts(wrapped, tight) == ("clip.c 1 -> 0.5",)
    other = row(0.2, defense="fedcs", defense_params={"cos_theta": 0.1})
    told = texts(row(0.2), other)
    assert told[-1] == "fedgn -> fedcs"
    assert not any("sigma" in t or "cos_theta" in t for t in told)
    assert changed_parameters(row(0.2, called="x"), row(0.2, called="x")) == ()
    assert len(changed_parameters(row(0.2, called="x"), row(0.2))) == 1
    assert changed_parameters(row(0.2), row(0.2, called="x")) == ()
    one, two = (row(0.2, attack="a", attack_params={"n": n, "m": float("2.5")}) for n in (1, 3))
    assert texts(one, two, changed_attack) == ("n 1 -> 3",)
    gone = ("m 2.5 -> not set", "n 1 -> not set")
    assert texts(one, row(0.2, attack="a"), changed_attack) == gone


def test_names_are_short_and_free():
    long = {"sigma": "x" * 40}
    found = labelled([row(0.2, defense_params=long), row(0.2)])
    assert found[0].label == f"digits/fedgn:sigma={'x' * 24}"
    assert found[1].label == "digits/fedgn:sigma=0.1"
    ends = [row(0.2, defense_params={"sigma": "x" * 40 + end}) for end in "abc"]
    assert [r.label.partition("x" * 24)[2] for r in labelled(ends)] == ["", "~2", "~3"]


def test_attacks_that_entered_now_and_not_then():
    both = Matched({}, {}, {}, {("s", "old-1"): "new-2"})
    then = row(0.2, entered={0: ["a-1"], 1: ["old-1"]}).model_copy(update={"label": "s"})
    now = row(0.2, entered={0: ["a-1", "b-2"], 1: ["new-2"]}).model_copy(update={"label": "s"})
    assert extra(now, then, both).facts == {"attacks": ("b",)}
    assert extra(then, then, both) is None
    assert extra(now, row(0.2), both) is None
    assert extra(row(0.2), then, both) is None


def test_an_attack_that_ran_in_some_seeds_alone_is_missed_where_it_was():
    """What ran of one seed alone is the same attack then and now; of a new seed it has to run."""
    weak, strong = (row(0.2, attack=name) for name in ("a", "b"))
    a, b = weak.attacked_by, strong.attacked_by
    now = {r.name: r for r in (weak, strong)}

    def less(here, there):
        then, current = row(0.2, entered=there), row(0.2, entered=here)
        old = {**now, then.name: then}
        return less_than_then(then, {**now, current.name: current}, old)

    some = {0: [a, b], 1: [a]}
    assert less(some, some) is None
    assert less({0: [a, b], 1: [a, b]}, some) is None
    assert less({0: [a], 1: [a]}, some) == reason("entered_less", row=strong.name)
    assert less({0: [a], 1: [a, b]}, some) == reason("entered_less", row=strong.name)
    assert less({1: [a], 2: [a, b]}, some) == reason("entered_less", row=strong.name)
    assert less({**some, 2: [a]}, some) == reason("entered_less", row=strong.name)


def test_a_row_of_a_utility_counts_its_units_once_and_the_mean_of_its_seeds():
    units = {0: {"a": 1.0, "b": 0.0}, 1: {"a": 1.0, "b": 1.0, "c": 1.0}}
    gain = utility(scores=units)
    assert gain.estimate.n == 3
    assert gain.mean == pytest.approx(0.75)
    leak = row(0.2, scores=units)
    assert leak.estimate.n == 5
    assert leak.mean == pytest.approx(0.8)
    assert not row(0.2, scores={0: {"a": 1.0}, 1: {}}).units.known
