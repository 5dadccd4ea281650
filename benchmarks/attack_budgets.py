"""Each attack's success against its budget: is it exhausted, or would more of it find more?

python benchmarks/attack_budgets.py RUNS [file.md]      of all complete runs below RUNS: a row for
each attack and setting, a column for each budget, the mean over the runs' seeds with its 95 %
interval; with a file it is also written there, with command and commit
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import variance
from typing import Any, NamedTuple

from leakbench import Guess, Metric, View
from leakbench.attacking import Outline
from leakbench.base import provenance, registry
from leakbench.record.folders import Run, load
from leakbench.record.recording import Recording
from leakbench.scoring.truth import Truth
from leakbench.statistics.intervals import t_quantile


class Budget(NamedTuple):
    """What one attack can be given more of."""

    attack: str
    field: str  # its parameter
    amounts: tuple[int, ...]
    metrics: tuple[str, ...]
    params: dict[str, Any] = {}  # besides


MESSAGES = (1, 2, 5, 10, 20, 50, 100, 200)
# A row more is all that another attack needs; one that is not installed is passed over.
BUDGETS = (
    Budget("prototype_averaging", "window", MESSAGES, ("p_leak", "centre_error")),
    Budget("prototype_averaging", "window", (0,), ("p_leak", "centre_error")),
    Budget("prototype_centring", "window", MESSAGES, ("p_leak",)),
    Budget("prototype_centring", "window", (0,), ("p_leak",)),
    Budget("prototype_spheres", "window", MESSAGES, ("p_leak", "centre_error")),
    Budget("prototype_unmixing", "window", (1, 2, 5, 10), ("p_leak",)),
)
MEANING = (
    "What one attack makes of more messages of each client (`window`); 0 is the attack's own choice"
    " of how far back it reaches.",
    "",
    "p_leak: share of clients named; centre_error: distance to the true centre in radii of the"
    " true sphere. Mean over seeds ± half of the 95 % interval; one seed has none.",
)


def setting(run: Run) -> str:
    """A run's name without its seed: task, method and principal parameters."""
    told = run.spec["defense"]
    principal = registry.load("defenses", told["name"]).principal
    params = ", ".join(f"{k} = {told['params'][k]}" for k in principal)
    return f"{run.spec['task']['name']}, {told['name']}({params})"


def table(runs: list[Run]) -> Iterator[str]:
    """A line for each setting, attack and metric; where an attack does not fit there is none."""
    by: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        by[setting(run)].append(run)
    known = set(registry.names("attacks"))
    for name, group in sorted(by.items()):
        for budget in (b for b in BUDGETS if b.attack in known):
            found = measured(group, budget)
            for metric, amounts in found.items():
                cells = "; ".join(f"{a}: {cell(values)}" for a, values in amounts.items())
                what = f"{name} | {len(group)} | {budget.attack}, {budget.field} | {metric}"
                yield f"| {what} | {cells} |"


def measured(group: list[Run], budget: Budget) -> dict[str, dict[int, list[float]]]:
    """{metric: {amount: a number for each run}}."""
    found: dict[str, dict[int, list[float]]] = {}
    kind = registry.load("attacks", budget.attack)
    for run in group:
        source, truth = Recording(run), Truth(run)
        for amount in budget.amounts:
            attack = kind.build({**budget.params, budget.field: amount}, budget.attack)
            if attack.obstacle(Outline(source, attack.threat)):
                return {}
            guesses = attack(View(attack.threat, source, source.rounds))
            for metric in kind.metrics:
                value = scored(metric, guesses, truth) if metric.name in budget.metrics else None
                if value is not None:
                    amounts = found.setdefault(metric.name, {})
                    amounts.setdefault(amount, []).append(value)
    return found


def scored(metric: Metric, guesses: list[Guess], truth: Truth) -> float | None:
    """The mean over units; None where the metric does not apply."""
    fit = [g for g in guesses if set(metric.needs) <= set(g.tensors)]
    values = [s.value for g in fit for s in metric.score(g, truth.answer(g))]
    return sum(values) / len(values) if values else None


def cell(values: list[float]) -> str:
    """The mean over seeds with its 95 % interval (Student's)."""
    mean = sum(values) / len(values)
    if len(values) == 1:
        return f"{mean:.2f}"
    half = t_quantile(0.975, len(values) - 1) * (variance(values) / len(values)) ** 0.5
    return f"{mean:.2f} ± {half:.2f}"


def main(folder: Path, out: Path | None) -> None:
    runs = [load(p.parent) for p in sorted(folder.glob("*/run.json"))]
    heads = [
        "| setting | seeds | attack, budget | metric | at each budget |",
        "|---|---|---|---|---|",
    ]
    lines = [*heads]
    print("\n".join(heads))
    for line in table(runs):
        print(line, flush=True)
        lines.append(line)
    if out:
        commit, dirty = provenance.source()
        changed = " with changes" if dirty else ""
        made = f"`python benchmarks/attack_budgets.py RUNS {out}`, commit {commit}{changed}."
        text = ["# What attacks make of more messages", "", made, "", *MEANING, "", *lines, ""]
        out.write_text("\n".join(text), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
