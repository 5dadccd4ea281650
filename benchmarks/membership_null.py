"""Membership where there is nothing to tell, in twenty seeds, and where all was learnt by heart.

python benchmarks/membership_null.py RUNS [FILE] [--seeds 20]

Six clients of `digits` train until they know their examples by heart, since the labels were
thrown. In the null those that are called members were held out, too, so a sound attack ranks them
as any others. Runs and attacks lie in RUNS and are made where they are not there yet.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from leakbench import Run, api
from leakbench.base import Rng, provenance
from leakbench.federation import TaskData
from leakbench.record import candidates
from leakbench.record.policy import Policy
from leakbench.tasks.digits import Digits

ATTACKS: dict[str, tuple[str, dict[str, Any]]] = {
    **{s: ("membership", {"signal": s}) for s in ("cosine", "loss", "span", "likelihood")},
    **{t: ("shadow_membership", {"test": t, "shadows": 8}) for t in ("lira", "rmia")},
    "own rmia": ("shadow_membership", {"test": "rmia", "model": "client", "shadows": 8}),
    **{s: ("shared_membership", {"signal": s}) for s in ("nearest", "tracing")},
}
SHARED = "feddata", {"share": 1.0}  # whose clients share what they train on
EACH = 15  # members of a client, and as many others
TRAINED = 2 * EACH  # examples of a client
TASK = {"model": "mlp", "width": 128, "dim": 8, "evaluations": 10, "split": "iid", "clients": 6}
LOCAL = {"steps": 0, "epochs": 10, "optimizer": "adam", "lr": 1e-2, "fraction": 1.0}
ROUNDS = 8


@contextmanager
def thrown(seed: int) -> Iterator[None]:
    """Labels that nobody can learn but by heart."""
    load = Digits.load

    def other(task: Digits) -> TaskData:
        data = load(task)
        dice = torch.Generator().manual_seed(seed)
        y = torch.randint(10, (len(data.train),), generator=dice)
        return replace(data, train=replace(data.train, y=y))

    with mock.patch.object(Digits, "load", other):
        yield


@contextmanager
def held_out() -> Iterator[None]:
    """Members of whom none was trained on: they are drawn from what was held out, too."""

    def pairs(data: TaskData, own: Tensor, rng: Rng) -> Iterator[tuple[int, int, int]]:
        assert data.held_out is not None
        for c, out in enumerate(data.held_out):
            drawn = out[rng.permutation(f"null/{c}", len(out))].tolist()
            yield from ((c, *two) for two in zip(drawn[:EACH], drawn[EACH : 2 * EACH], strict=True))

    with mock.patch.object(candidates, "_held_out", pairs):
        yield


def made(runs: Path, method: str, seed: int, *, null: bool) -> Run:
    """A run."""
    held = EACH * (8 if null else 1)
    how: dict[str, Any] = {
        "task_params": {**TASK, "held_out": held, "mean_local_size": TRAINED + held},
        "rounds": ROUNDS,
        "seed": seed,
        "out": runs / ("null" if null else "by heart"),
        "device": "cpu",
        "record": Policy(name="all", probes=0),
    }
    params: dict[str, Any] = {**LOCAL, "batch": 32}
    if method == SHARED[0]:
        params |= SHARED[1]
    inside: Callable[[], Any] = held_out if null else lambda: thrown(seed)
    with inside():
        return api.train(method, params=params, **how)


def asked(run: Run, column: str) -> tuple[float, float, float]:
    """AUC with its interval."""
    attack, params = ATTACKS[column]
    (row,) = (r for r in api.attack(run, attack, **params).rows if r["metric"] == "membership_auc")
    return row["value"], row["low"], row["high"]


def told(runs: Path, seeds: int, *, null: bool) -> dict[str, list[tuple[float, float, float]]]:
    """{attack: AUC and its interval in each seed}; of a seed all, for variants share shadows."""
    out: dict[str, list[tuple[float, float, float]]] = {column: [] for column in ATTACKS}
    for seed in range(seeds):
        for column, (attack, _) in ATTACKS.items():
            method = SHARED[0] if attack == "shared_membership" else "fedavg"
            out[column].append(asked(made(runs, method, seed, null=null), column))
        print(
            "null" if null else "by heart", seed, {c: v[-1][0] for c, v in out.items()}, flush=True
        )
    return out


def line(column: str, null: Sequence[tuple[float, float, float]], known: Sequence[float]) -> str:
    """Of one attack."""
    inside = sum(low <= 0.5 <= high for _, low, high in null)
    values = [value for value, _, _ in null]
    cells = [column, f"{inside} of {len(null)}", f"{fmean(values):.3f}", f"{min(values):.2f}"]
    cells += [f"{max(values):.2f}", f"{fmean(known):.3f}"]
    return f"| {' | '.join(cells)} |"


def main(argv: Sequence[str] | None = None) -> None:
    """Make what is not there, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path)
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--seeds", type=int, default=20)
    given: Any = parser.parse_args(argv)
    head = ["attack", "null: .5 in the interval", "mean AUC", "least", "most", "by heart: AUC"]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    known, null = told(given.runs, 3, null=False), told(given.runs, given.seeds, null=True)
    for column in ATTACKS:
        lines.append(line(column, null[column], [value for value, _, _ in known[column]]))
    print("\n".join(lines))
    if given.file:
        command = f"python benchmarks/membership_null.py RUNS {given.file} --seeds {given.seeds}"
        parts = [
            "# Membership where there is nothing to tell",
            f"`{command}`, commit {provenance.commit()}.",
            f"`digits`, six clients, {EACH} members of each among as many others,"
            f" {ROUNDS} rounds of ten epochs of Adam. Null: who is called a member was held out,"
            " too, and both are drawn anew in each seed; of a sound interval of 95 % one seed in"
            " twenty may lie outside. By heart: the labels were thrown (of `feddata`, which the"
            " last two attacks read: all is shared), mean over three seeds.",
            "\n".join(lines),
        ]
        given.file.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
