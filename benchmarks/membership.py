"""Who was trained on: each method's messages of all rounds, and its final model, by every attack.

python benchmarks/membership.py RUNS [results/membership] [--task digits|uci-har|cifar10]
    [--seeds 3] [--rounds 20] [--shadows 4] [--only METHOD,METHOD]

Each method as its task trains it, some of each client's own examples held out, and every message
kept. Runs and attacks lie in RUNS and are made where they are not there yet. The tables go into the
folder that is given, after each seed, with command and commit.
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
from leakbench.statistics.intervals import Estimate

METRICS = {
    "membership_auc": ("Members told from others", "AUC; without any message one half"),
    "membership_tpr": ("Members found", "their share, with one false alarm in a hundred"),
}
# Columns. LiRA and RMIA of the model that all received, and of each client's own.
ATTACKS: dict[str, tuple[str, dict[str, Any]]] = {
    **{s: ("membership", {"signal": s}) for s in ("cosine", "loss", "span", "likelihood")},
    **{t: ("shadow_membership", {"test": t, "model": "global"}) for t in ("lira", "rmia")},
    "own rmia": ("shadow_membership", {"test": "rmia", "model": "client"}),
    **{s: ("shared_membership", {"signal": s}) for s in ("nearest", "tracing")},
}
EVERY = "every method"
CELLS = (
    *("method", "clients_hold", "seeds", "attack", "metric", "value", "low", "high", "n"),
    *("floor", "failed", "tried"),  # units whose score is the blind guess's, of all
)
# Whose clients have a class each.
PROTOTYPES = ("fedgn", "fedcs", "fedaws", "fedhide", "feduv", "fedmetric")
OF_FLEA = (
    *("fedavg", "flea", "fedmix", "feddata", "fedbr", "ccvr", "fedgen", "fedprox", "feddecorr"),
    *("fedlc", "fedntd"),
)
OTHERS = ("fedaa", "fedbn", "moon")


@dataclass(frozen=True)
class Split:
    """How a task's data are dealt, and who trains on them."""

    name: str
    methods: tuple[str, ...]
    params: Mapping[str, Any]
    asked: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # of a method, of EVERY

    def of(self, method: str) -> dict[str, Any]:
        """The method's parameters."""
        return {**self.asked.get(EVERY, {}), **self.asked.get(method, {})}


@dataclass(frozen=True)
class Case:
    """A task, as it is asked here."""

    splits: tuple[Split, ...]
    about: str


# Half of the clients in a round, whatever the method's own; FedGen's first rounds are FedAvg's.
HALF: Any = {EVERY: {"fraction": 0.5}, "fedgen": {"begin": 3}}
AVERAGES = ("fedavg", "flea", "fedaa")
ONE = Split("one class", (*PROTOTYPES, *AVERAGES), {"split": "class", "held_out": 20})
ALL = Split("all classes", (*OF_FLEA, *OTHERS), {"split": "iid", "held_out": 20}, HALF)
ACTIVITIES = {"split": "qua", "clients": 10, "mean_local_size": 60, "held_out": 15, "width": 16}
ACTIVITY = {**ACTIVITIES, "split": "class", "clients": 6, "held_out": 30}
SMALL = {"split": "iid", "model": "lenet", "clients": 10, "mean_local_size": 100, "held_out": 50}
CASES = {
    "digits": Case((ONE, ALL), "`digits` with LeNet, ten clients"),
    "uci-har": Case(
        (
            Split("one activity", PROTOTYPES, ACTIVITY, {"fedhide": {"k": 4}}),
            Split("two activities", (*OF_FLEA, *OTHERS), ACTIVITIES, HALF),
        ),
        "`uci-har`, HARNet of width 16, about 60 windows a client: ten clients with two activities,"
        " or six with one",
    ),
    "cifar10": Case(
        (Split("all classes", AVERAGES, SMALL, HALF),),
        "`cifar10`, ten clients with 100 photographs of all classes each, LeNet",
    ),
}


@dataclass
class Line:
    """What came of one method."""

    method: str
    split: str
    shadows: int
    runs: list[Run] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)  # column -> why it does not fit

    def add(self, run: Run) -> None:
        """Every attack on one run."""
        self.runs.append(run)
        for column in ATTACKS:
            attack, params = self.asked(column)
            try:
                api.attack(run, attack, **params)
            except UsageError as why:
                self.refused[column] = str(why).partition(f"{run.id}: ")[2] or str(why)

    def asked(self, column: str) -> tuple[str, dict[str, Any]]:
        """The attack of a column, with its parameters."""
        attack, params = ATTACKS[column]
        many = {"shadows": self.shadows} if attack == "shadow_membership" else {}
        return attack, {**params, **many}

    def found(self) -> list[dict[str, Any]]:
        """Every number over all seeds, as a report has it: the interval knows of clients, too."""
        (setting,) = api.tables(self.runs).settings
        about = {"method": self.method, "clients_hold": self.split, "seeds": len(self.runs)}
        end = next(u for u in setting.utility if u.statistic == "final")
        out = [{**about, "attack": "", "metric": end.meaning.name, **spread(end.value)}]
        for n in setting.numbers:
            for column in ATTACKS:
                attack, params = self.asked(column)
                if n.attacker.name == attack and params.items() <= n.attacker.params.items():
                    told = {"metric": n.meaning.name, **spread(n.value), "floor": n.floor.value}
                    asked_of = {"failed": n.failed, "tried": n.tried}
                    out.append({**about, "attack": column, **told, **asked_of})
        return out


def spread(of: Estimate) -> dict[str, Any]:
    """A number with its interval."""
    return {"value": of.value, "low": of.low, "high": of.high, "n": of.n}


def table(rows: Sequence[Mapping[str, Any]], metric: str) -> str:
    """In Markdown, a line for each method."""
    told = {(r["method"], r["clients_hold"], r["attack"]): r for r in rows if r["metric"] == metric}
    ends = {(r["method"], r["clients_hold"]): r for r in rows if not r["attack"]}
    lines = [["method", "clients hold", "utility", "blind", *ATTACKS]]
    lines.append(["---"] * len(lines[0]))
    for (method, split), end in ends.items():
        found = [told.get((method, split, column)) for column in ATTACKS]
        floor = next((f"{float(r['floor']):.2f}" for r in found if r), "-")
        cells = [cell(r) if r else "-" for r in found]
        lines.append([method, split, f"{float(end['value']):.2f}", floor, *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell(row: Mapping[str, Any]) -> str:
    """A number and its interval; or that the attack found nothing to go by, of any client."""
    if row["failed"] == row["tried"]:
        return "fails"
    value, low, high = (float(row[k]) for k in ("value", "low", "high"))
    return f"{value:.2f} [{low:.2f}, {high:.2f}]"


def refusals(lines: Sequence[Line]) -> str:
    """Each reason once, with who it is of."""
    whose: dict[str, list[str]] = {}
    for one in lines:
        for column, why in one.refused.items():
            whose.setdefault(why, []).append(f"{one.method} ({column})")
    return "\n".join(f"* {', '.join(sorted({*names}))}: {why}" for why, names in whose.items())


def main(argv: Sequence[str] | None = None) -> None:
    """Make what is not there, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path)
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--task", choices=CASES, default="digits")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--shadows", type=int, default=4)
    parser.add_argument("--only", default="")
    given: Any = parser.parse_args(argv)
    case, only = CASES[given.task], [m for m in given.only.split(",") if m]
    lines = [Line(m, s.name, given.shadows) for s in case.splits for m in s.methods]
    lines = [one for one in lines if not only or one.method in only]
    splits = {s.name: s for s in case.splits}
    for seed in range(given.seeds):
        for one in lines:
            run = api.train(
                one.method,
                task=given.task,
                task_params=dict(splits[one.split].params),
                params=splits[one.split].of(one.method),
                rounds=given.rounds,
                seed=seed,
                out=given.runs,
                device="cpu",
                record=Policy(name="all", probes=0),  # type: ignore[arg-type]
            )
            one.add(run)
            print(table(one.found(), "membership_auc").splitlines()[-1], flush=True)
        if given.out:
            write(given, case, lines, seed + 1)


def write(given: Any, case: Case, lines: Sequence[Line], seeds: int) -> None:
    """Every number in a CSV file, and a page of tables."""
    rows = [row for one in lines for row in one.found()]
    given.out.mkdir(parents=True, exist_ok=True)
    with (given.out / f"{given.task}.csv").open("w", encoding="utf-8", newline="") as file:
        sheet = csv.DictWriter(file, CELLS, restval="", lineterminator="\n")
        sheet.writeheader()
        sheet.writerows(rows)
    more = f" --task {given.task} --seeds {seeds} --rounds {given.rounds}"
    more += f" --shadows {given.shadows}" + (f" --only {given.only}" if given.only else "")
    parts = [
        f"# Who was trained on: {given.task}",
        f"`python benchmarks/membership.py RUNS {given.out}{more}`, commit"
        f" {provenance.source()[0]}.",
        f"{case.about}; {given.rounds} rounds, all of them recorded. Members of each client are"
        " ranked among as many of its own examples that were held out of its training. Seeds:"
        f" {seeds}, with 95 % intervals, which know of clients, too. `lira` and `rmia` read"
        f" the final model that all received, `own rmia` each client's own, beside {given.shadows}"
        " shadows; `nearest` and `tracing` read what clients share of examples. - : does not fit;"
        " fails: had nothing to go by, of any client.",
    ]
    for metric, (title, unit) in METRICS.items():
        parts += [f"## {title}", f"{unit[0].upper()}{unit[1:]}.", table(rows, metric)]
    if refused := refusals(lines):
        parts += ["## What does not fit", refused]
    text = "\n\n".join(parts) + "\n"
    (given.out / f"{given.task}.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
