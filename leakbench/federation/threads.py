"""The plain loop over the clients, in as many threads as torch may use.

Each thread trains one client after another and computes on one core: nobody waits for the other
cores at the end of every layer. Torch lets go of Python's lock while it computes, so the threads
run at the same time. A client's training has the same bits whichever thread does it, and on
however many cores.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from leakbench.base import dice
from leakbench.base.lazy import torch
from leakbench.base.tree import Tree, stack
from leakbench.federation.batches import Plan
from leakbench.federation.engines import LocalTraining
from leakbench.federation.net import copied
from leakbench.federation.parties import Batch
from leakbench.federation.party_runner import single
from leakbench.federation.side_by_side import remembering_nothing
from leakbench.federation.task_data import TaskData

if TYPE_CHECKING:
    from leakbench.federation.party_runner import PartyRunner

SHARED = "torch's own dice are thrown, and which thread is first would decide who gets what"


class _Stopped(Exception):
    """Another client's training has failed, or somebody wants to stop."""


def train_in_threads(local: LocalTraining, each: Tree, plan: Plan, data: TaskData) -> Tree:
    """Train the clients ``each``; every leaf of the result is stacked over them.

    Raises:
        RuntimeError: torch's own dice are thrown; the network cannot be copied, a layer sets
            attributes of its own, or has hooks, which write down elsewhere what they see, of
            whichever client is first.
    """
    if any(m._forward_hooks or m._forward_pre_hooks for m in local.runner.module.modules()):
        raise RuntimeError("a layer of the network has a hook")
    stop, here = threading.Event(), threading.local()

    def one(j: int) -> Tree:
        # Set in each thread: torch counts threads for every one that asks.
        torch.set_num_threads(1)
        if not hasattr(here, "runner"):
            here.runner = _own(local.runner)
        batches = _Watched(plan.batches(data, j), stop)
        how: dict[str, Any] = {"channels_last": local.runner.images_last}
        with dice.apart(), remembering_nothing(here.runner.module):
            mine = single(each, j, plan.who[j])
            return here.runner.train(local.name, local.t, mine, local.inbox, batches, **how)

    many = max(1, torch.get_num_threads())
    with dice.untouched(SHARED), ThreadPoolExecutor(many) as pool:
        try:
            made = list(pool.map(one, range(len(plan.who))))
        except BaseException:
            stop.set()
            raise
        finally:
            torch.set_num_threads(many)  # of threads that are started later, too
    return stack(made)


def _own(runner: PartyRunner) -> PartyRunner:
    """The same with a network of its own, for its tensors are put in place call by call."""
    mine = copy.copy(runner)
    mine.module = copied(runner.module)
    return mine


class _Watched(Sequence[Batch]):
    """Batches that end when somebody wants to stop."""

    def __init__(self, batches: Sequence[Batch], stop: threading.Event) -> None:
        self.batches, self.stop = batches, stop

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, step: Any) -> Any:
        return self.batches[step]

    def __iter__(self) -> Iterator[Batch]:
        for s in range(len(self.batches)):
            if self.stop.is_set():
                raise _Stopped
            yield self.batches[s]
