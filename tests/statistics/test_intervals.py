"""Intervals against scipy, against hand-worked numbers, and what must hold for any scores."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as reference

from leakbench.statistics.intervals import (
    NoInterval,
    clopper_pearson,
    estimate,
    exact,
    exact_over_seeds,
    pool,
)

INF = math.inf


def share(scores, clusters=None, **kept):
    names = [f"client/{i}" for i in range(len(scores))]
    return estimate(scores, clusters or names, share=True, low=0.0, high=1.0, unit="client", **kept)


def mean(scores, clusters=None, low=-INF, high=INF):
    names = [f"client/{i}" for i in range(len(scores))]
    return estimate(scores, clusters or names, share=False, low=low, high=high, unit="image")


def seed(scores, clusters=None):
    names = [f"client/{i}" for i in range(len(scores))]
    return scores, names, clusters or names


@pytest.mark.parametrize(
    ("k", "n"), [(0, 1), (0, 10), (3, 10), (10, 10), (1, 100), (57, 100), (2000, 2000)]
)
def test_clopper_pearson_is_scipys(k, n):
    theirs = reference.binomtest(k, n).proportion_ci(0.95, "exact")
    assert clopper_pearson(k, n) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_fractional_successes_are_rounded_outwards():
    got = share([1.0, 0.5, 0.0, 1 / 3])  # 1.83 of 4: low as for 1, high as for 2
    assert got.value == pytest.approx(1.8333333333 / 4)
    assert got.low == pytest.approx(reference.binomtest(1, 4).proportion_ci(0.95, "exact").low)
    assert got.high == pytest.approx(reference.binomtest(2, 4).proportion_ci(0.95, "exact").high)
    assert got.interval == "clopper-pearson"


def test_ties_that_sum_to_a_whole_number_are_that_number():
    assert share([1 / 3, 1 / 3, 1 / 3, 0.0]).low == pytest.approx(clopper_pearson(1, 4)[0])


def test_student_worked_by_hand():
    # 1, 2, 3, 4: mean 2.5, variance 5/3, error sqrt(5/12) = 0.645497, t(3) = 3.182446
    got = mean([1.0, 2.0, 3.0, 4.0])
    assert (got.value, got.low, got.high) == pytest.approx(
        (2.5, 2.5 - 2.054260, 2.5 + 2.054260), abs=1e-5
    )
    assert (got.n, got.unit, got.interval) == (4, "image", "student")


def test_clusters_leave_one_degree_of_freedom_less_than_clusters():
    # Two images of each of three clients: Student over 1.5, 3.5, 7.
    got = mean([1.0, 2.0, 3.0, 4.0, 6.0, 8.0], ["a", "a", "b", "b", "c", "c"])
    theirs = reference.ttest_1samp([1.5, 3.5, 7.0], 0).confidence_interval(0.95)
    assert (got.low, got.high) == pytest.approx((theirs.low, theirs.high))
    assert got.n == 6


def test_unequal_clusters_keep_the_mean_of_the_units():
    got = mean([0.0, 10.0, 10.0, 10.0], ["a", "b", "b", "c"])
    # Leaving out a, b, c gives 10, 5, 20/3; about 7.5 that is an error of sqrt(2/3 (6.25 + 6.25 +
    # 25/36)).
    half = reference.t.ppf(0.975, 2) * math.sqrt(2 / 3 * (6.25 + 6.25 + 25 / 36))
    assert (got.value, got.low, got.high) == pytest.approx((7.5, 7.5 - half, 7.5 + half))


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_scores_that_are_all_nought_or_all_one_count_clusters(value):
    scores, owners = [value] * 8, ["a"] * 4 + ["b"] * 4
    for got in (share(scores, owners), mean(scores, owners, low=0.0, high=1.0)):
        assert (got.low, got.high) == pytest.approx(clopper_pearson(2 * value, 2))
        assert got.interval == "clopper-pearson"


def test_a_share_of_clustered_units_is_student_and_has_width_when_clusters_agree():
    got = share([1.0, 0.0, 0.0, 1.0], ["a", "a", "b", "b"])
    assert got.interval == "student"
    assert (got.low, got.high) == pytest.approx(clopper_pearson(1, 2))


def test_one_unit_has_the_whole_range_or_nothing():
    assert (mean([0.3], low=-1.0, high=1.0).low, mean([0.3], low=-1.0, high=1.0).high) == (
        -1.0,
        1.0,
    )
    assert (share([1.0]).low, share([1.0]).high) == pytest.approx((0.025, 1.0))
    with pytest.raises(NoInterval, match="one image only"):
        mean([12.0], low=-INF, high=100.0)
    with pytest.raises(NoInterval, match="one cluster only"):
        mean([12.0, 13.0], ["a", "a"], low=0.0)


def test_limits_are_clipped_to_the_range():
    got = mean([99.0, 60.0], low=-INF, high=100.0)
    assert got.high == 100.0
    assert got.low < 0


def test_exact_has_no_width():
    assert (
        exact(0.1, 10, "client").low,
        exact(0.1, 10, "client").high,
        exact(0.1, 10, "client").interval,
    ) == (0.1, 0.1, "exact")


@pytest.mark.parametrize("scores", [[], [math.nan], [INF], [1.1], [-0.1]])
def test_scores_that_cannot_be_are_refused(scores):
    with pytest.raises(ValueError, match="score"):
        share(scores)


def test_pool_of_one_seed_is_its_estimate():
    scores = [1.0, 0.0, 1.0]
    assert pool({7: seed(scores)}, share=True, low=0.0, high=1.0, unit="client") == share(scores)


def test_pool_over_two_seeds_is_over_all_units_where_units_differ():
    a, b = seed([1.0, 0.0, 0.0]), ([1.0, 1.0], ["client/8", "client/9"], ["client/8", "client/9"])
    got = pool({0: a, 1: b}, share=True, low=0.0, high=1.0, unit="client")
    assert (got.value, got.n) == (0.6, 5)  # n differs by seed: the mean of all units
    assert (got.low, got.high) == pytest.approx(clopper_pearson(3, 5))


def test_pool_takes_the_seeds_into_account_from_three_on():
    # Every client leaks in two seeds and none in the third: over units alone 0.67 +- 0.1 or so.
    runs = {
        k: ([float(k < 2)] * 40, [f"{k}/{i}" for i in range(40)], [f"{k}/{i}" for i in range(40)])
        for k in range(3)
    }
    got = pool(runs, share=True, low=0.0, high=1.0, unit="client")
    x = [math.pi / 2, math.pi / 2, 0.0]
    theirs = reference.ttest_1samp(x, 0).confidence_interval(0.95)
    assert theirs.low < 0
    assert (got.value, got.low, got.high) == (pytest.approx(2 / 3), 0.0, 1.0)
    two = pool({k: runs[k] for k in (1, 2)}, share=True, low=0.0, high=1.0, unit="client")
    assert (two.low, two.high) == pytest.approx(clopper_pearson(40, 80))


def test_pool_on_the_arcsine_scale():
    values = [0.5, 0.52, 0.56]
    runs = {
        k: (
            [1.0] * int(v * 1000) + [0.0] * (1000 - int(v * 1000)),
            [f"{k}/{i}" for i in range(1000)],
        )
        for k, v in enumerate(values)
    }
    got = pool(
        {k: (s, u, u) for k, (s, u) in runs.items()}, share=True, low=0.0, high=1.0, unit="client"
    )
    theirs = reference.ttest_1samp(
        [math.asin(math.sqrt(v)) for v in values], 0
    ).confidence_interval(0.95)
    assert (got.low, got.high) == pytest.approx(
        (math.sin(theirs.low) ** 2, math.sin(theirs.high) ** 2)
    )


def test_pool_counts_a_client_of_every_seed_once():
    # The same four clients: two always leak, two never do. Eight scores a seed are not eight
    # clients.
    runs = {k: seed([1.0, 1.0, 0.0, 0.0]) for k in range(5)}
    got = pool(runs, share=True, low=0.0, high=1.0, unit="client")
    theirs = reference.ttest_1samp([1.0, 1.0, 0.0, 0.0], 0).confidence_interval(0.95)
    assert (got.low, got.high) == (max(theirs.low, 0.0), min(theirs.high, 1.0))
    assert got.high - got.low > clopper_pearson(10, 20)[1] - clopper_pearson(10, 20)[0]


UNITS = st.lists(
    st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.sampled_from("abcd")),
    min_size=1,
    max_size=30,
)


@settings(max_examples=150, deadline=None)
@given(units=UNITS, kind=st.booleans(), permuted=st.randoms())
def test_a_bounded_metric_always_has_width_and_holds_its_value_in_any_order(units, kind, permuted):
    got = estimate(
        [s for s, _ in units], [c for _, c in units], share=kind, low=0.0, high=1.0, unit="client"
    )
    assert 0.0 <= got.low <= got.value <= got.high <= 1.0
    assert got.high - got.low > 1e-3
    other = list(units)
    permuted.shuffle(other)
    again = estimate(
        [s for s, _ in other], [c for _, c in other], share=kind, low=0.0, high=1.0, unit="client"
    )
    assert (again.value, again.low, again.high) == (got.value, got.low, got.high)


@settings(max_examples=100, deadline=None)
@given(runs=st.lists(st.lists(st.floats(-50, 99), min_size=2, max_size=8), min_size=1, max_size=5))
def test_pooling_never_narrows_below_all_units(runs):
    seeds = {
        k: (r, [f"{k}/{i}" for i in range(len(r))], [f"{k}/{i}" for i in range(len(r))])
        for k, r in enumerate(runs)
    }
    got = pool(seeds, share=False, low=-INF, high=100.0, unit="image")
    flat = [x for r in runs for x in r]
    whole = mean(flat, low=-INF, high=100.0)
    assert got.low <= whole.low + 1e-9
    assert got.high >= whole.high - 1e-9
    assert got.low <= got.value <= got.high <= 100.0
    assert got.n == len(flat)


class TestExactOverSeeds:
    """What is counted is no sample within a run; another run would come to another count."""

    ends = {"low": 0.0, "high": 1.0, "unit": "client"}

    def test_of_runs_that_differ_it_has_a_width(self):
        found = exact_over_seeds([[0.6] * 4, [0.7] * 4, [0.8] * 4], **self.ends)
        assert (found.value, found.n, found.interval) == (pytest.approx(0.7), 12, "student")
        assert 0.4 < found.low < 0.5
        assert 0.9 < found.high < 0.95

    @pytest.mark.parametrize("values", [[0.7], [0.6, 0.8], [0.7, 0.7, 0.7]])
    def test_of_alike_or_too_few_it_has_none(self, values):
        found = exact_over_seeds([[v] * 4 for v in values], **self.ends)
        assert found.low == found.value == found.high
        assert found.interval == "exact"

    def test_equal_ones_are_seldom_told_apart(self):
        rng, apart = np.random.default_rng(6), 0
        for _ in range(300):
            a, b = (
                exact_over_seeds([[x] for x in rng.uniform(0.6, 0.8, 3)], **self.ends) for _ in "ab"
            )
            apart += a.high < b.low or b.high < a.low
        assert apart / 300 < 0.05
