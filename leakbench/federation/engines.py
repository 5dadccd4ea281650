"""The ways to run a round's local training, with one meaning.

``loop`` is the plain reference: one client after another, each on a copy of the model. ``fused``
(leakbench.federation.fused) is exact where every client takes one SGD step from the same weights
and nobody reads a single update. ``parallel`` runs several steps of many clients at once: their
weights ``stacked`` where networks and batches are small, else in ``threads``. All are proved equal
in float64 by the tests, on every method.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from leakbench.base.errors import UsageError
from leakbench.base.lazy import torch
from leakbench.base.tree import Tree, stack
from leakbench.federation.batches import Plan
from leakbench.federation.defense import Defense, Wrapper
from leakbench.federation.net import Net
from leakbench.federation.parties import Batch, Client
from leakbench.federation.party_runner import PartyRunner, single
from leakbench.federation.task_data import TaskData

if TYPE_CHECKING:
    from torch import Tensor

Engine = Literal["loop", "fused", "parallel", "stacked", "threads"]
ENGINES: tuple[str, ...] = get_args(Engine)


def obstacle(method: Defense, wrappers: Sequence[Wrapper]) -> str:
    """Why fused rounds would not be exact here; empty where they are."""
    if (method.steps, method.epochs) != (1, 0) or method.optimizer != "sgd":
        return "it needs exactly one local SGD step"
    if method.step_terms().clips:
        return "each client's gradient is cut before its step"
    if not method.fusible:
        return "the method reads single updates or trained local models"
    if any(w.aimed() for w in wrappers):
        return "the server sends some clients another model"
    bent = [type(w).__name__ for w in wrappers if "update" in w.kinds and not w.linear]
    return f"wrapper {bent[0]} changes single updates" if bent else ""


def resolve(wanted: str, method: Defense, wrappers: Sequence[Wrapper]) -> Engine:
    """The engine of a run: fused where it is exact, else parallel, unless the user says otherwise.

    It is the same on every machine. How a parallel run trains on this one, its phases tell.

    Raises:
        UsageError: fused was asked for where it is not exact.
    """
    why = obstacle(method, wrappers)
    if wanted == "fused" and why:
        raise UsageError(
            f"engine fused is not exact for {type(method).__name__}: {why}. Use --engine loop or"
            " auto."
        )
    if wanted == "auto":
        return "parallel" if why else "fused"
    found: Engine = wanted  # type: ignore[assignment]
    return found


@dataclass(frozen=True)
class LocalTraining:
    """The clients' training of round ``t`` on the loss called ``name``."""

    runner: PartyRunner
    name: str
    t: int
    inbox: Tree  # what everybody received

    def loss(self, net: Net, batch: Batch, me: Client) -> Tensor:
        """The loss ()."""
        value: Tensor = getattr(self.runner.method, self.name)(net, batch, me)
        return value


def loop(local: LocalTraining, each: Tree, plan: Plan, data: TaskData) -> Tree:
    """Train the clients ``each`` one by one; every leaf of the result is stacked over them."""

    def one(j: int) -> Tree:
        batches = plan.batches(data, j)
        mine = single(each, j, plan.who[j])
        return local.runner.train(local.name, local.t, mine, local.inbox, batches)

    return stack([one(j) for j in range(len(plan.who))])


def variance(updates: dict[str, Tensor]) -> Tensor:
    """The variance of the local models over the clients, () float64.

    The mean over all parameters of the population variance. ``updates``: (M, ...) each, from one
    model; they vary as the models do. One client's is 0.
    """
    total = sum(v.double().var(0, correction=0).sum() for v in updates.values())
    numbers = sum(v[0].numel() for v in updates.values())
    return torch.as_tensor(total, dtype=torch.float64) / max(numbers, 1)
