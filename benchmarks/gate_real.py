"""The gate on real runs: how much seeds differ, and how often nothing is called something.

    python benchmarks/gate_real.py            # trains forty seeds of two methods on digits

Every pair of disjoint sets of K of the forty seeds is a build in which nothing changed and all was
drawn anew. Writes results/gate-real.md and .csv.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import math
import statistics
from collections import Counter
from pathlib import Path

import numpy as np

from leakbench import api
from leakbench.base.jobs import Job, Progress
from leakbench.base.jobs import run as run_jobs
from leakbench.gate.baseline import Baseline
from leakbench.gate.gate import check
from leakbench.gate.looking import only
from leakbench.gate.row import GateRow
from leakbench.gate.rows import gate_rows
from leakbench.record.folders import find

METHODS = {"fedgn": {"sigma": 0.5}, "fedhide": {"alpha": 0.1, "k": 3}}
ATTACKS = ("prototype_leakage", "prototype_averaging")
SEEDS, ROUNDS, SIZES = 40, 60, (3, 5, 8, 12, 20)
RESULTS = Path(__file__).parents[1] / "results"


def make(defense: str, seed: int, out: str, progress: Progress = lambda *_: None) -> str:
    """One run with its attacks; what is there already stays."""
    params = METHODS[defense]
    run = api.train(
        defense, task="digits", params=params, rounds=ROUNDS, seed=seed, out=out, progress=progress
    )
    for attack in ATTACKS:
        api.attack(run, attack)
    return str(run.path)


def between(row: GateRow) -> tuple[float, float]:
    """The sd of the seeds' values, and what of it is not the units': for shares on the logit scale.

    The second is a difference of variances, and 0 where that is negative.
    """
    values = [statistics.fmean(units.values()) for units in row.scores.values()]
    n = len(next(iter(row.scores.values())))
    if not row.share:
        within = [statistics.variance(list(units.values())) / n for units in row.scores.values()]
        left = statistics.variance(values) - statistics.fmean(within)
        return statistics.stdev(values), math.sqrt(max(left, 0.0))
    p = statistics.fmean(values)
    scale = max(p * (1 - p), 1e-9)
    left = statistics.variance(values) - scale / n
    return statistics.stdev(values), math.sqrt(max(left, 0.0)) / scale


def seeds_of(row: GateRow, seeds: list[int], side: str) -> GateRow:
    """A row of some seeds, with guesses that are nobody else's."""
    kept = only(row, seeds)
    values = [statistics.fmean(units.values()) for units in kept.scores.values()]
    own = {seed: [f"{side} {seed}"] for seed in seeds}
    entered = None if row.entered is None else {s: row.entered[s] for s in seeds}
    told = {"value": statistics.fmean(values), "guesses": own, "truths": own, "files": {}}
    return kept.model_copy(update={**told, "entered": entered, "sketches": {}})


def same(rows: list[GateRow], size: int, number: int) -> tuple[bool, Counter[tuple[str, str]]]:
    """One build in which nothing changed: a false alarm?, {(metric, state)}."""
    name = hashlib.sha256(f"{size}|{number}".encode()).digest()[:8]
    rng = np.random.default_rng(int.from_bytes(name, "big"))
    drawn = [int(s) for s in rng.permutation(SEEDS)[: 2 * size]]
    then = Baseline.of(seeds_of(r, drawn[:size], "then") for r in rows)
    result = check([seeds_of(r, drawn[size:], "now") for r in rows], then)
    states = Counter((r.then.metric, r.state) for r in result.rows if r.then and r.end == "")
    return result.exit_code == 1, states


def main() -> None:
    """Train, attack, split, and write both files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=400)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("-o", "--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    todo = []
    for defense in METHODS:
        for seed in range(SEEDS):
            todo.append(Job(f"{defense} {seed}", make, (defense, seed, str(args.runs))))
    failed = [o.error for o in run_jobs(todo, workers=args.jobs) if o.error]
    if failed:
        raise SystemExit(failed[0])
    rows = gate_rows(api.tables(find([args.runs])).settings)
    lines = ["| row | mean | sd of seeds | of it between seeds |", "|---|---|---|---|"]
    for row in [r for r in Baseline.of(rows).rows if r.gated]:
        sd, own = between(row)
        scale = "logit" if row.share else "own scale"
        lines.append(f"| {row.name} | {row.value:.3f} | {sd:.3f} | {own:.2f} ({scale}) |")
    table = [
        "| seeds a side | splits | false alarms | rows that moved: fine | cannot tell |",
        "|---|---|---|---|---|",
    ]
    found = []
    for size in SIZES:
        made = [same(rows, size, i) for i in range(args.splits)]
        alarms = sum(a for a, _ in made)
        states = sum((s for _, s in made), Counter())
        whole = sum(states.values())
        share = dict.fromkeys(STATES, 0.0)
        for (_, state), n in states.items():
            share[state] += n / whole
        table.append(
            f"| {size} | {args.splits} | {alarms / args.splits:.1%} | {share['fine']:.0%} |"
            f" {share['cannot tell']:.0%} |"
        )
        for (metric, state), n in sorted(states.items()):
            found.append(
                {"seeds": size, "metric": metric, "state": state, "rows": n, "alarms": alarms}
            )
    args.out.mkdir(parents=True, exist_ok=True)
    with (args.out / "gate-real.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(found[0]))
        writer.writeheader()
        writer.writerows(found)
    what = ", ".join(f"{name} {params}" for name, params in METHODS.items())
    head = (
        f"# The gate on real runs\n\n{what}; digits, {ROUNDS} rounds, {SEEDS} seeds each; made by"
        " `python benchmarks/gate_real.py`.\n\n## How much seeds differ\n\n"
    )
    text = "\n".join(lines) + "\n\n## Nothing changed, all drawn anew\n\n" + "\n".join(table)
    (args.out / "gate-real.md").write_text(head + text + "\n", encoding="utf-8")


STATES = ("fine", "cannot tell", "leaks more", "loses utility")

if __name__ == "__main__":
    main()
