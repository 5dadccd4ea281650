"""Who was trained on: each method's messages of all rounds, and its final model, by every attack.

python benchmarks/membership.py RUNS [results/membership] [--task digits|uci-har|cifar10]
    [--seeds 3] [--rounds 20] [--shadows 4] [--only METHOD,METHOD] [--part SEED]

Each method as its task trains it, some of each client's own examples held out, and every message
kept. Runs and attacks lie in RUNS and are made where they are not there yet. The tables go into the
folder that is given, after each seed, with command and commit; beside them the score of every unit,
TASK-SEED.csv in `units`: what stands there is not made again, so that another day or machine can go
on. `--part` makes one seed's scores alone.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leakbench import Run, api
from leakbench.base import UsageError
from leakbench.record.policy import Policy
from leakbench.results import Measured
from leakbench.statistics.intervals import Seed, pool

Scores = Mapping[str, str]  # a line of UNIT_CELLS

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
# Of one seed: the score of a unit; with no attack the run's utility; or why there is none.
UNIT_CELLS = (
    *("method", "clients_hold", "attack", "metric", "unit", "cluster", "score", "floor"),
    *("failed", "rounds", "shadows", "commit", "why"),
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


@dataclass(frozen=True)
class Line:
    """One method on one split."""

    method: str
    split: str
    shadows: int

    def scores(self, run: Run) -> Iterator[dict[str, Any]]:
        """Lines of ``UNIT_CELLS``: every attack on one run."""
        why = {}
        for column in ATTACKS:
            attack, params = self.asked(column)
            try:
                api.attack(run, attack, **params)
            except UsageError as error:
                why[column] = str(error).partition(f"{run.id}: ")[2] or str(error)
        (setting,) = api.tables([run]).settings
        about: dict[str, Any] = {"method": self.method, "clients_hold": self.split}
        about |= {
            "rounds": run.spec["rounds"],
            "shadows": self.shadows,
            "commit": run.meta["commit"],
        }
        end = next(u for u in setting.utility if u.statistic == "final")
        yield {**about, "metric": end.meaning.name, "score": end.value.value}
        for n in setting.numbers:
            for column in ATTACKS:
                attack, params = self.asked(column)
                if n.attacker.name == attack and params.items() <= n.attacker.params.items():
                    told = {**about, "attack": column, "metric": n.meaning.name}
                    yield from ({**told, **cells} for cells in units(n.parts[0]))
        yield from ({**about, "attack": column, "why": text} for column, text in why.items())

    def made(self, row: Scores, rounds: int) -> bool:
        """Is it of this very line?"""
        asked = {"method": self.method, "clients_hold": self.split}
        asked |= {"rounds": str(rounds), "shadows": str(self.shadows)}
        return asked.items() <= row.items()

    def asked(self, column: str) -> tuple[str, dict[str, Any]]:
        """The attack of a column, with its parameters."""
        attack, params = ATTACKS[column]
        many = {"shadows": self.shadows} if attack == "shadow_membership" else {}
        return attack, {**params, **many}


def units(measured: Measured) -> Iterator[dict[str, Any]]:
    """The score of each unit of one run, beside the blind guess's."""
    blind = measured.by_name["floor"]
    for u in measured.units["attack"]:
        told = {"unit": u.name, "cluster": u.cluster, "score": u.score, "failed": int(u.failed)}
        yield {**told, "floor": blind[u.name].score}


def found(seeds: Mapping[int, Sequence[Scores]]) -> list[dict[str, Any]]:
    """Every number over all seeds, as a report has it: the interval knows of clients, too.

    That of the utility knows of seeds alone, and of one seed nothing.
    """
    cases: dict[tuple[str, ...], dict[int, list[Scores]]] = {}
    for seed, scores in seeds.items():
        for r in scores:
            if not r["why"]:
                place = r["method"], r["clients_hold"], r["attack"], r["metric"]
                cases.setdefault(place, {}).setdefault(seed, []).append(r)
    out = []
    for (method, split, attack, metric), parts in cases.items():
        about = {"method": method, "clients_hold": split, "seeds": len(parts), "attack": attack}
        about["metric"] = metric
        rows = [r for own in parts.values() for r in own]
        if not attack:
            told = {
                seed: ([float(own["score"])], ["run"], ["run"]) for seed, (own,) in parts.items()
            }
            out.append({**about, **spread(told, "run")})
            continue
        told = {seed: (column(own, "score"), *names(own)) for seed, own in parts.items()}
        blind = column(rows, "floor")
        asked_of = {"failed": sum(int(r["failed"]) for r in rows), "tried": len(rows)}
        floor = {"floor": math.fsum(blind) / len(blind)}
        out.append({**about, **spread(told, "client"), **floor, **asked_of})
    return out


def column(rows: Sequence[Scores], name: str) -> list[float]:
    """One cell of each."""
    return [float(r[name]) for r in rows]


def names(rows: Sequence[Scores]) -> tuple[list[str], list[str]]:
    """Units and their clusters."""
    return [r["unit"] for r in rows], [r["cluster"] for r in rows]


def spread(seeds: Mapping[int, Seed], unit: str) -> dict[str, Any]:
    """A mean over seeds with its interval."""
    of = pool(seeds, share=False, low=0.0, high=1.0, unit=unit)
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


def refusals(rows: Sequence[Scores]) -> str:
    """Each reason once, with who it is of."""
    whose: dict[str, set[str]] = {}
    for r in rows:
        if r["why"]:
            whose.setdefault(r["why"], set()).add(f"{r['method']} ({r['attack']})")
    return "\n".join(f"* {', '.join(sorted(names))}: {why}" for why, names in whose.items())


def main(argv: Sequence[str] | None = None) -> None:
    """Make what is not there, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path)
    parser.add_argument("out", type=Path, nargs="?", default=Path("results/membership"))
    parser.add_argument("--task", choices=CASES, default="digits")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--shadows", type=int, default=4)
    parser.add_argument("--only", default="")
    parser.add_argument("--part", type=int)
    given: Any = parser.parse_args(argv)
    case, only = CASES[given.task], [m for m in given.only.split(",") if m]
    lines = [Line(m, s.name, given.shadows) for s in case.splits for m in s.methods]
    lines = [one for one in lines if not only or one.method in only]
    splits = {s.name: s for s in case.splits}
    seeds: dict[int, list[Scores]] = {}
    for seed in range(given.seeds) if given.part is None else [given.part]:
        file = given.out / "units" / f"{given.task}-{seed}.csv"
        there = scores_in(file)
        seeds[seed] = []
        for one in lines:
            own = [r for r in there if one.made(r, given.rounds)]
            if not own:
                run = trained(given, splits[one.split], one.method, seed)
                add(file, one.scores(run))
                own = [r for r in scores_in(file) if r not in there]
                there += own
            seeds[seed] += own
            print(table(found({seed: own}), "membership_auc").splitlines()[-1], flush=True)
        if given.part is None:
            write(given, case, seeds)


def trained(given: Any, split: Split, method: str, seed: int) -> Run:
    """The method's run on a split."""
    return api.train(
        method,
        task=given.task,
        task_params=dict(split.params),
        params=split.of(method),
        rounds=given.rounds,
        seed=seed,
        out=given.runs,
        device="cpu",
        record=Policy(name="all", probes=0),  # type: ignore[arg-type]
    )


def scores_in(file: Path) -> list[Scores]:
    """The lines of a seed; none where there is no file yet."""
    if not file.exists():
        return []
    with file.open(encoding="utf-8", newline="") as sheet:
        return list(csv.DictReader(sheet))


def add(file: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Further lines, all or none."""
    every = [*scores_in(file), *rows]
    file.parent.mkdir(parents=True, exist_ok=True)
    save(file.with_suffix(".new"), UNIT_CELLS, every)
    file.with_suffix(".new").replace(file)


def save(file: Path, cells: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """A table."""
    with file.open("w", encoding="utf-8", newline="") as sheet:
        out = csv.DictWriter(sheet, cells, restval="", lineterminator="\n")
        out.writeheader()
        out.writerows(rows)


def write(given: Any, case: Case, seeds: Mapping[int, Sequence[Scores]]) -> None:
    """Every number in a CSV file, and a page of tables."""
    rows = found(seeds)
    save(given.out / f"{given.task}.csv", CELLS, rows)
    every = [r for scores in seeds.values() for r in scores]
    more = f" --task {given.task} --seeds {len(seeds)} --rounds {given.rounds}"
    more += f" --shadows {given.shadows}" + (f" --only {given.only}" if given.only else "")
    made = sorted({r["commit"] for r in every})
    parts = [
        f"# Who was trained on: {given.task}",
        f"`python benchmarks/membership.py RUNS {given.out}{more}`, commit {', '.join(made)}.",
        f"{case.about}; {given.rounds} rounds, all of them recorded. Members of each client are"
        " ranked among as many of its own examples that were held out of its training. Seeds:"
        f" {len(seeds)}, with 95 % intervals, which know of clients, too. `lira` and `rmia` read"
        f" the final model that all received, `own rmia` each client's own, beside {given.shadows}"
        " shadows; `nearest` and `tracing` read what clients share of examples. - : does not fit;"
        " fails: had nothing to go by, of any client.",
    ]
    for metric, (title, unit) in METRICS.items():
        parts += [f"## {title}", f"{unit[0].upper()}{unit[1:]}.", table(rows, metric)]
    if refused := refusals(every):
        parts += ["## What does not fit", refused]
    text = "\n\n".join(parts) + "\n"
    (given.out / f"{given.task}.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
