"""Looks have shares of one level, and the shares are never more than it."""

import pytest

from leakbench.statistics.looks import LOOKS, level_shares, reached


def test_half_for_the_first_and_more_for_the_later_ones():
    assert level_shares(LOOKS) == pytest.approx((0.5, 0.05, 0.1, 0.15, 0.2))
    assert level_shares((5,)) == (1.0,)
    assert level_shares(()) == ()
    assert level_shares((5, 8)) == (0.5, 0.5)
    for several in range(1, 12):
        told = level_shares(range(2, 2 + several))
        assert sum(told) == pytest.approx(1)
        assert list(told[1:]) == sorted(told[1:])


def test_the_looks_that_seeds_have_reached():
    assert reached(LOOKS, 3) == ((3, 0.5),)
    assert [k for k, _ in reached(LOOKS, 11)] == [3, 5, 8]
    assert [k for k, _ in reached(LOOKS, 50)] == list(LOOKS)
    # Fewer than the first look's: looked at all the same.
    assert reached(LOOKS, 2) == ((2, 0.5),)
    assert reached((5,), 4) == ((4, 1.0),)
