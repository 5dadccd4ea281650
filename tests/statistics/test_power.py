"""What is said beforehand comes true: the difference that is found, and the seeds that settle."""

import numpy as np
import pytest

from leakbench.statistics.differences import compare, judge
from leakbench.statistics.power import detectable, seeds_for_fine

SHARE = {"worse": "up", "share": True, "unit_range": True}
MEAN = {"worse": "up", "share": False, "unit_range": False}


def of(values, start=0):
    out = {}
    for s, row in enumerate(values):
        out[start + s] = {f"u{i}": float(x) for i, x in enumerate(row)}
    return out


def test_one_seed_says_nothing():
    assert detectable(of([[0.0, 1.0]]), **SHARE) is None
    assert seeds_for_fine(of([[0.0, 1.0]]), **SHARE, margin=0.05) is None


def test_a_difference_of_that_size_is_found_four_times_of_five():
    rng, found, tries = np.random.default_rng(11), 0, 300
    for _ in range(tries):
        then = of(rng.normal(10, 2, (6, 30)))
        d = detectable(then, **MEAN)
        now = of(rng.normal(10 + d, 2, (6, 30)), start=100)
        found += compare(now, then, **MEAN).lower(0.05) > 0
    assert found / tries == pytest.approx(0.8, abs=0.08)


def test_so_many_seeds_settle_what_has_not_changed():
    rng, fine, tries = np.random.default_rng(12), 0, 200
    need = seeds_for_fine(of(rng.normal(10, 2, (40, 30))), **MEAN, margin=1.0)
    assert 2 < need < 40
    for _ in range(tries):
        then, now = (of(rng.normal(10, 2, (need, 30)), start=s) for s in (0, 100))
        fine += judge(compare(now, then, **MEAN), 1.0) == "fine"
    assert fine / tries >= 0.7


def test_more_seeds_find_less_and_a_smaller_level_more():
    rng = np.random.default_rng(13)
    few, many = (of((rng.random((k, 50)) < 0.3).astype(float)) for k in (3, 20))
    assert detectable(many, **SHARE) < detectable(few, **SHARE)
    assert detectable(many, **SHARE, alpha=0.001) > detectable(many, **SHARE)


def test_what_differs_too_much_is_never_settled():
    apart = of([[0.0] * 20, [100.0] * 20])
    assert seeds_for_fine(apart, **MEAN, margin=0.01) is None
