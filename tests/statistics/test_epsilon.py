"""What a Gaussian mechanism costs, by three ways to count it; and what right guesses prove."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from leakbench.statistics.epsilon import LEVEL, chance_of_guesses, gaussian_epsilon, proven_epsilon

# Noise over sensitivity, messages, δ.
SETTINGS = [
    (0.5, 1, 1e-5),
    (1.0, 1, 1e-5),
    (2.0, 1, 1e-5),
    (4.0, 10, 1e-5),
    (10.0, 20, 1e-5),
    (50.0, 1000, 1e-6),
    (100.0, 60, 1e-3),
    (0.1, 3, 1e-5),
    (0.05, 300, 1e-9),
    (1000.0, 1, 1e-6),
]


def reference(noise, messages, delta):
    """Balle and Wang (ICML 2018), Theorem 8, of σ / sqrt(T), in fifty digits, by bisection."""
    with mpmath.workdps(50):
        shift = mpmath.sqrt(messages) / mpmath.mpf(noise)

        def beyond(epsilon):
            a, b = shift / 2 - epsilon / shift, -shift / 2 - epsilon / shift
            return mpmath.ncdf(a) - mpmath.exp(epsilon) * mpmath.ncdf(b) - delta

        if beyond(mpmath.mpf(0)) <= 0:
            return 0.0
        low, high = mpmath.mpf(0), mpmath.mpf(1)
        while beyond(high) > 0:
            high *= 2
        for _ in range(120):
            middle = (low + high) / 2
            low, high = (middle, high) if beyond(middle) > 0 else (low, middle)
        return float(high)


@pytest.mark.parametrize(("noise", "messages", "delta"), SETTINGS)
def test_the_accountant_says_what_the_analytic_mechanism_does(noise, messages, delta):
    found = gaussian_epsilon(math.sqrt(messages) / noise, delta)
    assert found == pytest.approx(reference(noise, messages, delta), rel=1e-6, abs=1e-8)


@pytest.mark.parametrize(("noise", "messages", "delta"), SETTINGS[3:7])
def test_messages_composed_on_a_grid_one_by_one_cost_the_same(noise, messages, delta):
    from dp_accounting import GaussianDpEvent
    from dp_accounting.pld import PLDAccountant

    by_grid = PLDAccountant().compose(GaussianDpEvent(noise), messages).get_epsilon(delta)
    found = gaussian_epsilon(math.sqrt(messages) / noise, delta)
    assert found == pytest.approx(by_grid, abs=1e-3)


def test_the_bound_by_renyi_divergences_is_no_smaller():
    from dp_accounting import GaussianDpEvent
    from dp_accounting.rdp import RdpAccountant

    for noise, messages, delta in SETTINGS[3:7]:
        by_moments = RdpAccountant().compose(GaussianDpEvent(noise), messages).get_epsilon(delta)
        assert gaussian_epsilon(math.sqrt(messages) / noise, delta) <= by_moments


def test_the_ends():
    assert gaussian_epsilon(0.0, 1e-5) == 0
    assert gaussian_epsilon(math.inf, 1e-5) == math.inf
    assert gaussian_epsilon(1e-7, 1e-5) == 0  # two messages differ by less than δ
    for shift, delta in ((-1, 1e-5), (math.nan, 1e-5), (1, 0), (1, 1)):
        with pytest.raises(ValueError, match="expected a shift"):
            gaussian_epsilon(shift, delta)


def test_the_papers_own_number():
    """Appendix D: 75 of 100 guesses right about 1,000 coins, at δ = 10^-4, prove ε >= 0.673."""
    assert proven_epsilon(1000, 100, 75, 1e-4) == pytest.approx(0.673, abs=5e-4)


def test_without_delta_it_is_the_binomial_tail():
    # 3 of 3 right where each is right with a chance of 2/3.
    assert chance_of_guesses(3, 3, 3, math.log(2), 0.0) == pytest.approx(8 / 27)
    assert chance_of_guesses(3, 3, 2, math.log(2), 0.0) == pytest.approx(8 / 27 + 12 / 27)
    # All of ten right: the chance is 0.05 at the proven ε.
    right = LEVEL ** (1 / 10)
    assert proven_epsilon(10, 10, 10, 0.0) == pytest.approx(math.log(right / (1 - right)))
    # δ lets somebody be right more often, and open guesses count against it.
    sure = chance_of_guesses(50, 50, 40, 1.0, 0.0)
    assert (
        sure < chance_of_guesses(50, 50, 40, 1.0, 1e-3) < chance_of_guesses(99, 50, 40, 1.0, 1e-3)
    )


@pytest.mark.parametrize(("guesses", "right"), [(0, 0), (10, 5), (10, 0)])
def test_guesses_no_better_than_chance_prove_nothing(guesses, right):
    assert proven_epsilon(10, guesses, right, 1e-5) == 0


def test_more_right_than_guessed_is_refused():
    with pytest.raises(ValueError, match="expected 0 <= 3 right <= 2 guesses <= 5 pairs"):
        proven_epsilon(5, 2, 3, 0.0)
    with pytest.raises(ValueError, match="<= 6 guesses <= 5 pairs"):
        proven_epsilon(5, 6, 3, 0.0)


def test_the_bound_holds_in_95_of_100_runs():
    """Randomised response is what leaks most: the bound is wrong in at most 5 % of its runs."""
    true, dice = 1.0, np.random.default_rng(0)
    rights = dice.binomial(200, 1 / (1 + math.exp(-true)), size=1000)
    bounds = {int(r): proven_epsilon(200, 200, int(r), 0.0) for r in {*rights}}
    wrong = np.mean([bounds[int(r)] > true for r in rights])
    assert 0.01 < wrong <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 1000)
