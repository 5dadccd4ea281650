"""Who was trained on: each method's messages of all rounds, and its final model, by every attack.

python benchmarks/membership.py RUNS [FILE] [--task digits|uci-har|cifar10] [--seeds 3]
    [--rounds N] [--shadows 8] [--only METHOD,METHOD]

Each method as its task trains it, some of each client's own examples held out, and every message
kept. Runs and attacks lie in RUNS and are made where they are not there yet. With a file the tables
are also written there, with command and commit.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leakbench import Run, api
from leakbench.base import UsageError, provenance
from leakbench.record.policy import Policy
from leakbench.statistics import intervals

METRICS = {
    "membership_auc": ("Members told from others", "AUC; without any message one half"),
    "membership_tpr": ("Members found", "their share, with one false alarm in a hundred"),
}
# Columns. LiRA and RMIA of the model that all received, and of each client's own.
ATTACKS: dict[str, tuple[str, dict[str, Any]]] = {
    **{s: ("membership", {"signal": s}) for s in ("cosine", "loss", "span", "likelihood")},
    **{t: ("shadow_membership", {"test": t}) for t in ("lira", "rmia")},
    "own rmia": ("shadow_membership", {"test": "rmia", "model": "client"}),
    **{s: ("shared_membership", {"signal": s}) for s in ("nearest", "tracing")},
}
COLUMNS = ("blind", *ATTACKS)
PROTOTYPES = ("fedgn", "fedcs", "fedaws", "fedhide", "feduv")  # whose clients have a class each
OF_FLEA = (
    *("fedavg", "flea", "fedmix", "feddata", "fedbr", "ccvr", "fedgen", "fedprox", "feddecorr"),
    *("fedlc", "fedntd"),
)
OTHERS = ("fedmetric", "fedaa", "fedbn", "moon")


@dataclass(frozen=True)
class Split:
    """How a task's data are dealt, and who trains on them."""

    name: str
    methods: tuple[str, ...]
    params: Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """A task, as it is asked here."""

    rounds: int
    splits: tuple[Split, ...]
    about: str


ONE = Split("one class", (*PROTOTYPES, *OF_FLEA, *OTHERS), {"split": "class", "held_out": 20})
ALL = Split("all classes", (*OF_FLEA, *OTHERS), {"split": "iid", "held_out": 20})
ACTIVITIES = {"split": "qua", "clients": 20, "mean_local_size": 60, "held_out": 15, "width": 16}
SMALL = {"split": "iid", "model": "lenet", "clients": 10, "mean_local_size": 100, "held_out": 50}
CASES = {
    "digits": Case(30, (ONE, ALL), "`digits` with LeNet, ten clients"),
    "uci-har": Case(
        30,
        (Split("two activities", (*OF_FLEA, *OTHERS), ACTIVITIES),),
        "`uci-har`, 20 clients with two activities and about 60 windows each, HARNet of width 16",
    ),
    "cifar10": Case(
        30,
        (Split("all classes", ("fedavg", "flea", "fedaa"), SMALL),),
        "`cifar10`, ten clients with 100 photographs of all classes each, LeNet",
    ),
}


@dataclass
class Line:
    """What came of one method: of each metric and column a number for each seed."""

    method: str
    split: str
    told: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)  # column -> why it does not fit
    utility: list[float] = field(default_factory=list)

    def add(self, run: Run, shadows: int) -> None:
        """Every attack on one run."""
        with (run.path / "utility.csv").open(encoding="utf-8", newline="") as lines:
            self.utility.append(float(list(csv.DictReader(lines))[-1]["value"]))
        for column, (attack, params) in ATTACKS.items():
            how = dict(params)
            if attack == "shadow_membership":
                how["shadows"] = shadows
            try:
                rows = api.attack(run, attack, **how).rows
            except UsageError as why:
                self.refused[column] = str(why)
                continue
            for one in rows:
                cells = self.told.setdefault(one["metric"], {})
                cells.setdefault(column, []).append(one["value"])
                cells.setdefault("blind", []).append(one["floor"])

    def cells(self, metric: str) -> list[str]:
        """Of a table."""
        told = self.told.get(metric, {})
        found = [number(told.get(c, [])) for c in COLUMNS]
        return [self.method, self.split, number(self.utility), *found]


def number(values: Sequence[float]) -> str:
    """The mean, and its interval over seeds."""
    if not values:
        return "-"
    if len(values) < 2:
        return f"{values[0]:.2f}"
    names = [str(i) for i in range(len(values))]
    found = intervals.estimate(values, names, share=False, unit="seed", low=0, high=1)
    return f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}]"


def table(lines: Sequence[Line], metric: str) -> str:
    """In Markdown."""
    head = ["method", "clients hold", "utility", *COLUMNS]
    rows = [head, ["---"] * len(head), *(one.cells(metric) for one in lines)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def refusals(lines: Sequence[Line]) -> str:
    """Each reason once, with who it is of."""
    whose: dict[str, list[str]] = {}
    for one in lines:
        for column, why in one.refused.items():
            whose.setdefault(why, []).append(f"{one.method} ({column})")
    return "\n".join(f"* {', '.join(sorted({*names}))}: {why}" for why, names in whose.items())


def main(argv: Sequence[str] | None = None) -> None:
    """Make what is not there, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path)
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--task", choices=CASES, default="digits")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--shadows", type=int, default=8)
    parser.add_argument("--only", default="")
    given: Any = parser.parse_args(argv)
    case, only = CASES[given.task], [m for m in given.only.split(",") if m]
    rounds = given.rounds or case.rounds
    lines = [Line(m, s.name) for s in case.splits for m in s.methods if not only or m in only]
    dealt = {s.name: dict(s.params) for s in case.splits}
    for seed in range(given.seeds):
        for one in lines:
            run = api.train(
                one.method,
                task=given.task,
                task_params=dealt[one.split],
                rounds=rounds,
                seed=seed,
                out=given.runs,
                device="cpu",
                record=Policy(name="all", probes=0),  # type: ignore[arg-type]
            )
            one.add(run, given.shadows)
            print(seed, *one.cells("membership_auc"), flush=True)
        if given.file:
            given.file.write_text(page(given, case, rounds, lines, seed + 1), encoding="utf-8")


def page(given: Any, case: Case, rounds: int, lines: Sequence[Line], seeds: int) -> str:
    """Markdown: what was made, by what, and the tables."""
    more = f" --task {given.task} --seeds {seeds} --rounds {rounds} --shadows {given.shadows}"
    more += f" --only {given.only}" if given.only else ""
    command = f"python benchmarks/membership.py RUNS {given.file}{more}"
    parts = [
        f"# Who was trained on: {given.task}",
        f"`{command}`, commit {provenance.source()[0]}.",
        f"{case.about}; {rounds} rounds, all of them recorded. Members of each client are ranked"
        " among as many of its own examples that were held out of its training. Means over"
        f" {seeds} seeds, with 95 % intervals over them. `lira` and `rmia` read the final model"
        f" that all received, `own rmia` each client's own, beside {given.shadows} shadows;"
        " `nearest` and `tracing` read what clients share of examples. - : does not fit.",
    ]
    for metric, (title, unit) in METRICS.items():
        parts += [f"## {title}", f"{unit[0].upper()}{unit[1:]}.", table(lines, metric)]
    if refused := refusals(lines):
        parts += ["## What does not fit", refused]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    main()
