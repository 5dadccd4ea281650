"""What grows with clients, participants and rounds: processor time, memory, bytes of the record.

python benchmarks/growth.py [results/speed/growth.md] [--clients 10,100,1000,10000] [--full]

Each line is a process of its own, forked, on one thread, with a recorder as ``leakbench train`` has
it. Time is processor time of a round, the median of those after the first quarter, without the
rounds in which more is recorded; "with audits" is the mean of all. Nothing is evaluated. Memory is
the most that the process held at once, less what it held before the task was loaded. Images are
made up: this is about what a round costs. ``--full`` also measures how large the records of full
runs become (needs CIFAR-10 and CIFAR-100).
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from growing_task import growing
from record_size import FULL, recorded
from speed_page import head, written

from leakbench.base import registry
from leakbench.federation.federation import Federation
from leakbench.record.policy import Policy
from leakbench.record.recorder import Recorder

PARTICIPANTS, LONG = 10, 20_000
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "fedavg": ("FedAvg, 5 steps", {"steps": 5, "batch": 8, "lr": 0.05}),
    "fedhide": ("FedHide, 1 step", {"k": 5, "batch": 8, "lr": 0.1, "own_lr": 1.0}),
    "scaffold": ("SCAFFOLD, 3 steps", {"steps": 3, "batch": 8, "lr": 0.05}),
}


def measure(
    name: str, clients: int, participants: int, rounds: int, of: int = 0
) -> dict[str, float]:
    """One line, in this process: the first ``rounds`` rounds of a run of ``of``, or all."""
    of = of or rounds
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    task = growing(clients, identities=name == "fedhide")
    kind = registry.load_plugin("defenses", name)
    method = kind(fraction=participants / clients, **METHODS[name][1])
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(Path(folder), of, Policy())
        fed = Federation(method, task, task.load(), recorder=recorder)
        fed.begin()
        took = []
        for _ in range(rounds):
            begun = time.process_time()
            fed.step()
            took.append(time.process_time() - begun)
        # Audited rounds train some clients again: six in a run, whatever its length.
        usual = [s for t, s in enumerate(took, 1) if not recorder.policy.surveys(t, of)]
        usual = usual[len(usual) // 4 :] or took
        size = sum(f.stat().st_size for f in Path(folder).rglob("*") if f.is_file())
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "ms": 1e3 * statistics.median(usual),
        "all": 1e3 * statistics.fmean(took),
        "memory": (most - before) / 1024,
        "record": size / 1024**2,
    }


def apart(*case: Any) -> dict[str, float]:
    """The same in a process of its own, forked: all begin with the same imports in memory."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        found = pool.apply(measure, case)
    print(*case, {k: round(v, 2) for k, v in found.items()}, flush=True)
    return found


def lines(cases: Sequence[tuple[str, int, int, int]], repeats: int, of: int = 0) -> Iterator[str]:
    """The table of ``cases``: method, clients, participants, rounds. Repeats take turns."""
    yield (
        "| method | clients | participants | rounds | ms a round | ms a participant | with audits"
        " | MiB of memory | MiB of record |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    found: dict[tuple[str, int, int, int], list[dict[str, float]]] = {c: [] for c in cases}
    for _ in range(repeats):
        for case in cases:
            found[case].append(apart(*case, of))
    for case, many in found.items():
        name, clients, participants, rounds = case
        best = {}
        for key in many[0]:
            best[key] = min(m[key] for m in many)
        numbers = [best["ms"], best["ms"] / participants, best["all"] / participants]
        cells = [METHODS[name][0], f"{clients:,}", f"{participants:,}", f"{rounds:,}"]
        cells += [*(f"{v:.2f}" for v in numbers), f"{best['memory']:.0f}", f"{best['record']:.1f}"]
        yield f"| {' | '.join(cells)} |"


def page(asked: argparse.Namespace, argv: Sequence[str]) -> Iterator[str]:
    clients = [int(c) for c in asked.clients.split(",")]
    yield head("What grows", "growth.py", argv, f"one thread, torch {torch.__version__}")
    yield " ".join(__doc__.split("\n\n")[2].split("``--full``")[0].split()) + (
        f" The best of {asked.repeats}, whose repeats took turns.\n"
    )
    few = min(PARTICIPANTS, clients[0])
    yield f"## Clients, {few} of them in a round\n"
    yield f"The first {asked.rounds} rounds of {LONG:,}, in most of which nothing is recorded.\n"
    cases = [(m, c, few, asked.rounds) for m in METHODS for c in clients]
    yield from lines(cases, asked.repeats, LONG)
    yield "\n## Participants\n"
    shares = [p for p in clients if p <= max(clients) // 100] or clients[:1]
    many = [(m, clients[-1], p, min(asked.rounds, 10)) for m in METHODS for p in shares]
    yield from lines(many, 1, LONG)
    yield "\n## Rounds\n"
    yield "Whole runs; the last 200 messages of each client are recorded.\n"
    long = [asked.rounds // 10, asked.rounds, asked.rounds * 10]
    yield from lines([(m, min(100, clients[-1]), few, r) for m in METHODS for r in long], 1)
    if asked.full:
        yield "\n## The record of a full run, at the default policy\n"
        yield "\n".join(recorded(FULL))


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("to", nargs="?", type=Path)
    parser.add_argument("--clients", default="10,100,1000,10000")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--full", action="store_true")
    asked = parser.parse_args(argv)
    torch.set_num_threads(1)
    for name in METHODS:  # what is imported at the first round is not measured
        measure(name, 10, 2, 3)
    text = "\n".join(page(asked, argv)) + "\n"
    written(text, asked.to)


if __name__ == "__main__":
    main(sys.argv[1:])
