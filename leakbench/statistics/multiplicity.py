"""The interval of a number that was picked as the best of several."""

from __future__ import annotations

import math
from dataclasses import replace

from leakbench.statistics.intervals import Estimate

TAIL = 0.025  # of an interval


def bonferroni(e: Estimate, count: int) -> Estimate:
    """``e`` with its interval at 5 % / ``count``: it was picked of so many by looking.

    A share of units: Clopper-Pearson again, and never narrower than the given interval scaled by
    Student's quantiles, which also carries what seeds added to it. Degrees of freedom: n - 1. An
    exact interval stays.
    """
    if count < 2 or e.interval == "exact":
        return e
    from scipy.special import betaincinv, stdtrit  # scipy.stats takes a second to load

    tail = TAIL / count
    free = max(e.n - 1, 1)
    wider = float(stdtrit(free, 1 - tail) / stdtrit(free, 1 - TAIL))
    low, high = e.value - wider * (e.value - e.low), e.value + wider * (e.high - e.value)
    if e.interval == "clopper-pearson":
        hits, up = math.floor(e.value * e.n + 1e-9), math.ceil(e.value * e.n - 1e-9)
        least = float(betaincinv(hits, e.n - hits + 1, tail)) if hits > 0 else 0.0
        most = float(betaincinv(up + 1, e.n - up, 1 - tail)) if up < e.n else 1.0
        low, high = max(min(low, least), 0.0), min(max(high, most), 1.0)
    return replace(e, low=low, high=high)
