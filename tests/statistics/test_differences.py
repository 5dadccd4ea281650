"""The gate's comparisons against published examples, scipy and hand-worked numbers."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as reference

from leakbench.statistics.differences import compare, holm, judge, seeds_to_settle
from leakbench.statistics.limits import (
    Newcombe,
    Pivot,
    Spread,
    bonett_price,
    one_sample,
    two_sample,
)


def sides(values, start=0):
    """seed -> unit -> score out of a list per seed."""
    return {start + k: {f"client/{i}": x for i, x in enumerate(v)} for k, v in enumerate(values)}


def means(now, then, **kept):
    return compare(now, then, **{"worse": "up", "share": False, "unit_range": False} | kept)


def shares(now, then, **kept):
    return compare(now, then, **{"worse": "up", "share": True, "unit_range": True} | kept)


def test_bonett_price_is_the_published_example():
    # statpsych's ci.prop.ps(.05, 12, 4, 26, 6), by the method's authors.
    got = bonett_price(26, 4, 48)
    assert (got.centre, got.error) == pytest.approx((0.44, 0.09448809))
    assert (got.lower(0.025), got.upper(0.025)) == pytest.approx((0.2548067, 0.6251933), abs=1e-7)


@pytest.mark.parametrize(
    ("a", "n", "b", "m", "low", "high"),
    [
        (56, 70, 48, 80, 0.0524, 0.3339),
        (9, 10, 3, 10, 0.1705, 0.8090),
        (10, 10, 0, 20, 0.6791, 1.0),
        (10, 10, 0, 10, 0.6075, 1.0),
    ],
)
def test_newcombe_is_the_published_table(a, n, b, m, low, high):
    got = Newcombe(a / n, n, b / m, m)  # Newcombe 1998, Table II, method 10
    assert (got.lower(0.025), got.upper(0.025)) == pytest.approx((low, high), abs=5e-5)


def test_welch_and_satterthwaite_are_scipys():
    a, b = [1.0, 2.0, 4.0, 4.5], [0.5, 0.7, 0.8, 3.0, 1.0, 0.1]
    theirs = reference.ttest_ind(a, b, equal_var=False, alternative="greater")
    got = two_sample(Spread.of(a), Spread.of(b))
    assert got.freedom == pytest.approx(theirs.df)
    assert got.lower(0.05) == pytest.approx(theirs.confidence_interval(0.95).low)
    assert got.p() == pytest.approx(theirs.pvalue)


def test_p_is_the_level_at_which_the_lower_limit_is_nought():
    for bound in (
        Pivot(0.3, 0.1, 4),
        Pivot(0.3, 0.1, math.inf),
        Newcombe(0.5, 40, 0.3, 50),
        bonett_price(9, 2, 40),
    ):
        assert bound.lower(bound.p()) == pytest.approx(0, abs=1e-9)
    for freedom in (1, 1.3, 3.3, 7, 300):  # scipy's quantile changes sign at the smallest doubles
        assert Pivot(0.1, 0.1, freedom).p() == pytest.approx(reference.t.sf(1.0, freedom))
    assert one_sample(Spread.of([0.2, 0.2])).p() == 0
    assert one_sample(Spread.of([0.0, 0.0])).p() == 1


def test_paired_means_take_the_wider_of_units_and_seeds():
    then = sides([[1.0, 2.0, 3.0], [2.0, 3.0, 4.0], [0.0, 1.0, 2.0]])
    gains = [[1.0, 1.1, 0.9], [2.0, 2.1, 1.9], [3.0, 3.1, 2.9]]  # seeds differ, units do not
    now = sides(
        [
            [x + g for x, g in zip(v.values(), row, strict=True)]
            for v, row in zip(then.values(), gains, strict=True)
        ]
    )
    got = means(now, then)
    assert (got.d, got.paired, got.seeds) == (pytest.approx(2.0), True, (3, 3))
    over_seeds = (
        reference.ttest_1samp([1.0, 2.0, 3.0], 0, alternative="greater")
        .confidence_interval(0.95)
        .low
    )
    over_units = (
        reference.ttest_1samp([g for row in gains for g in row], 0, alternative="greater")
        .confidence_interval(0.95)
        .low
    )
    assert over_seeds < over_units
    assert got.lower() == pytest.approx(over_seeds)
    # The other way round: units differ, seed means do not.
    noisy = sides([[1.0, 6.0, 2.0], [2.0, 7.0, 3.0], [0.0, 5.0, 1.0]])
    assert means(noisy, then).over_seeds.error == pytest.approx(0, abs=1e-12)
    assert means(noisy, then).lower() == means(noisy, then).over_units.lower(0.05) < 1


def test_paired_shares_are_bonett_price_over_seed_and_unit():
    then, now = sides([[0, 0, 1, 1], [0, 1, 1, 1]]), sides([[1, 1, 1, 0], [0.5, 1, 1, 1]])
    assert shares(now, then).over_units == bonett_price(2.5, 1, 8)


def test_equal_shares_of_changed_guesses_still_have_width():
    then = sides([[0.0] * 10, [0.0] * 10])
    got = shares(then, then)
    assert (got.d, got.p()) == (0.0, 1.0)
    assert got.upper() == pytest.approx(1.6448536 * math.sqrt(2 / 22 / 22))
    # label_overlap has no successes to count, but no spread either: the same limits.
    assert means(then, then, unit_range=True).upper() == got.upper()


def test_clusters_are_compared_not_their_units():
    owners = {f"client/{i}": f"c{i // 2}" for i in range(4)}
    then, now = (
        sides([[0.0, 0.0, 1.0, 1.0]] * 2),
        sides([[1.0, 1.0, 1.0, 0.0], [0.0, 1.0, 1.0, 1.0]]),
    )
    theirs = (
        reference.ttest_1samp([1.0, -0.5, 0.5, 0.0], 0, alternative="greater")
        .confidence_interval(0.95)
        .low
    )
    assert shares(now, then, clusters=owners).over_units.lower(0.05) == pytest.approx(theirs)


def test_utility_averages_its_test_units_over_seeds_first():
    then, now = (
        sides([[1.0, 1.0, 1.0, 0.0]] * 3),
        sides([[1.0, 0.0, 1.0, 0.0], [1.0, 0.0, 1.0, 0.0], [1.0, 1.0, 1.0, 0.0]]),
    )
    got = shares(now, then, worse="down", crossed=True)
    assert got.d == pytest.approx(1 / 6)
    assert got.over_units == one_sample(Spread.of([0.0, 2 / 3, 0.0, 0.0]))


def test_a_utility_of_one_number_a_seed_goes_by_its_seeds():
    then, now = (
        {k: {"utility": x} for k, x in enumerate(v)} for v in ([0.1, 0.12, 0.13], [0.2, 0.19, 0.24])
    )
    got = means(now, then, unit_range=True, crossed=True)
    hand = one_sample(Spread.of([0.1, 0.07, 0.11]))
    assert (got.over_units.lower(0.05), got.over_seeds.lower(0.05)) == pytest.approx(
        (hand.lower(0.05), hand.lower(0.05))
    )
    assert means(then, then, unit_range=True, crossed=True).over_units == bonett_price(0, 0, 3)


def test_unpaired_shares_are_newcombe_in_both_directions():
    a, b = [[1, 1, 1, 0]] * 2, [[0, 1, 0, 0]] * 3
    assert shares(sides(a), sides(b, start=50)).over_units == Newcombe(0.75, 8, 0.25, 12)
    # Fewer is worse: 3 of 12 now, 6 of 8 then.
    down = shares(sides(b), sides(a, start=50), worse="down")
    assert (down.over_units.now, down.over_units.then) == (0.75, 0.25)
    assert down.d == pytest.approx(0.5)


def test_unpaired_takes_at_most_two_and_a_half_times_the_seeds():
    now, then = (
        sides([[1.0, 2.0], [2.0, 3.0]]),
        sides([[float(k), k + 1.0] for k in range(20)], start=100),
    )
    got = means(now, then)
    assert (got.paired, got.seeds) == (False, (2, 5))
    assert got.d == pytest.approx(2.0 - 2.5)  # the first five of them


def test_pairs_need_two_common_seeds_and_nearly_all_units():
    then = sides([[1.0, 2.0, 3.0]] * 3)
    assert means(sides([[2.0, 3.0, 4.5]] * 20), then).seeds == (3, 3)
    assert not means(sides([[2.0, 3.0, 4.5]] * 2, start=2), then).paired
    other = {k: {"client/0": 1.0, "client/8": 2.0, "client/9": 3.5} for k in range(3)}
    assert not means(other, then).paired
    assert means(sides([[1.0, 2.0, 3.0]]), then) is None


def test_samples_are_compared_as_logarithms():
    then, now = sides([[100.0, 200.0, 400.0]] * 2), sides([[50.0, 100.0, 200.0]] * 2)
    got = means(now, then, worse="down", log=True)
    assert got.d == pytest.approx(math.log(2))


def test_holm_worked_by_hand():
    assert holm([0.011, 0.001, 0.9, 0.03]) == pytest.approx(
        [0.05 / 3, 0.05 / 4, 0.05 / 2, 0.05 / 2]
    )
    assert holm([0.02, 0.02, 0.02]) == pytest.approx([0.05 / 3] * 3)
    assert holm([]) == []


def test_judge_needs_more_than_half_the_margin_to_call_it_a_leak():
    then = sides([[0.1, 0.2, 0.3, 0.4], [0.2, 0.3, 0.4, 0.5], [0.3, 0.4, 0.5, 0.6]])

    def by(step):
        wobble = (0.0, 0.001, -0.001, 0.0005)
        return sides(
            [[x + step + w for x, w in zip(v.values(), wobble, strict=True)] for v in then.values()]
        )

    small, large = means(by(0.01), then), means(by(0.2), then)
    assert small.lower() > 0
    assert judge(small, 0.05) == "fine"
    assert judge(large, 0.05) == "leaks more"
    assert (
        judge(
            means(sides([[0.5, 0.0, 0.9, 0.1], [0.0, 0.9, 0.1, 0.5], [0.6, 0.0, 0.3, 0.9]]), then),
            0.05,
        )
        == "cannot tell"
    )


def test_seeds_to_settle_settles_it():
    then = sides([[0.0] * 10] * 2)
    got = shares(then, then)
    assert judge(got, 0.05) == "cannot tell"
    k = seeds_to_settle(got, 0.05)
    # About: with that many seeds of the same scores the answer is there, with half as many it is
    # not.
    assert (
        judge(shares(sides([[0.0] * 10] * (k + 1)), sides([[0.0] * 10] * (k + 1))), 0.05) == "fine"
    )
    assert (
        judge(shares(sides([[0.0] * 10] * (k // 2)), sides([[0.0] * 10] * (k // 2))), 0.05)
        == "cannot tell"
    )
    assert (
        seeds_to_settle(shares(sides([[0, 1, 0, 1]] * 2), sides([[1, 0, 1, 0]] * 2)), 1e-4) is None
    )


CELLS = st.lists(
    st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=3, max_size=3), min_size=2, max_size=5
)


@settings(max_examples=100, deadline=None)
@given(now=CELLS, then=CELLS, start=st.sampled_from([0, 100]), kind=st.booleans())
def test_limits_hold_d_and_swapping_the_sides_mirrors_them(now, then, start, kind):
    a, b = sides(now), sides(then, start)
    got, mirrored = (
        compare(x, y, worse="up", share=kind, unit_range=True) for x, y in ((a, b), (b, a))
    )
    assert got.lower() <= got.d + 1e-12
    assert got.upper() >= got.d - 1e-12
    assert (mirrored.lower(), mirrored.upper()) == pytest.approx((-got.upper(), -got.lower()))
    assert got.upper() - got.lower() > 1e-3
