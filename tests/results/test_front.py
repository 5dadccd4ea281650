"""The front: nothing on it is beaten, and whatever is not on it is."""

from __future__ import annotations

from helpers.report_data import again, row, setting
from hypothesis import given
from hypothesis import strategies as st

from leakbench.results.front import best_numbers, mark


def beaten(n, others):
    def beats(other):
        gain, leak = other.utility.gain - n.utility.gain, n.leak - other.leak
        return gain >= 0 and leak >= 0 and (gain > 0 or leak > 0)

    return any(map(beats, others))


few = st.integers(0, 4).map(lambda i: i / 4)


@given(st.lists(st.tuples(few, few), max_size=12))
def test_it_is_what_no_other_betters_and_equals_stand_together(places):
    numbers = []
    for i, (leak, gain) in enumerate(places):
        base = setting("fedgn", {"sigma": i / 100})
        numbers.append(row(base, gain, "any_attack", "method", "p_leak", leak))
    about = {n.configuration.key: "one split" for n in numbers}
    kept = [n.key for n in best_numbers(numbers, about)]
    assert kept == [n.key for n in numbers if not beaten(n, numbers)]


def test_data_that_differ_are_not_compared():
    good = row(setting("fedgn", {"sigma": 1}), 0.9, "any_attack", "method", "p_leak", 0.1)
    bad = row(setting("fedgn", {"sigma": 2}), 0.5, "any_attack", "method", "p_leak", 0.7)
    keys = [n.configuration.key for n in (good, bad)]
    alike = mark([good, bad], dict.fromkeys(keys, "one split"))
    assert [n.on_front for n in alike] == [True, False]
    apart = mark([good, bad], dict(zip(keys, ("one", "another"), strict=True)))
    assert [n.on_front for n in apart] == [True, True]
    dead = mark([again(good, flags="dead_run"), bad], dict.fromkeys(keys, "one split"))
    assert [n.on_front for n in dead] == [False, True]
