"""What covers one update does not cover what all of them come to: labels, prototypes, codewords.

python benchmarks/pooled_updates.py RUNS [results/pooled-updates.md] [--seeds 3] [--rounds 100]

Runs on `digits` and, where LEAKBENCH_DATA holds it, on `cifar10` (ten clients, five in a round) of
methods that send nothing but updates, which are summed, or noised; attacked at the last round by
who reads single updates, and by who listens to every round. Runs lie in RUNS and are trained where
they are not there yet. With a file the table is also written there, with command and commit.
"""

from __future__ import annotations

import argparse
import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakbench import api, metrics
from leakbench.attacking import Guess, Metric, Outline, View
from leakbench.base import provenance, registry
from leakbench.record.folders import load
from leakbench.record.policy import Policy
from leakbench.record.recording import Recording
from leakbench.scoring.truth import Truth
from leakbench.statistics import pool

DIGITS = {"model": "mlp", "width": 32, "dim": 32, "evaluations": 10}
CIFAR10 = {"model": "lenet", "width": 12, "dim": 64, "per_client": 500, "evaluations": 10}
MIXED = {"split": "dir", "split_param": 0.5}  # labels are nothing to tell where each has one class
COVERED: dict[str, tuple[str, dict[str, Any]]] = {
    "`secure_sum`": ("secure_sum", {}),
    "`clip_noise` 0.03": ("clip_noise", {"noise": 0.03}),
    "`clip_noise` 0.1": ("clip_noise", {"noise": 0.1}),
}
SELECT = ("random", "round_robin")
PROTOTYPES = (metrics.P_LEAK, metrics.PROTOTYPE_COSINE)
CODEWORDS = (metrics.P_LEAK, metrics.RECOVERED)
LABELS = (metrics.LABEL_OVERLAP, metrics.LABEL_SET)
ONE_STEP = {"steps": 1, "optimizer": "sgd", "lr": 0.1}
EPOCHS = {"epochs": 5, "optimizer": "adam"}
# As the table calls it: the method, its parameters, the attack, what is scored.
METHODS: dict[str, tuple[str, dict[str, Any], str, tuple[Metric, ...]]] = {
    "fedavg": ("fedavg", ONE_STEP, "label_inference", LABELS),
    "fedavg, epochs of Adam": ("fedavg", EPOCHS, "label_inference", LABELS),
    "own_prototypes": ("own_prototypes", {}, "prototype_from_update", PROTOTYPES),
    "fixed_prototypes": ("fixed_prototypes", {}, "prototype_from_update", PROTOTYPES),
    "feduv": ("feduv", {}, "codeword_from_update", CODEWORDS),
}
LONG = {("cifar10", "fedavg, epochs of Adam")}  # hours here
ALONE = {
    "label_inference": {"source": "calibrated"},
    "prototype_from_update": {},
    "codeword_from_update": {"together": False},
}
TITLES = {
    "label_overlap": "overlap",
    "label_set": "set named",
    "p_leak": "P_leak",
    "prototype_cosine": "cosine",
    "recovered": "decoded whole",
}


@dataclass(frozen=True)
class Case:
    """A method on a task under a wrapper, and how a round's clients are chosen."""

    task: str
    name: str  # in METHODS
    cover: str
    select: str

    def trained(self, runs: Path, seed: int, rounds: int) -> Path:
        """The folder of a run, that of a seed trained before where there is one."""
        method, params, *_ = METHODS[self.name]
        run = api.train(
            method,
            task=self.task,
            params={**params, "fraction": 0.5, "select": self.select},
            task_params=self.split,
            wrappers=[COVERED[self.cover]],
            rounds=rounds,
            seed=seed,
            out=runs,
            device="cpu",
            record=Policy(probes=0),
        )
        return run.path

    @property
    def split(self) -> dict[str, Any]:
        usual = DIGITS if self.task == "digits" else CIFAR10
        return {**usual, **MIXED} if METHODS[self.name][0] == "fedavg" else usual

    def row(self, folders: Sequence[Path]) -> list[str]:
        """Of each metric of the method a line of the table."""
        *_, name, scored = METHODS[self.name]
        attacks = [
            registry.load_plugin("attacks", name).build(params, name)
            for params in (ALONE[name], {"source": "pooled"})
        ]
        told = [guessed(folders, attack) for attack in attacks]
        lines = []
        for metric in scored:
            blind, alone, pooled = (
                number(folders, guesses, metric)
                for guesses in (
                    told[1] and told[1][1],
                    told[0] and told[0][0],
                    told[1] and told[1][0],
                )
            )
            about = f"{self.task} | {self.name} | {self.cover} | {self.select}"
            title = TITLES[metric.meaning.name]
            lines.append(f"| {about} | {title} | {blind} | {alone} | {pooled} |")
        return lines


Guesses = list[list[Guess]]  # of each run


def guessed(folders: Sequence[Path], attack: Any) -> tuple[Guesses, Guesses] | None:
    """What it finds at the last round of each run, and blindly; None where it does not fit."""
    found, blind = [], []
    for folder in folders:
        source = Recording(load(folder))
        if attack.obstacle(Outline(source, attack.threat)):
            return None
        blind.append(attack(View(attack.floor_threat, source, source.rounds), blind=True))
        guesses = attack(View(attack.threat, source, source.rounds))
        # Who has no guess is scored as who guesses blindly.
        luck = {g.unit: g for g in blind[-1]}
        found.append([luck[g.unit] if g.failed else g for g in guesses])
    return found, blind


def number(folders: Sequence[Path], guesses: Guesses | None, metric: Metric) -> str:
    """The mean over all clients of all runs with its 95 % interval."""
    if not guesses:
        return "-"
    seeds = {}
    for seed, (folder, found) in enumerate(zip(folders, guesses, strict=True)):
        truth = Truth(load(folder))
        scores = [s for g in found for s in metric.score(g, truth.answer(g))]
        units = [s.unit for s in scores]
        seeds[seed] = ([s.value for s in scores], units, [s.cluster for s in scores])
    low, high = metric.meaning.ends
    e = pool(seeds, share=metric.meaning.share, low=low, high=high, unit=metric.meaning.unit)
    return f"{e.value:.2f} [{e.low:.2f}, {e.high:.2f}] ({e.n})"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("runs", type=Path)
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=100)
    args = parser.parse_args()
    lines = [
        "| task | method | wrapper | select | number | blind guess | single update | all rounds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    tasks = ["digits", *(["cifar10"] if "LEAKBENCH_DATA" in os.environ else [])]
    for about in itertools.product(tasks, METHODS, COVERED, SELECT):
        case = Case(*about)
        if about[:2] in LONG:
            continue
        folders = [case.trained(args.runs, seed, args.rounds) for seed in range(args.seeds)]
        lines += case.row(folders)
        print("\n".join(lines[-2:]), flush=True)
    if args.out:
        commit, dirty = provenance.source()
        more = " with changes" if dirty else ""
        made = f"`python benchmarks/pooled_updates.py RUNS {args.out}`, commit {commit}{more}."
        page = ["# Covered updates of many rounds", "", made, "", *ABOUT, "", *lines, ""]
        args.out.write_text("\n".join(page), encoding="utf-8")


ABOUT = (
    "`digits` with an MLP, `cifar10` with LeNet and 500 images a client; ten clients, five in a",
    "round of one step, or of five epochs of Adam. FedAvg's clients hold several classes (split by",
    "Dirichlet, .5), all others' one.",
    "Last round; clients of all seeds with 95 % intervals and, in parentheses, n. Single update:",
    "`label_inference source=calibrated`, `prototype_from_update`, `codeword_from_update",
    "together=false`; all rounds: `source=pooled`. Overlap: of the true shares of the classes with",
    "those guessed. A dash: the attack does not fit. Under `secure_sum` there is no single update;",
    "and in a round robin of two halves the same five always take part together, so that nobody is",
    "told apart. Cosine: to the client's own prototype; trained ones without a negative term lie",
    "near each other.",
)


if __name__ == "__main__":
    main()
