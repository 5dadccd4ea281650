"""What each setting gained, over its test units, attacked or not."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from leakbench.base.errors import BrokenFile
from leakbench.base.meaning import Meaning
from leakbench.base.reason import Reason, reason
from leakbench.federation.utility import METRICS
from leakbench.record import origin
from leakbench.record.columns import RUN_UTILITY
from leakbench.record.folders import Run
from leakbench.results import recomputed, rise
from leakbench.results.dead import why_dead
from leakbench.results.number import UNIT, Evaluated, Evaluation, Utility
from leakbench.results.settings import Setting
from leakbench.scoring import flags
from leakbench.statistics.intervals import Estimate, estimate

STATISTICS = ("final", "best", "last10")
LAST = 10


def utility_of_run(run: Run) -> Evaluated:
    """Read and judge a complete run.

    Raises:
        BrokenFile: a file is missing, changed or damaged, or there is no evaluation.
    """
    meaning = meaning_of(run)
    table = run.table("utility.csv", RUN_UTILITY)
    lines = sorted((r for r in table if r["metric"] == meaning.name), key=lambda r: r["round"])
    if not lines:
        where = run.path / "utility.csv"
        raise BrokenFile(f"{where} is damaged (no line of {meaning.name}). Train the run again.")
    scored = run.arrays("utility.safetensors")
    recomputed.check_utility(run, lines, scored)
    evaluations = []
    for line in lines:
        t, value = line["round"], line["value"]
        scores = scored.get(f"{t:06d}")
        if scores is None:
            where = run.path / "utility.safetensors"
            raise BrokenFile(f"{where} is damaged (no round {t}). Train the run again.")
        array = scores.astype(np.float64).reshape(-1)
        is_mean = len(array) > 0 and abs(float(array.mean()) - value) <= 1e-6
        known = array if is_mean else None
        evaluations.append(Evaluation(t, value, line["low"], line["high"], line["n"], known))
    dead = why_dead(run, meaning, evaluations[-1].estimate)
    trained = [e for e in evaluations if e.round <= int(run.spec["rounds"])]
    risen = rise.rise_of_run(trained, meaning, run.meta["utility"])
    return Evaluated(run, meaning, tuple(evaluations), dead, risen)


def meaning_of(run: Run) -> Meaning:
    """What the run's utility means, as run.json has it, or as we have it where that is older.

    Raises:
        BrokenFile: run.json says something else than a meaning.
    """
    about = run.meta["utility"]
    name = str(about["metric"])
    if "meaning" not in about and name in METRICS:
        return METRICS[name].meaning
    plain = {"low": 0.0, "high": 1.0, "unit": UNIT, "share": False, "version": 1}
    known = about.get("meaning", {**plain, "leaks": about["better"]})
    try:
        return Meaning.recorded(name, known)
    except ValueError as error:
        where = run.path / "run.json"
        raise BrokenFile(f"{where} is damaged (utility: {error}). Train the run again.") from None


def rows(
    setting: Setting, evaluated: Sequence[Evaluated]
) -> tuple[list[Utility], list[tuple[str, Reason]]]:
    """The setting's utility by statistic, the final one first.

    And what is missing, as (metric, reason).
    """
    meaning, out, missing = evaluated[0].meaning, [], []
    for statistic in STATISTICS:
        chosen = [_chosen(e, statistic) for e in evaluated]
        if statistic == "last10" and any(_changed_after(e) for e in evaluated):
            missing.append((meaning.name, reason("changed_after")))
            continue
        if statistic == "last10" and any(len(c) < LAST for c in chosen):
            few = min(len(e.evaluations) for e in evaluated)
            missing.append((meaning.name, reason("few_evaluations", some=few, all=LAST)))
            continue
        means = {e.run.seed: rise.mean(c) for e, c in zip(evaluated, chosen, strict=True)}
        found = over_seeds(means, meaning.name)
        marks = flags.of_seeds(len(evaluated)) | of_runs(evaluated)
        marks |= {"few_units"} if found.n < flags.FEW_UNITS else set()
        utility = Utility(
            configuration=setting.configuration,
            meaning=meaning,
            statistic=statistic,
            seeds=tuple(e.run.seed for e in evaluated),
            rounds=int(setting.one.spec["rounds"]),
            value=found,
            each={seed: e.value for seed, e in means.items()},
            chance=float(setting.one.meta["utility"]["chance"]),
            flags=frozenset(marks),
        )
        out.append(utility)
    return out, missing


def of_runs(evaluated: Sequence[Evaluated]) -> set[str]:
    """Flags that the runs themselves give to every number made from them."""
    metas = [e.run.meta for e in evaluated]
    engines = {str((m["engine"], sorted(dict(m.get("phases", {})).items()))) for m in metas}
    said = {
        "other_engine": len(engines) > 1,
        "stand_in_data": any(m.get("stand_in") for m in metas),
        "mixed_code": origin.made_apart(metas),
    }
    found = {flag for flag, holds in said.items() if holds}
    return found.union(*(e.flags for e in evaluated), *(origin.flags(m) for m in metas))


def _changed_after(evaluated: Evaluated) -> bool:
    """Did the method change the model after the last round, as CCVR does?"""
    return evaluated.evaluations[-1].round > int(evaluated.run.spec["rounds"])


def _chosen(evaluated: Evaluated, statistic: str) -> Sequence[Evaluation]:
    evaluations = evaluated.evaluations
    if statistic == "last10":
        return evaluations[-LAST:]
    if statistic == "final":
        return evaluations[-1:]
    # Of equally good ones the first: max and min keep it.
    best = max if evaluated.meaning.direction == "up" else min
    return [best(evaluations, key=lambda e: e.value)]


def over_seeds(seeds: Mapping[int, Evaluation], metric: str) -> Estimate:
    """The mean over seeds; their test units are the same, so n counts them once.

    Where scores of units are lacking or the metric is not one of ours: from the lowest low to the
    highest high of the runs' own intervals and Student over the seeds' values.
    """
    arrays = {s: e.scores.tolist() for s, e in seeds.items() if e.scores is not None}
    whole = len(arrays) == len(seeds) and len({len(a) for a in arrays.values()}) == 1
    if metric in METRICS and whole:
        return METRICS[metric].pooled(arrays, UNIT)
    each = list(seeds.values())
    value = math.fsum(e.value for e in each) / len(each)
    low, high = min(e.low for e in each), max(e.high for e in each)
    if len(each) > 2:
        names, values = [str(s) for s in seeds], [e.value for e in each]
        over = estimate(values, names, share=False, low=0.0, high=1.0, unit="seed")
        low, high = min(low, over.low), max(high, over.high)
    return Estimate(value, low, high, each[0].n, UNIT, "student")
