"""Measures how a method's rounds train the fastest on this machine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from leakbench.base.errors import UsageError
from leakbench.federation import tuned
from leakbench.federation.choosing import WAYS, Way
from leakbench.federation.engines import LocalTraining
from leakbench.federation.federation import Federation

GAIN = 0.05  # of the loop's time that another way must save: less may be chance


@dataclass(frozen=True)
class Tuned:
    """What a round took by each way, in seconds, and the one that is used from now on."""

    way: Way
    seconds: dict[str, float]
    without: dict[str, str]  # ways that do not work here, and why


def tune(make: Callable[[str], Federation], rounds: int) -> Tuned:
    """Train ``rounds`` rounds by each way, in turn, and keep the fastest in the table.

    It is the loop unless another saves ``GAIN`` of its time, so nothing is slower than the loop.

    Args:
        make: a federation with this engine.
        rounds: of each; the median counts.

    Raises:
        UsageError: the rounds are fused, or nobody trains in them.
    """
    feds = {way: make(way) for way in WAYS}
    for fed in feds.values():
        fed.begin()
        fed.step()  # who comes first also warms up
    trains = [name for name, how in feds["loop"].phases.items() if how == "loop"]
    if not trains:
        raise UsageError("nobody trains in this method's rounds, so there is nothing to choose.")
    without = {way: why for way, fed in feds.items() for why in _missing(way, fed, trains)}
    feds = {way: fed for way, fed in feds.items() if way not in without}
    took: dict[str, list[float]] = {way: [] for way in feds}
    for _ in range(rounds):
        for way, fed in feds.items():
            took[way].append(_timed(fed))
    seconds = {way: statistics.median(values) for way, values in took.items()}
    best = min(WAYS, key=lambda way: seconds.get(way, float("inf")))
    if seconds[best] > (1 - GAIN) * seconds["loop"]:
        best = "loop"
    found: Way = best  # type: ignore[assignment]
    fed = feds["loop"]
    for name in trains:
        local = LocalTraining(fed.runner, name, fed.t, {})
        tuned.keep(tuned.Work.of(local, len(fed.who), fed.data), found, seconds)
    return Tuned(found, seconds, without)


def _missing(way: str, fed: Federation, trains: list[str]) -> list[str]:
    """Why one of the trainings was not done this way."""
    return [fed.fallbacks.get(name, "") for name in trains if fed.phases[name] != way]


def _timed(fed: Federation) -> float:
    begun = time.perf_counter()
    fed.step()
    if fed.device.type == "cuda":
        torch.cuda.synchronize(fed.device)
    return time.perf_counter() - begun
