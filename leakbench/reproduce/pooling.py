"""Numbers of several seeds as one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from leakbench.reproduce.row import Measurement
from leakbench.statistics import intervals


def pooled(seeds: Mapping[int, Sequence[float]], unit: str) -> Measurement:
    """The mean of ``seeds``' numbers, one per ``unit``; a single number has no interval.

    Raises:
        ValueError: there is none, or one is not finite.
    """
    parts = {}
    for seed, values in seeds.items():
        names = [str(i) for i in range(len(values))]
        parts[seed] = (values, names, names)
    try:
        found = intervals.pool(parts, share=False, low=-math.inf, high=math.inf, unit=unit)
    except intervals.NoInterval:
        ((value,),) = seeds.values()
        return Measurement(value=value, n=1, unit=unit)
    each = {seed: math.fsum(values) / len(values) for seed, values in seeds.items()}
    return Measurement.of(found, each=each)
