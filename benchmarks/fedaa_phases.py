"""Where a round of FedAA spends its time, and what Eq. 4 and 5 take one client after another and
for all at once.

    python benchmarks/fedaa_phases.py [ROUNDS]      # 0: without the first table

The second table alternates both ways within one run: Eq. 4's whole search of a few iterations
(``made`` and ``made_together``) and one step of Eq. 5 (vmap over models and examples); medians, for
models as they begin. ``defenses._lockstep.SMALL`` was read off it.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch

from defenses import _identifier, fedaa
from leakbench.base import registry
from leakbench.base.streams import shared
from leakbench.base.tree import each_row, stack
from leakbench.federation.federation import Federation
from leakbench.federation.parties import Batch, Net
from leakbench.models.networks import initialise

TASKS: tuple[tuple[str, str, dict[str, Any], dict[str, Any]], ...] = (
    ("digits, lenet", "digits", {}, {}),
    ("digits, cnn of width 8", "digits", {"model": "cnn", "width": 8}, {}),
    (
        "32x32 colour, cnn of width 8, 20 images a client",
        "cifar100-islands",
        {"width": 8, "per_client": 20},
        {"examples": 8},
    ),
)
SIZES: tuple[tuple[str, str, dict[str, Any], int], ...] = (
    ("digits, mlp", "digits", {"model": "mlp", "width": 64}, 16),
    ("digits, lenet", "digits", {}, 16),
    ("digits, lenet", "digits", {}, 128),
    ("digits, cnn of width 8", "digits", {"model": "cnn", "width": 8}, 16),
    ("digits, cnn of width 32", "digits", {"model": "cnn", "width": 32}, 16),
    ("digits, cnn of width 64", "digits", {"model": "cnn", "width": 64}, 16),
    ("32x32, lenet", "cifar100-islands", {"model": "lenet", "per_client": 20}, 8),
    ("32x32, cnn of width 8", "cifar100-islands", {"width": 8, "per_client": 20}, 4),
    ("32x32, cnn of width 8", "cifar100-islands", {"width": 8, "per_client": 20}, 32),
    ("32x32, cnn of width 32", "cifar100-islands", {"width": 32, "per_client": 20}, 1),
)
REPEATS, STEPS = 3, 6


class Clock:
    """Seconds by name; a name within another is taken out of it."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.within: list[float] = []

    def timed(self, name: str, f: Callable[..., Any]) -> Callable[..., Any]:
        """``f``, and its time noted under ``name``."""

        def run(*args: Any, **kwargs: Any) -> Any:
            self.within.append(0.0)
            begun = time.perf_counter()
            try:
                return f(*args, **kwargs)
            finally:
                took = time.perf_counter() - begun
                self.seconds[name] += took - self.within.pop()
                if self.within:
                    self.within[-1] += took

        return run


def phases(task: Any, params: dict[str, Any], rounds: int) -> dict[str, float]:
    """Seconds a round, by part."""
    method = registry.load("defenses", "fedaa").build(
        {**task.defaults("fedaa"), **params}, "defense fedaa"
    )
    fed = Federation(method, task, task.load(), dtype=torch.float32)
    fed.begin()
    fed.step()  # imports, and what is made once
    clock, verbs = Clock(), (fed.server, fed.clients, fed.train)
    parts = {
        "Eq. 4, one by one": (fedaa.FedAA, "made"),
        "Eq. 4, at once": (fedaa.FedAA, "made_together"),
        "Eq. 5, tuning": (fedaa.FedAA, "tuned"),
        "Eq. 6, identifiers": (_identifier, "train"),
    }
    old = {name: getattr(*place) for name, place in parts.items()}
    for name, (owner, what) in parts.items():
        setattr(owner, what, clock.timed(name, old[name]))
    for verb in verbs:
        setattr(
            fed, verb.__name__, lambda fn, verb=verb, **kw: clock.timed(fn.__name__, verb)(fn, **kw)
        )
    try:
        for _ in range(rounds):
            fed.step()
    finally:
        for name, (owner, what) in parts.items():
            setattr(owner, what, old[name])
    return {name: s / rounds for name, s in clock.seconds.items()}


def both_ways(task: Any, examples: int) -> tuple[int, tuple[float, float], tuple[float, float]]:
    """Numbers in one client's x and weights; milliseconds of Eq. 4 and of a step of Eq. 5, one by
    one and at once.
    """
    method = registry.load("defenses", "fedaa").build(
        {"examples": examples, "search_steps": STEPS, "tune_steps": 1}, "defense fedaa"
    )
    facts = task.facts(method)
    module, n = task.module(facts).eval(), facts.clients
    models = [initialise(module, shared(k, "init", torch.float32)) for k in range(n)]
    net, together = Net(module, {}), stack(models)
    noise = torch.randn(n, examples, *facts.shape, generator=torch.Generator().manual_seed(0))
    labels = (torch.arange(n) % facts.classes)[:, None]
    others = torch.arange(n).repeat(n, 1)[~torch.eye(n, dtype=torch.bool)].view(n, n - 1)
    x, y = noise[others].flatten(1, 2), labels.expand(n, examples)[others].flatten(1)

    def tuned_together() -> None:
        leaves = {k: v.clone().requires_grad_() for k, v in together.items()}
        each = {"weights": leaves, "x": x, "y": y}
        value = each_row(
            lambda e: method.fits(net, e["x"], e["y"], weights=e["weights"]).mean(), each
        ).sum()
        torch.autograd.grad(value, list(leaves.values()))

    search = alternating(
        lambda: [
            method.made(net, m, z, start) for m, z, start in zip(models, labels, noise, strict=True)
        ],
        lambda: method.made_together(net, together, labels, noise),
    )
    tuning = alternating(
        lambda: [method.tuned(net, m, Batch(a, z)) for m, a, z in zip(models, x, y, strict=True)],
        tuned_together,
    )
    return noise[0].numel() + sum(v.numel() for v in models[0].values()), search, tuning


def alternating(one: Callable[[], Any], other: Callable[[], Any]) -> tuple[float, float]:
    """Median milliseconds of both, of the processor's time: other processes disturb it less."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(REPEATS):
        for spent, f in zip(times, (one, other), strict=True):
            begun = time.process_time()
            f()
            spent.append(1000 * (time.process_time() - begun))
    return statistics.median(times[0]), statistics.median(times[1])


def main() -> None:
    """Both tables on stdout."""
    torch.set_num_threads(1)
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    for title, name, task_params, params in TASKS if rounds else ():
        task = registry.load("tasks", name).build(task_params, f"task {name}")
        found = phases(task, params, rounds)
        total = sum(found.values())
        print(f"\n{title}: {total:.2f} s a round, 10 clients, one thread")
        for part, seconds in sorted(found.items(), key=lambda p: -p[1]):
            print(f"  {part:22s} {seconds:8.3f} s  {seconds / total:5.0%}")
    print(f"\n10 clients, ms one by one and at once: {STEPS} iterations of Eq. 4, a step of Eq. 5")
    for title, name, task_params, examples in SIZES:
        task = registry.load("tasks", name).build(task_params, f"task {name}")
        numbers, *times = both_ways(task, examples)
        found = [f"{one:7.0f} {all_:7.0f} {one / all_:6.2f}x" for one, all_ in times]
        print(
            f"  {title:24s} {examples:4d} examples {numbers:9,d} numbers {'   '.join(found)}",
            flush=True,
        )


if __name__ == "__main__":
    main()
