"""Images behind updates under noise: the best match, the likeliest, and that of all rounds.

python benchmarks/noised_images.py RUNS [results/noised-images.md] [--seeds 3] [--rounds 40]

Clients of FedAvg that hold one batch and take it whole in every step, and FedAwS's, who draw theirs
anew, under `clip_noise`; on `digits` and, where LEAKBENCH_DATA holds it, on `cifar10`. Attacked at
the last round through `leakbench.attack`, labels given. Runs lie in RUNS and are trained, and
attacked, where they are not yet. With a file the table is also written there.
"""

from __future__ import annotations

import argparse
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from leakbench import api
from leakbench.base import UsageError, provenance
from leakbench.record.folders import Run, load
from leakbench.results.number import Measured
from leakbench.results.units import measured_of_folder, pooled_estimates
from leakbench.statistics import Estimate

NETS = {
    "digits": {"model": "lenet", "width": 12, "dim": 32, "evaluations": 10},
    "cifar10": {"model": "lenet", "width": 12, "dim": 64, "evaluations": 10},
}
HELD = {"clients": 20, "split": "iid", "mean_local_size": 8}
ONE_STEP = {"steps": 1, "optimizer": "sgd", "lr": 0.3, "decay": 1.0, "fraction": 0.5, "batch": 8}
# Method, its parameters, how the data are split.
METHODS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "fedavg": (ONE_STEP, HELD),
    "fedaws": ({"fraction": 0.5, "batch": 4}, {}),
}
NOISE = {"digits": (0.005, 0.02), "cifar10": (0.0005, 0.002)}
LIKELY = {"prior": "principal"}
ATTACKS: dict[str, dict[str, Any]] = {
    "best match": {},
    "likeliest": LIKELY,
    "of all rounds": {**LIKELY, "source": "pooled"},
}
HOW = {"message": "update", "at": ["final"], "targets": 5, "restarts": 1, "steps": 150}
NUMBERS = {"psnr": "PSNR, dB", "identification": "identification"}


def trained(runs: Path, task: str, method: str, noise: float, seed: int, rounds: int) -> Run:
    """A run, made before or now."""
    params, split = METHODS[method]
    return api.train(
        method,
        task=task,
        params=params,
        task_params={**NETS[task], **split},
        wrappers=[("clip_noise", {"noise": noise})],
        rounds=rounds,
        seed=seed,
        out=runs,
        device="cpu",
    )


def lines(runs: Path, task: str, method: str, noise: float, seeds: int, rounds: int) -> list[str]:
    """A line of each number: the blind guess, and what each attack finds."""
    made = [trained(runs, task, method, noise, seed, rounds) for seed in range(seeds)]
    cells: dict[str, list[str]] = {name: [] for name in NUMBERS}
    for params in ATTACKS.values():
        seen: dict[str, list[Measured]] = {name: [] for name in NUMBERS}
        for run in made:
            with suppress(UsageError):  # no two updates are of the same images
                attack = api.attack(run, "gradient_inversion", **{**HOW, **params})
                for number in measured(run.path, attack.path.name):
                    seen.get(number.meaning.name, []).append(number)
        for name, numbers in seen.items():
            pooled = pooled_estimates(numbers) if numbers else {}
            cells[name] += [] if cells[name] else [shown(pooled["floor"])]
            cells[name].append(shown(pooled["attack"]) if pooled else "-")
    about = f"| {task} | {method} | {noise} |"
    return [f"{about} {title} | " + " | ".join(cells[n]) + " |" for n, title in NUMBERS.items()]


def measured(path: Path, attack: str) -> list[Measured]:
    """The numbers of one attack on a run."""
    run = load(path)
    (folder,) = [f for f in run.attacks if f.path.name == attack]
    return measured_of_folder(run, folder)


def shown(e: Estimate) -> str:
    """With its 95 % interval, and n."""
    return f"{e.value:.2f} [{e.low:.2f}, {e.high:.2f}] ({e.n})"


HEAD = (
    "`clip_noise` on the updates, clip 1; LeNet; twenty clients, half of them in a round:",
    "FedAvg's hold 8 images and take all of them in every step of SGD; FedAwS's hold one class,",
    "and draw four anew. Last round, up to five updates a seed, labels given, one start of 150",
    "steps. Best match: of the update alone; likeliest: `prior=principal`; of all rounds: with",
    "`source=pooled`, too. Over seeds, with 95 % intervals and n images; identification among",
    "up to 100 of the same class. A dash: no two updates are of the same images.",
)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("runs", type=Path)
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=40)
    args = parser.parse_args()
    table = ["| task | method | noise | number | blind guess | " + " | ".join(ATTACKS) + " |"]
    table += ["|---|---|---|---|---|" + "---|" * len(ATTACKS)]
    tasks = ["digits", *(["cifar10"] if "LEAKBENCH_DATA" in os.environ else [])]
    for task in tasks:
        for method in METHODS:
            for noise in NOISE[task]:
                table += lines(args.runs, task, method, noise, args.seeds, args.rounds)
                print("\n".join(table[-2:]), flush=True)
    if args.out:
        commit, dirty = provenance.source()
        more = " with changes" if dirty else ""
        made = f"`python benchmarks/noised_images.py RUNS {args.out}`, commit {commit}{more}."
        page = ["# Images behind updates under noise", "", made, "", *HEAD, "", *table, ""]
        args.out.write_text("\n".join(page), encoding="utf-8")


if __name__ == "__main__":
    main()
