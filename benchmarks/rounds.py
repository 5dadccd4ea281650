"""Where a round's time goes: the ways to train, precisions and layouts, and what is beside a step.

python benchmarks/rounds.py [results/speed/rounds.md] [--pairs 5] [--threads 2] [--smoke]

The first table: seconds of a round, the plain loop's, and how many times as fast the others are:
every way of training that the method allows, ``auto`` in bfloat16, and ``auto`` with its images
laid as torch does. All take turns in one process, and the median of the ratios of each turn is
given. The second: milliseconds of processor time of a round that is recorded as ``leakbench train``
does it (400 rounds, of which few are audited), on one thread, split into the local steps and what
is beside them. Images of 32x32 are made up: this is about time.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from gpu import Bench, federation, images
from speed_page import head, written

from leakbench.federation import federation as federations
from leakbench.federation.execution import Execution
from leakbench.federation.federation import Federation
from leakbench.record.policy import Policy
from leakbench.record.recorder import Recorder

ENGINES = ("fused", "stacked", "threads")
HERE = {"device": "cpu", "smoke": False, "end": float("inf")}


@dataclass(frozen=True)
class Case:
    """A method's round of some size."""

    title: str
    method: str
    task: str
    params: dict[str, Any] = field(default_factory=dict)
    task_params: dict[str, Any] = field(default_factory=dict)
    photographs: tuple[int, int, bool] | None = None  # clients, images of each, of a class each?
    engines: tuple[str, ...] = ENGINES

    def federation(self, engine: str, **how: Any) -> Federation:
        """One that has run nothing."""
        data = None
        if self.photographs:
            clients, each, own_class = self.photographs
            data = images(clients, each, clients if own_class else 10, own_class=own_class)
        how |= {"engine": engine, "params": self.params, "task_params": self.task_params}
        return federation(self.method, self.task, Bench(**HERE), data, **how)


HIDE = {"task": "cifar100", "photographs": (100, 20, True), "engines": ("fused", "threads")}
STEPS = {"steps": 10, "batch": 50, "fraction": 1.0}
PHOTOGRAPHS = {"photographs": (20, 500, False), "engines": ("stacked", "threads")}
SMALL = (
    Case("FedGN, digit-pairs", "fedgn", "digit-pairs"),
    Case("MOON, digits, 11 epochs", "moon", "digits", engines=("stacked", "threads")),
    Case("FedAA, digits", "fedaa", "digits", engines=("stacked", "threads")),
)
CASES = (
    *SMALL,
    Case("FedAvg, 20 x 10 x 50 photographs", "fedavg", "cifar10", STEPS, **PHOTOGRAPHS),
    Case("FedHide, ResNet-8 (64)", "fedhide", task_params={"model": "resnet8"}, **HIDE),
    Case("FedHide, ResNet-18", "fedhide", **HIDE),
)
PARTS: tuple[tuple[str, Any, tuple[str, ...]], ...] = (
    ("local steps", Execution, ("training",)),
    ("client functions", Execution, ("clients",)),
    ("server functions", Federation, ("server",)),
    ("which examples", federations, ("batch_plan",)),
    ("recording", Recorder, ("down", "up", "training", "trained", "summed", "close")),
)


def timed(fed: Federation, *, plain: bool) -> float:
    """Seconds of a round; ``plain``: images and kernels as torch lays them."""
    last = fed.runner.images_last and not plain
    with patch.object(fed.runner, "images_last", last):
        begun = time.perf_counter()
        fed.step()
        return time.perf_counter() - begun


def ways(case: Case, pairs: int) -> str:
    """The case's line of the first table."""
    feds = {e: case.federation(e) for e in ("loop", *case.engines, "auto")}
    feds["bfloat16"] = case.federation("auto", dtype=torch.bfloat16)
    feds["as torch lays"] = case.federation("auto")
    for name, fed in feds.items():
        fed.begin()
        timed(fed, plain=name == "as torch lays")
    turns = []
    for _ in range(pairs):
        turns.append(
            {name: timed(fed, plain=name == "as torch lays") for name, fed in feds.items()}
        )
    loop = statistics.median(turn["loop"] for turn in turns)
    cells = [case.title, f"{loop:.3f}"]
    for name in (*ENGINES, "auto", "bfloat16", "as torch lays"):
        done = name in feds and (name not in ENGINES or feds[name].phases["loss"] == name)
        faster = statistics.median(turn["loop"] / turn[name] for turn in turns) if done else 0.0
        cells.append(f"{faster:.2f}" if done else "")
    return f"| {' | '.join([*cells, feds['auto'].phases['loss']])} |"


def parts(case: Case, rounds: int) -> str:
    """The case's line of the second table."""
    took: Counter[str] = Counter()
    inside: list[str] = []

    def watched(part: str, old: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **how: Any) -> Any:
            begun, within = time.process_time(), sum(took.values())
            inside.append(part)
            try:
                return old(*args, **how)
            finally:
                inside.pop()
                # What a part calls of another is that one's, unless it is recording.
                own = time.process_time() - begun - (sum(took.values()) - within)
                took["recording" if "recording" in inside else part] += own

        return run

    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        for part, owner, names in PARTS:
            for name in names:
                old = getattr(owner, name)
                stack.enter_context(patch.object(owner, name, watched(part, old)))
        fed = case.federation("auto", recorder=Recorder(Path(folder), rounds, Policy()))
        fed.begin()
        fed.step()
        took.clear()
        begun = time.process_time()
        for _ in range(rounds - 1):
            fed.step()
        whole = time.process_time() - begun
    numbers = [took[part] for part, *_ in PARTS]
    cells = [f"{1e3 * v / (rounds - 1):.1f}" for v in (whole, *numbers, whole - sum(numbers))]
    return f"| {' | '.join([case.title, *cells])} |"


def page(asked: argparse.Namespace, argv: Sequence[str]) -> Iterator[str]:
    cases = SMALL[:1] if asked.smoke else CASES
    how = f"{asked.threads} threads, torch {torch.__version__}"
    yield head("Where a round's time goes", "rounds.py", argv, how)
    yield f"{' '.join(__doc__.split(chr(10) * 2)[2].split())} {asked.pairs} turns.\n"
    columns = [*(f"{e}, times" for e in ENGINES), "auto", "auto, bfloat16", "auto, as torch lays"]
    yield f"| round | loop, s | {' | '.join(columns)} | auto is |\n|{'---|' * 9}"
    for case in cases:
        yield ways(case, asked.pairs)
    torch.set_num_threads(1)
    columns = ["whole", *(part for part, *_ in PARTS), "rest"]
    yield f"\n| round, ms | {' | '.join(columns)} |\n|{'---|' * 8}"
    for case in SMALL[:1] if asked.smoke else SMALL:
        yield parts(case, 20 if asked.smoke else 400)


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("to", nargs="?", type=Path)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--smoke", action="store_true")
    asked = parser.parse_args(argv)
    torch.set_num_threads(asked.threads)
    written("\n".join(page(asked, argv)) + "\n", asked.to)


if __name__ == "__main__":
    main(sys.argv[1:])
