"""How private a run claims to be, and how little private attacks prove that it is: (ε, δ).

A mechanism M is (ε, δ)-differentially private if P[M(D) in S] <= e^ε P[M(D') in S] + δ for all
neighbours D, D' and all S (Dwork and Roth 2014, Definition 2.4). Here neighbours differ in what one
client sends: its data, or one example of these, are replaced by others.
"""

from __future__ import annotations

import math

LEVEL = 0.05  # one-sided, of a lower bound
MOST = 60.0  # ε beyond which no number of guesses proves anything in floating point
FIRST = 64  # terms that are looked at before it is asked whether more are needed
STEPS = 40  # of a bisection


def gaussian_epsilon(shift: float, delta: float) -> float:
    """The smallest ε at which messages with Gaussian noise are (ε, ``delta``)-private.

    Several messages are one: what is chosen by those before is as far apart as if it had been
    chosen at once, and shifts add up by their squares (Dong, Roth and Su 2022, Corollary 3.3). Of
    one it is exact: the δ of an ε is that of ``dp_accounting``, Google's accountant, from the
    privacy loss itself, without the grid on which several unlike ones would be composed.

    Args:
        shift: how far apart what is sent of two neighbours may be, in standard deviations of the
            noise; 0 or more.
        delta: above 0, below 1.

    Returns:
        0 or more; infinite where the shift is.

    Raises:
        ValueError: an argument is out of range.
    """
    if not shift >= 0 or not 0 < delta < 1:
        raise ValueError(f"expected a shift of 0 or more and 0 < δ < 1, got {shift} and {delta}.")
    if shift == 0 or math.isinf(shift):
        return shift
    from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss
    from scipy.optimize import brentq

    loss = GaussianPrivacyLoss(1 / shift)

    def beyond(epsilon: float) -> float:
        return float(loss.get_delta_for_epsilon(epsilon)) - delta

    if beyond(0.0) <= 0:
        return 0.0
    # The loss is normal with mean shift^2 / 2 and standard deviation shift, so its tail is below δ
    # from there on (Chernoff).
    most = shift**2 / 2 + shift * math.sqrt(2 * math.log(1 / delta))
    return float(brentq(beyond, 0.0, most, xtol=1e-9, rtol=1e-12))


def chance_of_guesses(pairs: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """How likely (ε, δ)-privacy lets somebody guess so well: a p-value.

    Steinke, Nasr and Jagielski (NeurIPS 2023), Theorem 5.2, as computed in their Appendix D: of
    ``pairs`` independent fair coins, each of which a neighbour would have thrown otherwise,
    ``guesses`` were guessed and the others left open, whichever looked surest; ``right`` of them
    as they fell. P[W >= right] + 2 δ pairs max_i P[right > W >= right - i] / i, where W is binomial
    over the guesses with e^ε / (1 + e^ε).
    """
    from scipy.stats import binom

    chance = 1 / (1 + math.exp(-epsilon))
    as_many = float(binom.sf(right - 1, guesses, chance))
    if as_many == 1:
        return 1.0
    return min(1.0, as_many + 2 * delta * pairs * _steepest(guesses, right, chance))


def _steepest(guesses: int, right: int, chance: float) -> float:
    """The largest P[right > W >= right - i] / i over i from 1 to ``right``; 0 where there is none.

    It is at most 1 / i, so those are left out that cannot be it.
    """
    import numpy as np
    from scipy.stats import binom

    most, many = 0.0, FIRST
    while most < 1 / many and many < FIRST * right:
        many = min(2 * many, FIRST * right)
        upto = np.arange(1, min(many, right) + 1)
        fewer = binom.pmf(right - upto, guesses, chance).cumsum()
        most = float((fewer / upto).max())
    return most


def proven_epsilon(
    pairs: int, guesses: int, right: int, delta: float, level: float = LEVEL
) -> float:
    """The largest ε that so many right guesses refute at ``delta``: a lower bound.

    With a chance of 1 - ``level`` at least the true ε is not below it. The largest at which
    ``chance_of_guesses`` is below ``level``; 0 where none is.

    Raises:
        ValueError: more were right than guessed, or guessed than there are.
    """
    if not 0 <= right <= guesses <= pairs:
        raise ValueError(f"expected 0 <= {right} right <= {guesses} guesses <= {pairs} pairs.")
    low, high = 0.0, MOST
    if chance_of_guesses(pairs, guesses, right, low, delta) >= level:
        return 0.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        if chance_of_guesses(pairs, guesses, right, middle, delta) < level:
            low = middle
        else:
            high = middle
    return low
