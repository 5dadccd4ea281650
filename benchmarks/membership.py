"""Who was trained on: each method's updates of all rounds, by four signals.

python benchmarks/membership.py RUNS [results/membership.md] [--seeds 3] [--rounds 60] [--only A,B]

Runs on `digits`, each method as the task trains it where a client has one class, and where ten
clients hold all of them; twenty of each client's examples are held out, and every message is kept.
Runs and attacks lie in RUNS and are made where they are not there yet. With a file the table is
also written there, with command and commit.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from leakbench import api
from leakbench.base import provenance
from leakbench.record.policy import Policy
from leakbench.statistics import intervals

SIGNALS = ("cosine", "loss", "span", "likelihood")
METRICS = {"membership_auc": "AUC", "membership_tpr": "found at 1 %"}
METHODS = (
    *("fedavg", "fedgn", "fedcs", "fedaws", "fedhide", "fedmetric", "feduv"),
    *("flea", "fedmix", "feddata", "fedbr", "ccvr", "fedgen", "fedprox", "feddecorr", "fedlc"),
    *("fedntd", "fedaa", "fedbn", "moon"),
)
ALONE = {"fedgn", "fedcs", "fedaws", "fedhide", "feduv"}  # whose clients have a class each
SPLITS = {"one class": {"split": "class"}, "all classes": {"split": "iid"}}
KEPT = Policy(name="all", probes=0)


def row(runs: Path, method: str, split: str, seeds: int, rounds: int) -> list[str]:
    """A line for each metric: of each signal the mean over seeds, and the blind guess."""
    told: dict[str, dict[str, list[float]]] = {m: {} for m in METRICS}
    for seed in range(seeds):
        run = api.train(
            method,
            task_params={**SPLITS[split], "held_out": 20},
            rounds=rounds,
            seed=seed,
            out=runs,
            device="cpu",
            record=KEPT,  # type: ignore[arg-type]
        )
        for signal in SIGNALS:
            for one in api.attack(run, "membership", signal=signal).rows:
                if one["metric"] in told:
                    told[one["metric"]].setdefault(signal, []).append(one["value"])
                    told[one["metric"]].setdefault("blind", []).append(one["floor"])
    lines = []
    for metric, title in METRICS.items():
        cells = [number(told[metric].get(key, [])) for key in ("blind", *SIGNALS)]
        lines.append(f"| {method} | {split} | {title} | {' | '.join(cells)} |")
    return lines


def number(values: Sequence[float]) -> str:
    """The mean, and its interval over seeds."""
    if not values:
        return "-"
    if len(values) < 2:
        return f"{values[0]:.2f}"
    found = intervals.estimate(
        values, [str(i) for i in range(len(values))], share=False, unit="seed", low=0, high=1
    )
    return f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}]"


def cases(only: Sequence[str]) -> list[tuple[str, str]]:
    """(method, split) of each line."""
    out = []
    for method in only or METHODS:
        out += [(method, s) for s in SPLITS if s == "one class" or method not in ALONE]
    return out


def main(argv: Sequence[str] | None = None) -> None:
    """Make what is not there, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path)
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--only", default="")
    given: Any = parser.parse_args(argv)
    lines = [
        f"| method | clients hold | number | blind guess | {' | '.join(SIGNALS)} |",
        "|" + "---|" * (4 + len(SIGNALS)),
    ]
    for method, split in cases([m for m in given.only.split(",") if m]):
        lines += row(given.runs, method, split, given.seeds, given.rounds)
        print(lines[-2], lines[-1], sep="\n", flush=True)
    if given.file:
        more = f" --seeds {given.seeds} --rounds {given.rounds}"
        command = f"python benchmarks/membership.py RUNS {given.file}{more}"
        head = f"# Who was trained on\n\n`{command}`, commit {provenance.source()[0]}.\n\n"
        about = (
            f"`digits` with LeNet, {given.rounds} rounds, all of them recorded; twenty members of"
            " each client\nranked among twenty of its own examples that it did not train on, means"
            " over seeds with 95 %\nintervals. What a blind guess finds at 1 % is that.\n\n"
        )
        given.file.write_text(head + about + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
