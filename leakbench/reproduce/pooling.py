"""Numbers of several seeds as one cell of a table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from leakbench.record.columns import Row
from leakbench.statistics import intervals


def pooled(seeds: Mapping[int, Sequence[float]], unit: str) -> Row:
    """Value, interval, n and unit of ``seeds``' numbers, one per unit; a single number has no
    interval.

    Raises:
        ValueError: there is none, or one is not finite.
    """
    names = {seed: [str(i) for i in range(len(values))] for seed, values in seeds.items()}
    parts = {seed: (values, names[seed], names[seed]) for seed, values in seeds.items()}
    try:
        e = intervals.pool(parts, share=False, low=-math.inf, high=math.inf, unit=unit)
    except intervals.NoInterval:
        ((value,),) = seeds.values()
        return {"value": value, "low": "", "high": "", "n": 1, "unit": unit}
    return {"value": e.value, "low": e.low, "high": e.high, "n": e.n, "unit": e.unit}
