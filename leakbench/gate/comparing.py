"""Two rows of one key, now and then: can they be compared, and how far are they apart?"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from leakbench.gate.baseline import GateRow
from leakbench.record.attack_code import STALE
from leakbench.statistics.differences import Difference, compare

BLOCKING = {
    "control_failed": "the control failed: the attack is too weak to judge",
    "dead_run": "dead run: it did not learn, so its leakage says nothing",
    "mixed_code": "resumed by other code than began it, so no one code made it",
    "stale_run": "trained by other code than what is installed; train it again with --restart",
}
# A row of an attack that was mended since may accuse, so the gate does not refuse it.
OUTDATED = {STALE: "attacked by other code than what is installed; attack it again"}


def difference(now: GateRow, then: GateRow) -> Difference | None:
    """How far apart, with limits, or None where a side has fewer than two seeds."""
    return compare(
        now.scores,
        then.scores,
        worse=then.worse,
        share=then.share,
        unit_range=then.range == (0.0, 1.0),
        clusters={**then.clusters, **now.clusters},
        crossed=then.is_utility,
        log=_logarithms(now, then),
    )


def _logarithms(now: GateRow, then: GateRow) -> bool:
    """Are differences taken of logarithms? An older baseline does not say so."""
    return (then.meaning or now.means).scale == "log"


def blocked(now: GateRow, then: GateRow) -> str:
    """Why this row cannot be judged, or nothing."""
    for flag, text in BLOCKING.items():
        if flag in now.flags or flag in then.flags:
            return text if flag in now.flags else f"in the baseline {text}"
    for what, (old, new) in changed(now, then).items():
        return f"another {what} ({new}) than in the baseline ({old}); if that is meant, --update"
    common = now.scores.keys() & then.scores.keys()
    failed, units = _failures(now, common or now.scores)
    before, had = _failures(then, common or then.scores)
    # Without a seed in common the numbers of units differ, so shares are compared.
    if failed > before if common else failed * had > before * units:
        return (
            f"the attack failed on {failed} of {units} units, in the baseline on {before} of {had}"
        )
    return ""


def other_code(now: GateRow, then: GateRow) -> str:
    """Which attacks ran with other code on the two sides, so that the numbers are not of one.

    One that finds more would make the method look worse, and one that finds less better.
    """
    both = sorted(now.code.keys() & then.code.keys())
    return ", ".join(name for name in both if now.code[name] != then.code[name])


def outdated(now: GateRow) -> str:
    """Why a row that is not worse is no news: an attack that is not the installed one."""
    return OUTDATED[STALE] if STALE in now.flags else ""


def _failures(row: GateRow, seeds: Collection[int]) -> tuple[int, int]:
    """On how many units of these seeds the attack failed, and of how many."""
    failed = sum(row.failed.get(seed, 0) for seed in seeds)
    return failed, sum(len(row.scores[seed]) for seed in seeds)


def changed(now: GateRow, then: GateRow) -> dict[str, tuple[Any, Any]]:
    """{what: (then, now)} of all that makes two rows no longer like with like."""
    both = {
        "engine": (then.engine, now.engine),
        "dtype": (then.dtype, now.dtype),
        "schema": (then.run_schema, now.run_schema),
        "version of the metric": (then.version, now.version),
        "direction": (then.worse, now.worse),
        "set of data": (_data(then), _data(now)),
        "range of scores": (then.range, now.range),
        "kind of score": (_scores(then), _scores(now)),
    }
    if now.meaning and then.meaning:
        both["scale"] = then.meaning.scale, now.meaning.scale
    # Trained less or on an easier task, the same method may seem to leak less.
    if now.setting and then.setting:
        for k in sorted(now.setting.keys() | then.setting.keys()):
            name = "number of rounds" if k == "rounds" else f"value of {k}"
            both[name] = (then.setting.get(k), now.setting.get(k))
    return {what: (old, new) for what, (old, new) in both.items() if old != new}


def _data(row: GateRow) -> str:
    return "unofficial" if "unofficial_data" in row.flags else "official"


def _scores(row: GateRow) -> str:
    return "hit or miss" if row.share else "measured"


def unchanged(now: GateRow, then: GateRow) -> bool:
    """The seeds of one side are all among the other's, with the same guesses and the same truth."""
    common = now.scores.keys() & then.scores.keys()
    if not common or (common != now.scores.keys() and common != then.scores.keys()):
        return False
    same = [
        (getattr(now, what).get(k), getattr(then, what).get(k))
        for what in ("guesses", "truths")
        for k in common
    ]
    return all(a and b and sorted(a) == sorted(b) for a, b in same)


def moved(now: GateRow, then: GateRow) -> float:
    """How far the value went against the method, whatever can be said of how sure that is."""
    a, b = now.value, then.value
    if _logarithms(now, then):
        a, b = math.log(max(a, 1.0)), math.log(max(b, 1.0))
    return a - b if then.worse == "up" else b - a
