"""Was a run trained to its end, or does its utility still rise steeply there?

Asked of its own evaluations, whenever a table or a page is written. A flag, no verdict: what a
model has that is still learning fast says little of the same model when it has learnt.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from leakbench.base.meaning import Meaning
from leakbench.results.number import UNIT, Evaluation
from leakbench.statistics.intervals import estimate

FEWEST = 2  # evaluations in each of the two quarters that are compared


def rise(evaluations: Sequence[Evaluation], meaning: Meaning, start: float) -> float | None:
    """How much of all that a run gained it gained in the last quarter of its rounds, 0 to 1.

    That is the mean of the evaluations of the last quarter less that of the quarter before, as a
    share of what the former has beyond ``start``. 0 where the difference, taken test unit by test
    unit, is not beyond its 95 % interval. None where nobody can tell: either has fewer than
    ``FEWEST`` evaluations, or the metric has no scores of units and its intervals touch.

    Args:
        evaluations: of one run, its last round among them.
        meaning: of its utility.
        start: the utility before the first round.
    """
    end = max((e.round for e in evaluations), default=0)
    late = [e for e in evaluations if e.round > 3 * end / 4]
    early = [e for e in evaluations if end / 2 < e.round <= 3 * end / 4]
    if min(len(late), len(early)) < FEWEST:
        return None
    now, then = mean(late), mean(early)
    sign = 1 if meaning.direction == "up" else -1
    gained = sign * (meaning.scaled(now.value) - meaning.scaled(then.value))
    if gained <= 0:
        return 0.0
    beyond = _beyond_noise(now, then, sign)
    if not beyond:
        return None if beyond is None else 0.0
    whole = sign * (meaning.scaled(now.value) - meaning.scaled(start))
    return gained / max(whole, gained)


def rise_of_run(
    evaluations: Sequence[Evaluation], meaning: Meaning, about: Mapping[str, Any]
) -> float | None:
    """``rise``, from the untrained network, or from chance where nobody evaluated that.

    ``about``: ``utility`` of run.json.
    """
    chance = float(about["chance"])
    return rise(evaluations, meaning, float(about.get("untaught", {}).get("untrained", chance)))


def most(rises: Iterable[float | None]) -> float | None:
    """The steepest; None where that of none is known."""
    return max((r for r in rises if r is not None), default=None)


def mean(evaluations: Sequence[Evaluation]) -> Evaluation:
    """The mean of one run's evaluations.

    They share their test units, so their intervals are averaged, not narrowed.
    """
    if len(evaluations) == 1:
        return evaluations[0]

    def of(name: str) -> float:
        return math.fsum(getattr(e, name) for e in evaluations) / len(evaluations)

    arrays = [e.scores for e in evaluations if e.scores is not None]
    whole = len(arrays) == len(evaluations) and len({len(a) for a in arrays}) == 1
    scores = np.mean(arrays, axis=0) if whole else None
    return replace(
        evaluations[-1], value=of("value"), low=of("low"), high=of("high"), scores=scores
    )


def _beyond_noise(now: Evaluation, then: Evaluation, sign: int) -> bool | None:
    """Is the difference beyond its interval?

    Where scores lack it is if the two intervals do not touch, and else nobody can tell.
    """
    one, other = now.scores, then.scores
    if one is None or other is None or len(one) != len(other) or len(one) < 2:
        apart = now.low > then.high if sign > 0 else now.high < then.low
        return apart or None
    each = [sign * float(x) for x in one - other]
    names = [str(i) for i in range(len(each))]
    found = estimate(each, names, share=False, low=-math.inf, high=math.inf, unit=UNIT)
    return found.low > 0
