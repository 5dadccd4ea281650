"""What is said beforehand comes true: the difference that is found, and the seeds that settle."""

import numpy as np
import pytest
from scipy.stats import norm

from leakbench.statistics.differences import compare, judge
from leakbench.statistics.limits import Pivot
from leakbench.statistics.power import _smallest, _welch, detectable, seeds_for_fine

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


@pytest.mark.parametrize(("seeds", "alpha"), [(3, 0.05), (6, 0.0025), (12, 0.0025)])
def test_a_mean_worse_by_that_much_is_found_four_times_of_five(seeds, alpha):
    rng, found, tries = np.random.default_rng(11), 0, 200
    for _ in range(tries):
        then = of(rng.normal(10, 2, (seeds, 30)))
        d = detectable(then, **MEAN, alpha=alpha)
        now = of(rng.normal(10 + d, 2, (seeds, 30)), start=100)
        found += compare(now, then, **MEAN).lower(alpha) > 0
    assert found / tries == pytest.approx(0.8, abs=0.1)


@pytest.mark.parametrize(
    ("p", "seeds", "units", "worse"),
    [(0.05, 5, 100, "up"), (0.3, 12, 10, "up"), (0.5, 8, 100, "up"), (0.9, 5, 100, "down")],
)
def test_a_share_worse_by_that_much_is_found_four_times_of_five(p, seeds, units, worse):
    """At the level that Holm leaves to one of twenty rows; larger shares vary more."""
    rng, found, tries = np.random.default_rng(14), 0, 200
    how = {**SHARE, "worse": worse}
    for _ in range(tries):
        then = of((rng.random((seeds, units)) < p).astype(float))
        d = detectable(then, **how, alpha=0.0025)
        other = p + d if worse == "up" else p - d
        now = of((rng.random((seeds, units)) < other).astype(float), start=100)
        found += compare(now, then, **how).lower(0.0025) > 0
    assert found / tries == pytest.approx(0.8, abs=0.1)


def test_what_has_no_room_is_never_found():
    full = of([[1.0] * 10] * 3)
    assert detectable(full, **SHARE) == np.inf
    nearly = of([[1.0] * 9 + [0.0]] * 3)
    assert detectable(nearly, **SHARE, alpha=0.001) == np.inf
    assert detectable(of([[0.0] * 10] * 3), **SHARE) < 1


def test_so_many_seeds_settle_what_has_not_changed():
    rng, fine, tries = np.random.default_rng(12), 0, 200
    need = seeds_for_fine(of(rng.normal(10, 2, (40, 30))), **MEAN, margin=1.0)
    assert 2 < need < 40
    for _ in range(tries):
        then, now = (of(rng.normal(10, 2, (need, 30)), start=s) for s in (0, 100))
        fine += judge(compare(now, then, **MEAN), 1.0) == "fine"
    assert fine / tries >= 0.7


@pytest.mark.parametrize("p", [0.1, 0.4])
def test_so_many_seeds_settle_a_share_that_has_not_changed(p):
    rng, fine, tries = np.random.default_rng(15), 0, 200
    need = seeds_for_fine(of((rng.random((40, 50)) < p).astype(float)), **SHARE, margin=0.08)
    assert need > 2
    for _ in range(tries):
        sides = (of((rng.random((need, 50)) < p).astype(float), start=s) for s in (0, 100))
        fine += judge(compare(*sides, **SHARE), 0.08) == "fine"
    assert fine / tries == pytest.approx(0.8, abs=0.12)


def test_more_seeds_find_less_and_a_smaller_level_more():
    rng = np.random.default_rng(13)
    few, many = (of((rng.random((k, 50)) < 0.3).astype(float)) for k in (3, 20))
    assert detectable(many, **SHARE) < detectable(few, **SHARE)
    assert detectable(many, **SHARE, alpha=0.001) > detectable(many, **SHARE)


def test_what_differs_too_much_is_never_settled():
    apart = of([[0.0] * 20, [100.0] * 20])
    assert seeds_for_fine(apart, **MEAN, margin=0.01) is None


def test_a_share_that_counts_when_it_falls_is_the_mirror_of_one_that_rises():
    values = (np.random.default_rng(16).random((5, 40)) < 0.3).astype(float)
    falls = {**SHARE, "worse": "down"}
    up, down = detectable(of(values), **SHARE), detectable(of(1 - values), **falls)
    assert up == pytest.approx(down)
    assert 0 < up < 0.7
    # There is no more room than to the end of the scale.
    assert detectable(of(1 - values[:2, :3]), **falls, alpha=1e-6) == np.inf
    margin = {"margin": 0.2}
    assert seeds_for_fine(of(values), **SHARE, **margin) == seeds_for_fine(
        of(1 - values), **falls, **margin
    )


@pytest.mark.parametrize(
    ("at", "room", "found"),
    [(0.3, np.inf, 0.3), (5.3, np.inf, 5.3), (0.3, 0.4, 0.3), (0.3, 0.2, np.inf), (1.5, 1.7, 1.5)],
)
def test_the_smallest_number_for_which_it_holds(at, room, found):
    assert _smallest(lambda d: d >= at, room) == pytest.approx(found, rel=1e-8)


def test_of_very_many_observations_the_chance_is_the_normal_one():
    """Two sides, each with half of the variance of the difference: Phi(d / error - z)."""
    for alpha in (0.05, 0.001):
        chance = _welch(Pivot(0.0, 0.1, 1e7), alpha, lambda d: 1.0)
        for d in (0.1, 0.2, 0.4):
            assert chance(d) == pytest.approx(norm.cdf(d / 0.1 - norm.ppf(1 - alpha)), abs=1e-3)
    # Where the other side varies three times as much, the spread is that of both.
    chance = _welch(Pivot(0.0, 0.1, 1e7), 0.05, lambda d: 3.0)
    spread = np.sqrt(0.005 * 4)
    assert chance(0.3) == pytest.approx(norm.cdf(0.3 / spread - norm.ppf(0.95)), abs=1e-3)
