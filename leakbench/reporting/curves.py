"""Curves over the rounds: utility, leakage and diagnostics.

Leakage is by the paper's own and by the best real attack; diagnostics are what the run says of its
prototypes.

Every point is the mean over the seeds with its 95 % interval, made as the tables make theirs; the
points that the tables have are the tables'.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from leakbench.record.columns import RUN_DIAGNOSTICS
from leakbench.reporting.data import Curve
from leakbench.results.dead import DIAGNOSTIC
from leakbench.results.number import END, Attacker, Measured, Number
from leakbench.results.settings import Setting
from leakbench.results.units import pooled_estimates
from leakbench.results.utility import over_seeds
from leakbench.statistics import intervals
from leakbench.statistics.intervals import Estimate, NoInterval

COSINE = DIAGNOSTIC["cosine"]
Point = tuple[Estimate, float | None]  # the number, and its blind guess


def curves_of(setting: Setting) -> list[Curve]:
    """Every curve of one setting; those of attacks in the metrics that judge a topic."""
    if not setting.final:
        return []
    return [*_utility(setting), *_diagnostics(setting), *_leakage(setting)]


def _utility(setting: Setting) -> Iterator[Curve]:
    """The utility over the rounds; the last point is the table's.

    Before it, over several seeds: from the lowest low to the highest high of the runs' own
    intervals and Student over the seeds, which needs no test unit's score (a table's interval over
    units is narrower).
    """
    final = setting.final
    assert final  # noqa: S101 (asked for before)
    by_round = {}
    for e in setting.evaluated:
        by_round[e.run.seed] = {v.round: v for v in e.evaluations}
    points: dict[int, Point] = {}
    common = set.intersection(*map(set, by_round.values()))
    for t in sorted(common):
        seeds = {s: replace(rounds[t], scores=None) for s, rounds in by_round.items()}
        one = next(iter(seeds.values())).estimate
        points[t] = (over_seeds(seeds, final.meaning.name) if len(seeds) > 1 else one), None
    last = {max(rounds) for rounds in by_round.values()}
    if len(last) == 1:
        points[last.pop()] = final.value, None
    yield _curve(final.meaning.name, points)


def _diagnostics(setting: Setting) -> Iterator[Curve]:
    """The mean over the seeds, with Student's interval where there are several, else none."""
    lines: dict[str, dict[int, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for e in setting.evaluated:
        for d in e.run.table("diagnostics.csv", RUN_DIAGNOSTICS):
            if d["name"] in DIAGNOSTIC.values():
                lines[d["name"]][d["round"]][e.run.seed] = d["value"]
    for name, rounds in lines.items():
        ends = (-1.0, 1.0) if name == COSINE else (0.0, float("inf"))
        whole = {t: s for t, s in rounds.items() if len(s) == len(setting.evaluated)}
        points: dict[int, Point] = {}
        for t, seeds in whole.items():
            points[t] = _of_seeds(list(seeds.values()), ends), None
        yield _curve(name, points)


def _of_seeds(values: Sequence[float], ends: tuple[float, float]) -> Estimate:
    if len(values) == 1:
        return intervals.exact(values[0], 1, "seed")
    low, high = ends
    inside = [min(max(v, low), high) for v in values]  # a cosine of 1 may be off by rounding
    names = [str(i) for i in range(len(values))]
    return intervals.estimate(inside, names, share=False, low=low, high=high, unit="seed")


def _leakage(setting: Setting) -> Iterator[Curve]:
    """Of the paper's own attack and the best real one, in the metric that judges each topic."""
    ends = [n for n in setting.numbers if n.stage in END and not n.attacker.made]
    for metric, probe in sorted(_judging(setting.numbers)):
        asked = [n for n in ends if (n.metric, n.probe) == (metric, probe)]
        for number in chosen_numbers(asked):
            by = attacker_in_words(number.attacker, [n.attacker for n in ends])
            found = _curve(metric, _points(setting, number))
            about = {"by": by, "rung": number.attacker.rung, "probe": probe}
            yield found.model_copy(update=about)


def _judging(numbers: Sequence[Number]) -> set[tuple[str, bool]]:
    """(metric, probe) of those metrics that judge a topic: the first of it that was measured."""
    first: dict[tuple[str, bool], tuple[int, str]] = {}
    for n in numbers:
        at, mine = (n.meaning.question.name, n.probe), (n.meaning.rank, n.metric)
        first[at] = min(first.get(at, mine), mine)
    return {(metric, probe) for (_, probe), (_, metric) in first.items()}


def chosen_numbers(numbers: Sequence[Number]) -> list[Number]:
    """Of one metric's numbers at the end: the paper's own attack, then the best real one.

    Real ones whose control failed do not count, unless they are beyond the blind guess.
    """
    paper = [n for n in numbers if n.attacker.paper]
    sound = [n for n in numbers if "control_failed" not in n.flags or n.beyond]
    real = [n for n in sound if not n.attacker.paper]
    return [max(found, key=lambda n: (n.low, n.leak)) for found in (paper, real) if found]


def _points(setting: Setting, end: Number) -> dict[int, Point]:
    """The attack's numbers in every round that all seeds have.

    Where the tables have one it is theirs; the rounds between are pooled in the same way.
    """
    points: dict[int, Point] = {}
    for n in setting.numbers:
        if _alike(n, end):
            points[n.round] = n.value, n.floor.value
    same = [m for m in setting.measured if _alike(m, end)]
    between: dict[int, list[Measured]] = defaultdict(list)
    for m in same:
        if m.stage == "curve":
            between[m.round].append(m)
    seeds = {m.run.seed for m in same}
    for t, group in between.items():
        if {m.run.seed for m in group} == seeds:
            try:
                found = pooled_estimates(group)
            except NoInterval:  # one unit of a metric without end: the tables leave it out, too
                continue
            points[t] = found["attack"], found["floor"].value
    return points


def _alike(number: Number | Measured, end: Number) -> bool:
    """The same metric by the same attack?"""
    mine = (number.attacker.key, number.meaning.name, number.probe)
    return mine == (end.attacker.key, end.metric, end.probe)


def _curve(name: str, points: Mapping[int, Point]) -> Curve:
    rounds = sorted(points)
    found = [points[t][0] for t in rounds]
    floor = [f for t in rounds if (f := points[t][1]) is not None]
    return Curve(
        name=name,
        rounds=tuple(rounds),
        value=tuple(e.value for e in found),
        low=tuple(e.low for e in found),
        high=tuple(e.high for e in found),
        floor=tuple(floor) if len(floor) == len(rounds) else (),
    )


def attacker_in_words(attacker: Attacker, every: Sequence[Attacker]) -> str:
    """An attack's name with the parameters in which others of that name differ.

    As in "prototype averaging, window 20".
    """
    rivals = [a.params for a in every if a.name == attacker.name]
    told = [attacker.name.replace("_", " ")]
    for k, v in attacker.params.items():
        if any(params.get(k) != v for params in rivals):
            told.append(f"{k} {v}")
    return ", ".join(told)
