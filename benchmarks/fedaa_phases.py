"""Where a round of FedAA spends its time, and whether Eq. 4 would be faster for all clients at once.

    python benchmarks/fedaa_phases.py [ROUNDS]

The second table evaluates J of Eq. 4 and its gradient for every client: one after another, as the search does, and all at once
(vmap over models and examples), alternating, medians of one run; and says how far apart their gradients are.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from defenses import _identifier, fedaa
from leakbench import registry
from leakbench.federation import Federation
from leakbench.models import initialise
from leakbench.streams import shared

TASKS: tuple[tuple[str, str, dict[str, Any], dict[str, Any]], ...] = (
    ("digits, lenet", "digits", {}, {}),
    ("digits, cnn of width 8", "digits", {"model": "cnn", "width": 8}, {}),
    ("32x32 colour, cnn of width 8, 20 images a client", "cifar100-islands", {"width": 8, "per_client": 20}, {"examples": 8}),
)
REPEATS = 9


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
    method = registry.load("defenses", "fedaa").build({**task.defaults("fedaa"), **params}, "defense fedaa")
    fed = Federation(method, task, task.load(), dtype=torch.float32)
    fed.begin()
    fed.step()  # imports, and what is made once
    clock, verbs = Clock(), (fed.server, fed.clients, fed.train)
    parts = {"Eq. 4, search": (fedaa.FedAA, "made"), "Eq. 5, tuning": (fedaa.FedAA, "tuned"), "Eq. 6, identifiers": (_identifier, "train")}
    old = {name: getattr(*place) for name, place in parts.items()}
    for name, (owner, what) in parts.items():
        setattr(owner, what, clock.timed(name, old[name]))
    for verb in verbs:
        setattr(fed, verb.__name__, lambda fn, verb=verb, **kw: clock.timed(fn.__name__, verb)(fn, **kw))
    try:
        for _ in range(rounds):
            fed.step()
    finally:
        for name, (owner, what) in parts.items():
            setattr(owner, what, old[name])
    return {name: s / rounds for name, s in clock.seconds.items()}


def evaluation(task: Any, examples: int) -> tuple[float, float, float]:
    """Milliseconds of J and its gradient for all clients, one by one and at once, and the largest difference of the gradients."""
    method = registry.load("defenses", "fedaa").build({}, "defense fedaa")
    facts = task.facts(method)
    module, n = task.module(facts).eval(), facts.clients
    models = [initialise(module, shared(k, "init", torch.float32)) for k in range(n)]
    together = {k: torch.stack([m[k] for m in models]) for k in models[0]}
    dice = torch.Generator().manual_seed(0)
    x = torch.randn(n, examples, *facts.shape, generator=dice)
    y = (torch.arange(n) % facts.classes)[:, None].expand(n, examples)

    def fits(weights: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return nn.functional.cross_entropy(functional_call(module, weights, (x,)), y)

    def one_by_one() -> Tensor:
        leaves = [part.clone().requires_grad_() for part in x]
        return torch.stack([torch.autograd.grad(fits(m, leaf, t), leaf)[0] for m, leaf, t in zip(models, leaves, y, strict=True)])

    def at_once() -> Tensor:
        leaf = x.clone().requires_grad_()
        return torch.autograd.grad(vmap(fits)(together, leaf, y).sum(), leaf)[0]

    gap = float((one_by_one() - at_once()).abs().max())
    times: dict[str, list[float]] = {"one": [], "all": []}
    for _ in range(REPEATS):
        for name, f in (("one", one_by_one), ("all", at_once)):
            begun = time.perf_counter()
            f()
            times[name].append(1000 * (time.perf_counter() - begun))
    return statistics.median(times["one"]), statistics.median(times["all"]), gap


def main() -> None:
    """Both tables on stdout."""
    torch.set_num_threads(1)
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    for title, name, task_params, params in TASKS:
        task = registry.load("tasks", name).build(task_params, f"task {name}")
        found = phases(task, params, rounds)
        total = sum(found.values())
        print(f"\n{title}: {total:.2f} s a round, 10 clients, one thread")
        for part, seconds in sorted(found.items(), key=lambda p: -p[1]):
            print(f"  {part:22s} {seconds:8.3f} s  {seconds / total:5.0%}")
        one, all_, gap = evaluation(task, params.get("examples", 16))
        print(f"  one evaluation of Eq. 4: {one:.1f} ms one by one, {all_:.1f} ms at once, {one / all_:.2f}x; gradients within {gap:.0e}")


if __name__ == "__main__":
    main()
