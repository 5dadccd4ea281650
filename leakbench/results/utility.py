"""utility.csv: what each configuration gained, over its test units, attacked or not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from leakbench.base.errors import BrokenFile
from leakbench.federation.utility import METRICS
from leakbench.record.columns import RUN_DIAGNOSTICS, RUN_UTILITY, Row
from leakbench.record.folders import Run
from leakbench.results.configurations import Configuration
from leakbench.scoring import flags
from leakbench.statistics.intervals import Estimate, estimate

STATISTICS = ("final", "best", "last10")
LAST = 10

Scores = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Evaluation:
    """One line of a run's utility.csv. ``scores``: (test units,), None where the metric is not
    their mean (EER).
    """

    round: int
    value: float
    low: float
    high: float
    n: int
    scores: Scores | None


@dataclass(frozen=True)
class Utility:
    """A run's utility. ``dead``: why the run is dead, or ""."""

    run: Run
    evaluations: tuple[Evaluation, ...]
    dead: str


def of_run(run: Run) -> Utility:
    """Read and judge a complete run.

    Raises:
        BrokenFile: a file is missing, changed or damaged, or there is no evaluation.
    """
    about = run.meta["utility"]
    lines = sorted(
        (r for r in run.table("utility.csv", RUN_UTILITY) if r["metric"] == about["metric"]),
        key=lambda r: r["round"],
    )
    if not lines:
        raise BrokenFile(
            f"{run.path / 'utility.csv'} is damaged (no line of {about['metric']}). Train the run"
            " again."
        )
    tree, _ = run.tree("utility.safetensors")
    evaluations = []
    for line in lines:
        scores = tree.get(f"{line['round']:06d}") if isinstance(tree, dict) else None
        if scores is None:
            raise BrokenFile(
                f"{run.path / 'utility.safetensors'} is damaged (no round {line['round']}). Train"
                " the run again."
            )
        array = np.asarray(scores.double().numpy()).reshape(-1)
        is_mean = len(array) > 0 and abs(float(array.mean()) - line["value"]) <= 1e-6
        evaluations.append(
            Evaluation(
                line["round"],
                line["value"],
                line["low"],
                line["high"],
                line["n"],
                array if is_mean else None,
            )
        )
    diagnostics = run.table("diagnostics.csv", RUN_DIAGNOSTICS)
    return Utility(
        run,
        tuple(evaluations),
        flags.dead(lines[-1], about, diagnostics, run.meta.get("distance", "")),
    )


def rows(
    config: Configuration, utilities: Sequence[Utility]
) -> tuple[list[Row], list[tuple[str, str]]]:
    """Lines of utility.csv without the claim, and what is missing as (metric, reason)."""
    about = config.one.meta["utility"]
    shared = config.columns | {
        "seeds": "|".join(str(u.run.seed) for u in utilities),
        "rounds": config.one.spec["rounds"],
        "metric": about["metric"],
        "chance": about["chance"],
    }
    out, missing = [], []
    for statistic in STATISTICS:
        chosen = [_chosen(u, statistic, about["better"]) for u in utilities]
        if any(len(c) < LAST for c in chosen) and statistic == "last10":
            few = min(len(u.evaluations) for u in utilities)
            missing.append(
                (
                    about["metric"],
                    f"no last10: only {few} evaluations, it is the mean of the last {LAST}",
                )
            )
            continue
        found = over_seeds(
            {u.run.seed: _mean(c) for u, c in zip(utilities, chosen, strict=True)}, about["metric"]
        )
        marks = (
            flags.of_seeds(len(utilities))
            | of_runs(utilities)
            | ({"few_units"} if found.n < flags.FEW_UNITS else set())
        )
        numbers = {"value": found.value, "low": found.low, "high": found.high, "n": found.n}
        out.append(shared | {"statistic": statistic, **numbers, "flags": flags.join(marks)})
    return out, missing


def of_runs(utilities: Sequence[Utility]) -> set[str]:
    """Flags that the runs themselves give to every row made from them."""
    engines = {
        str((u.run.meta["engine"], sorted(dict(u.run.meta.get("phases", {})).items())))
        for u in utilities
    }
    said = {"dead_run": any(u.dead for u in utilities), "other_engine": len(engines) > 1}
    said["stand_in_data"] = any(u.run.meta.get("stand_in") for u in utilities)
    return {flag for flag, holds in said.items() if holds}


def _chosen(utility: Utility, statistic: str, better: str) -> Sequence[Evaluation]:
    evaluations = utility.evaluations
    if statistic == "last10":
        return evaluations[-LAST:]
    if statistic == "final":
        return evaluations[-1:]
    # Of equally good ones the first: max and min keep it.
    return [(max if better == "up" else min)(evaluations, key=lambda e: e.value)]


def _mean(evaluations: Sequence[Evaluation]) -> Evaluation:
    """Of one run's evaluations: they share their test units, so their intervals are averaged, not
    narrowed.
    """
    if len(evaluations) == 1:
        return evaluations[0]

    def mean(name: str) -> float:
        return math.fsum(getattr(e, name) for e in evaluations) / len(evaluations)

    arrays = [e.scores for e in evaluations if e.scores is not None]
    scores = (
        np.mean(arrays, axis=0)
        if len(arrays) == len(evaluations) and len({len(a) for a in arrays}) == 1
        else None
    )
    return replace(
        evaluations[-1], value=mean("value"), low=mean("low"), high=mean("high"), scores=scores
    )


def over_seeds(seeds: dict[int, Evaluation], metric: str) -> Estimate:
    """Test units are the same in every seed: n counts them once. Where scores of units are lacking
    or the metric is not one of ours: from the lowest low to the highest high of the runs' own
    intervals and Student over the seeds' values.
    """
    arrays = {s: e.scores.tolist() for s, e in seeds.items() if e.scores is not None}
    if (
        metric in METRICS
        and len(arrays) == len(seeds)
        and len({len(a) for a in arrays.values()}) == 1
    ):
        return METRICS[metric].pooled(arrays, "test unit")
    each = list(seeds.values())
    value = math.fsum(e.value for e in each) / len(each)
    low, high = min(e.low for e in each), max(e.high for e in each)
    if len(each) > 2:
        over = estimate(
            [e.value for e in each],
            [str(s) for s in seeds],
            share=False,
            low=0.0,
            high=1.0,
            unit="seed",
        )
        low, high = min(low, over.low), max(high, over.high)
    return Estimate(value, low, high, each[0].n, "test unit", "student")
