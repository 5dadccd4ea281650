"""Federations small enough for tests: digits, an MLP with eight hidden units, float64; and how far
apart two of them ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch

from leakbench.base import registry
from leakbench.base.tree import flat
from leakbench.federation.defense import Defense
from leakbench.federation.federation import Federation
from leakbench.federation.task import Task
from leakbench.federation.task_data import TaskData, padded

FAST = ("fedavg", "fedhide", "fedaws", "fedprox")  # the others are marked slow
ONE_STEP = {"steps": 1, "epochs": 0, "optimizer": "sgd"}
SHORT = {  # a method's own searches and trainings
    "fedaa": {
        "examples": 2,
        "hidden": 8,
        "search_steps": 5,
        "tune_steps": 2,
        "identifier_epochs": 2,
    },
    "fedbr": {"width": 16},
    "ccvr": {"calibration_epochs": 3},
}


def each_defense() -> list[Any]:
    """Every registered defense as a test parameter, all but a few marked slow."""
    return [
        n if n in FAST else pytest.param(n, marks=pytest.mark.slow)
        for n in registry.names("defenses")
    ]


@cache
def digits() -> Task:
    """The small task."""
    return registry.load_plugin("tasks", "digits").build(
        {"model": "mlp", "width": 8, "dim": 8}, "task digits"
    )


@cache
def first_digits(clients: int) -> tuple[Task, TaskData]:
    """The small task of its first clients alone, and their data."""
    data = digits().load()
    rows, counts, classes = (v[:clients] for v in (data.rows, data.counts, data.client_class))
    few = replace(data, rows=rows, counts=counts, client_class=classes)
    return digits().model_copy(update={"clients": clients}), few


def method(name: str, **params: Any) -> Defense:
    """A defense with the task's own values, and ``params`` over them."""
    return registry.load_plugin("defenses", name).build(
        {**digits().defaults(name), **params}, f"defense {name}"
    )


def short(name: str) -> dict[str, Any]:
    """Values with which a round of a method is soon over, where it matters how it is run and not
    how far it gets.
    """
    return {**({"epochs": 1} if method(name).epochs > 1 else {}), **SHORT.get(name, {})}


def wrapper(name: str, **params: Any) -> Any:
    """A wrapper."""
    return registry.load_plugin("wrappers", name).build(params, f"wrapper {name}")


def uneven(data: TaskData, counts: Sequence[int]) -> TaskData:
    """The same data with only ``counts[c]`` examples at client c."""
    rows, n = padded([data.rows[c, :k] for c, k in enumerate(counts)])
    return replace(data, rows=rows, counts=n)


def federation(
    what: str | Defense,
    engine: str = "auto",
    *,
    wrappers: Sequence[Any] = (),
    seed: int = 1,
    data: TaskData | None = None,
    device: str = "cpu",
    clients: int = 10,
    **params: Any,
) -> Federation:
    """A federation in float64 that has run nothing."""
    defense = method(what, **params) if isinstance(what, str) else what
    task, examples = first_digits(clients)
    return Federation(
        defense,
        task,
        data or examples,
        seed=seed,
        engine=engine,
        wrappers=wrappers,
        dtype=torch.float64,
        device=device,
    )


def run(fed: Federation, rounds: int) -> Federation:
    """All of it: before, ``rounds`` rounds, after."""
    fed.begin()
    for _ in range(rounds):
        fed.step()
    fed.end()
    return fed


def gap(a: Federation, b: Federation) -> float:
    """The largest difference between any two numbers of the state in which they ended."""
    one, two = flat(a.snapshot()), flat(b.snapshot())
    assert one.keys() == two.keys()
    assert all(bool(v.isfinite().all()) for v in one.values())
    return max(
        float((one[k].double() - two[k].double()).abs().max()) for k in one if one[k].numel()
    )
