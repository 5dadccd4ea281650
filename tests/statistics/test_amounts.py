"""Limits of one value: against scipy where it has them, and by how often they hold the truth."""

import math

import numpy as np
import pytest
from scipy.stats import binomtest, t

from leakbench.statistics.amounts import mean_amount

UP = {"worse": "up", "share": True, "unit_range": True}
MEAN = {"worse": "up", "share": False, "unit_range": False}


def of(values):
    """{seed: {unit: score}} of an array (seeds, units)."""
    return {s: {f"u{i}": float(x) for i, x in enumerate(row)} for s, row in enumerate(values)}


def test_a_share_of_one_seed_has_exact_limits():
    scores = of([[1.0] * 7 + [0.0] * 23])
    got = mean_amount(scores, **UP)
    for alpha in (0.05, 0.01):
        exact = binomtest(7, 30).proportion_ci(1 - 2 * alpha, method="exact")
        assert got.above(alpha) == pytest.approx(exact.low)
        assert got.below(alpha) == pytest.approx(exact.high)
    assert got.value == pytest.approx(7 / 30)


def test_none_and_all_have_one_open_side():
    none, whole = mean_amount(of([[0.0] * 20]), **UP), mean_amount(of([[1.0] * 20]), **UP)
    assert none.above(0.05) == 0.0
    assert none.below(0.05) == pytest.approx(1 - 0.05 ** (1 / 20))
    assert whole.below(0.05) == 1.0
    assert whole.above(0.05) == pytest.approx(0.05 ** (1 / 20))


def test_ties_are_rounded_outwards():
    got = mean_amount(of([[0.5] * 3 + [0.0] * 17]), **UP)
    assert got.above(0.05) == pytest.approx(binomtest(1, 20).proportion_ci(0.9, method="exact").low)
    assert got.below(0.05) == pytest.approx(
        binomtest(2, 20).proportion_ci(0.9, method="exact").high
    )


def test_a_mean_of_one_seed_is_students_over_its_units():
    values = np.random.default_rng(1).normal(12, 3, 25)
    got = mean_amount(of([values]), **MEAN)
    half = t.ppf(0.95, 24) * values.std(ddof=1) / 5
    assert got.below(0.05) == pytest.approx(values.mean() + half)
    assert got.above(0.05) == pytest.approx(values.mean() - half)


def test_units_of_one_cluster_count_once():
    values = np.repeat([10.0, 12.0, 14.0], 8)
    clusters = {f"u{i}": f"c{i // 8}" for i in range(24)}
    apart, together = (mean_amount(of([values]), **MEAN, clusters=c) for c in (None, clusters))
    assert together.below(0.05) > apart.below(0.05)
    half = t.ppf(0.95, 2) * 2 / math.sqrt(3)
    assert together.below(0.05) == pytest.approx(12 + half)


def test_the_wider_of_units_and_seeds_counts():
    apart = of([[0.0] * 50, [1.0] * 50, [0.0] * 50, [1.0] * 50])
    got = mean_amount(apart, **UP)
    assert got.above(0.05) < 0.1
    assert got.below(0.05) > 0.9
    alike = of([[1.0, 0.0] * 25] * 4)
    exact = binomtest(100, 200).proportion_ci(0.9, method="exact")
    assert mean_amount(alike, **UP).below(0.05) == pytest.approx(exact.high)


def test_scores_that_are_all_alike_are_not_certain():
    same = of([[0.3] * 20])
    got = mean_amount(same, worse="up", share=False, unit_range=True)
    assert got.above(0.05) < 0.3 < got.below(0.05)


def test_one_unit_says_nothing():
    assert mean_amount(of([[12.0]]), **MEAN) is None
    assert mean_amount({}, **UP) is None


def test_the_same_test_units_are_averaged_over_seeds_first():
    scores = of(np.tile([1.0] * 80 + [0.0] * 20, (5, 1)))
    once = mean_amount(scores, worse="down", share=True, unit_range=True, crossed=True)
    often = mean_amount(scores, worse="down", share=True, unit_range=True)
    assert once.below(0.05) - once.above(0.05) > often.below(0.05) - often.above(0.05)


def test_p_is_where_the_limit_meets_the_value():
    scores = of([[1.0] * 30 + [0.0] * 70] * 3)
    got = mean_amount(scores, **UP)
    p = got.p(0.2)
    assert got.above(p) == pytest.approx(0.2, abs=1e-6)
    assert got.p(0.9) == 1.0
    falls = mean_amount(scores, worse="down", share=True, unit_range=True)
    assert falls.below(falls.p(0.4)) == pytest.approx(0.4, abs=1e-6)
    assert falls.p(0.1) == 1.0


@pytest.mark.parametrize(("p", "spread"), [(0.1, 0.0), (0.3, 0.0), (0.3, 0.3), (0.5, 0.8)])
def test_the_limits_hold_the_true_value(p, spread):
    """At most 5 % are above it, or below it, but for what 400 repeats leave open."""
    rng, centre = np.random.default_rng(5), math.log(p / (1 - p))
    draws = centre + spread * rng.standard_normal(200_000)
    truth, above, below = float(np.mean(1 / (1 + np.exp(-draws)))), 0, 0
    for _ in range(400):
        chance = 1 / (1 + np.exp(-(centre + spread * rng.standard_normal((5, 1)))))
        got = mean_amount(of((rng.random((5, 60)) < chance).astype(float)), **UP)
        above += got.above(0.05) > truth
        below += got.below(0.05) < truth
    assert max(above, below) / 400 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 400)
