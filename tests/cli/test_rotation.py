"""Which attack comes next, and how long those would take that were left out."""

from collections import Counter

import pytest

from leakbench.base.jobs import Job
from leakbench.cli.rotation import Rotation, left


def job(name, seconds):
    return Job(name, print, (), seconds)


def planned(costs, settings=("a", "b", "c"), seeds=(0, 1, 2)):
    """As runs are found: a setting after the other, seed by seed. {attack: {setting: seconds}}"""
    rotation = Rotation()
    for setting in settings:
        for seed in seeds:
            rotation.begin({"defense": setting, "seed": seed})
            for attack, of in costs.items():
                rotation.add(job(f"{attack} {setting}{seed}", of[setting]), attack)
    return [rotation.todo[i].name for i in rotation.order()]


def even(seconds):
    return dict.fromkeys("abc", seconds)


# The last is on both sides of a power of two.
@pytest.mark.parametrize("near", [even(0.3), even(3.0), {"a": 3.9, "b": 4.1, "c": 7.0}])
def test_no_setting_is_attacked_twice_before_each_was_once(near):
    names = planned({"slow": even(60.0), "one": near, "two": near})
    settings = [name.split()[1][0] for name in names]
    for end in range(1, len(names) + 1):
        counts = Counter({"a": 0, "b": 0, "c": 0})
        counts.update(settings[:end])
        assert max(counts.values()) - min(counts.values()) <= 1
    assert names[:4] == ["one a0", "one b0", "one c0", "one a1"]
    assert all(name.startswith("slow") for name in names[-9:])


def test_what_is_there_already_comes_first_and_counts_as_a_turn():
    names = planned({"one": {"a": 0.0, "b": 1.0}, "two": {"a": 1.0, "b": 1.0}}, "ab", (0,))
    assert names == ["one a0", "one b0", "two a0", "two b0"]


def test_what_was_left_out_takes_as_long_as_what_was_done():
    rest = [job(str(i), 0.3) for i in range(8)]
    assert left(rest, [job("x", 0.3)] * 4, 60.0, 2) == pytest.approx(120.0)
    # Of what was there before nothing is learned, and no guess is less than what was foretold.
    assert left(rest, [job("x", 0.0)] * 4, 60.0, 2) == 4.0
    assert left([job("y", 200.0)], [job("x", 5.0)], 0.1, 2) == 200.0


def test_that_quick_attacks_take_long_to_begin_is_not_multiplied():
    assert left([job("y", 300.0)], [job("x", 0.3)] * 4, 20.0, 2) == pytest.approx(309.0)
