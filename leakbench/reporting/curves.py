"""Curves over the rounds: utility, leakage by the paper's own and the best real attack, and what
the run says of its prototypes.

Every point is the mean over the seeds with its 95 % interval, made as the tables make theirs; the
points that the tables have are the tables'.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from leakbench.judging.questions import topic
from leakbench.record.columns import RUN_DIAGNOSTICS, Row
from leakbench.reporting.data import Curve
from leakbench.results.cascade import KINDS
from leakbench.results.keys import params, setting_key
from leakbench.results.tables import Found
from leakbench.results.units import Measured, numbers
from leakbench.results.utility import over_seeds
from leakbench.scoring import flags
from leakbench.statistics import intervals
from leakbench.statistics.intervals import Estimate, NoInterval

DIAGNOSTICS = ("prototype_mean_cosine", "prototype_distance_ratio")
END = ("final", "all")
Points = dict[int, tuple[float, float, float, float | None]]  # round -> value, low, high, floor


def of(found: Found) -> list[Curve]:
    """Every curve of one configuration; those of attacks in the metrics that judge a topic."""
    return [*_utility(found), *_diagnostics(found), *_leakage(found)]


def _utility(found: Found) -> Iterator[Curve]:
    """The last point is the table's. Before it, over several seeds: from the lowest low to the
    highest high of the runs' own intervals and Student over the seeds, which needs no test unit's
    score (a table's interval over units is narrower).
    """
    metric, every = found.final["metric"], found.utilities
    by_round = {u.run.seed: {e.round: e for e in u.evaluations} for u in every}
    shared = sorted(set.intersection(*(set(rounds) for rounds in by_round.values())))
    points: Points = {}
    for t in shared:
        seeds = {s: replace(rounds[t], scores=None) for s, rounds in by_round.items()}
        one = next(iter(seeds.values()))
        e: Any = over_seeds(seeds, metric) if len(seeds) > 1 else one
        points[t] = e.value, e.low, e.high, None
    last = {max(rounds) for rounds in by_round.values()}
    if len(last) == 1:
        points[last.pop()] = found.final["value"], found.final["low"], found.final["high"], None
    yield _curve(found, metric, points)


def _diagnostics(found: Found) -> Iterator[Curve]:
    """The mean over the seeds; Student over them where there are several, no interval where there
    is one.
    """
    lines: dict[str, dict[int, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for u in found.utilities:
        for d in u.run.table("diagnostics.csv", RUN_DIAGNOSTICS):
            if d["name"] in DIAGNOSTICS:
                lines[d["name"]][d["round"]][u.run.seed] = d["value"]
    for name, rounds in lines.items():
        points: Points = {}
        for t, seeds in rounds.items():
            if len(seeds) == len(found.utilities):
                e = _of_seeds(
                    list(seeds.values()),
                    (-1.0, 1.0) if name == DIAGNOSTICS[0] else (0.0, float("inf")),
                )
                points[t] = e.value, e.low, e.high, None
        yield _curve(found, name, points)


def _of_seeds(values: Sequence[float], ends: tuple[float, float]) -> Estimate:
    if len(values) == 1:
        return Estimate(values[0], values[0], values[0], 1, "seed", "exact")
    inside = [min(max(v, ends[0]), ends[1]) for v in values]  # a cosine of 1 may be off by rounding
    return intervals.estimate(
        inside,
        [str(i) for i in range(len(values))],
        share=False,
        low=ends[0],
        high=ends[1],
        unit="seed",
    )


def _leakage(found: Found) -> Iterator[Curve]:
    """Of the paper's own attack and the best real one, in the metric that judges each topic."""
    metrics = {(p.row["metric"], bool(p.row["probe"])) for p in found.pooled}
    ends = [p.row for p in found.pooled if p.row["stage"] in END and p.row["attack"] not in KINDS]
    several: dict[str, set[str]] = defaultdict(set)
    for row in ends:
        several[row["attack"]].add(row["attack_params"])
    for metric, probe in sorted(metrics):
        if metric != next(m for m in topic(metric).metrics if (m, probe) in metrics):
            continue
        asked = [r for r in ends if (r["metric"], bool(r["probe"])) == (metric, probe)]
        for row in chosen(asked):
            by = in_words(row, [params(p) for p in several[row["attack"]]])
            yield replace(
                _curve(found, metric, _points(found, row)), by=by, rung=row["rung"], probe=probe
            )


def chosen(rows: Sequence[Row]) -> list[Row]:
    """Of one metric's rows at the end: the paper's own attack, then the best real one whose control
    did not fail.
    """
    sign = {"up": 1.0, "down": -1.0}

    def reach(row: Row) -> tuple[float, float]:
        ends = sign[row["leaks"]] * row["low"], sign[row["leaks"]] * row["high"]
        return min(ends), sign[row["leaks"]] * row["value"]

    paper = [r for r in rows if r["rung"] == "paper"]
    real = [
        r for r in rows if r["rung"] != "paper" and "control_failed" not in flags.split(r["flags"])
    ]
    return [max(found, key=reach) for found in (paper, real) if found]


def _points(found: Found, end: Row) -> Points:
    """The attack's numbers in every round that all seeds have: the tables' own, and pooled as they
    are in the rounds between.
    """
    same = [
        m
        for m in found.rows
        if all(m.row[c] == end[c] for c in ("attack", "attack_params", "metric", "probe"))
    ]
    points = {}
    for p in found.pooled:
        if all(p.row[c] == end[c] for c in ("attack", "attack_params", "metric", "probe")):
            points[p.row["round"]] = _point(p.row)
    between: dict[int, list[Measured]] = defaultdict(list)
    for m in same:
        if m.row["stage"] == "curve":
            between[m.row["round"]].append(m)
    seeds = {m.run.seed for m in same}
    for t, group in between.items():
        if {m.run.seed for m in group} == seeds:
            try:
                points[t] = _point(numbers(group))
            except NoInterval:  # one unit of a metric without end: the tables leave it out, too
                continue
    return points


def _point(row: Row) -> tuple[float, float, float, float | None]:
    return row["value"], row["low"], row["high"], row["floor"]


def _curve(found: Found, name: str, points: Points) -> Curve:
    rounds = sorted(points)
    value, low, high, floor = (
        zip(*(points[t] for t in rounds), strict=True) if rounds else ((), (), (), ())
    )
    known = tuple(f for f in floor if f is not None)
    return Curve(
        setting_key(found.config.columns),
        name,
        "",
        tuple(rounds),
        value,
        low,
        high,
        known if len(known) == len(rounds) else (),
    )


def in_words(row: Row, rivals: Sequence[dict[str, Any]]) -> str:
    """An attack's name with the parameters in which its rivals of that name differ: "prototype
    averaging, window 20".
    """
    mine = params(row["attack_params"])
    told = [f"{k} {v}" for k, v in mine.items() if any(r.get(k) != v for r in rivals)]
    return ", ".join([str(row["attack"]).replace("_", " "), *told])
