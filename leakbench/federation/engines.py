"""Two ways to run a round's local training, with one meaning.

``loop`` is the plain reference: one client after another, each on a copy of the model. ``fused`` is
exact where every client takes one SGD step from the same weights and nobody reads a single update:
one vectorised loss over the clients, one backward pass through their sum. Both are proved equal in
float64 by the tests, on every method.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from leakbench.base.errors import UsageError
from leakbench.base.lazy import torch
from leakbench.base.tree import Tree, each_row, row, stack, tmap
from leakbench.federation.batches import Plan
from leakbench.federation.defense import Defense, Wrapper
from leakbench.federation.net import Net, training
from leakbench.federation.optimizer import Optimizer, group, named
from leakbench.federation.parties import Batch, weighted_mean
from leakbench.federation.party_runner import PartyRunner
from leakbench.federation.task_data import TaskData

if TYPE_CHECKING:
    from torch import Tensor

Engine = Literal["loop", "fused"]
GROUP = 2**18  # input numbers of one backward pass on a CPU: 80 images of 3x32x32


def obstacle(method: Defense, wrappers: Sequence[Wrapper]) -> str:
    """Why fused rounds would not be exact here; empty where they are."""
    if (method.steps, method.epochs) != (1, 0) or method.optimizer != "sgd":
        return "it needs exactly one local SGD step"
    if not method.fusible:
        return "the method reads single updates or trained local models"
    bent = [type(w).__name__ for w in wrappers if "update" in w.kinds and not w.linear]
    return f"wrapper {bent[0]} changes single updates" if bent else ""


def resolve(wanted: str, method: Defense, wrappers: Sequence[Wrapper]) -> Engine:
    """The engine of a run: fused where it is exact, unless the user says otherwise.

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
        return "loop" if why else "fused"
    return "fused" if wanted == "fused" else "loop"


@dataclass(frozen=True)
class LocalTraining:
    """The clients' training of round ``t`` on the loss called ``name``."""

    runner: PartyRunner
    name: str
    t: int
    inbox: Tree  # what everybody received


def loop(local: LocalTraining, each: Tree, plan: Plan, data: TaskData) -> Tree:
    """Train the clients ``each`` one by one; every leaf of the result is stacked over them."""

    def one(j: int) -> Tree:
        batches = plan.batches(data, j)
        return local.runner.train(local.name, local.t, row(each, j), local.inbox, batches)

    return stack([one(j) for j in range(len(each["index"]))])


def variance(updates: dict[str, Tensor]) -> Tensor:
    """The variance of the local models over the clients, () float64.

    The mean over all parameters of the population variance. ``updates``: (M, ...) each, from one
    model; they vary as the models do. One client's is 0.
    """
    total = sum(v.double().var(0, correction=0).sum() for v in updates.values())
    numbers = sum(v[0].numel() for v in updates.values())
    return torch.as_tensor(total, dtype=torch.float64) / max(numbers, 1)


def fused(local: LocalTraining, each: Tree, plan: Plan, share: Tensor, data: TaskData) -> Tree:
    """One step of all chosen clients at once.

    The mean update, and each client's own new private parameters. With L = sum_j M q_j L_j (q_j the
    averaging weights), the shared gradient over M is the averaged one, and a private parameter of
    client j has M q_j times its own gradient, which is divided out. The sum is taken over groups of
    clients, one backward pass each: on a CPU a batch of all of them does not fit into the cache.
    """
    n = len(each["index"])
    received, trained = local.inbox.get("model", {}), local.runner.trained
    common = {k: v.detach().requires_grad_() for k, v in received.items() if k in trained}
    one = plan.first(data, slice(1)).x.numel()
    size = n if each["index"].is_cuda else min(n, max(1, GROUP // max(one, 1)))
    parts, total = [], [torch.zeros_like(v) for v in common.values()]
    for some in (slice(i, min(i + size, n)) for i in range(0, n, size)):
        batch = plan.first(data, some)
        part, grads = _step(local, row(each, some), common, batch, share[some] * n)
        parts.append(part)
        total = [a + g for a, g in zip(total, grads, strict=True)]
    out = parts[0] if len(parts) == 1 else tmap(lambda *leaves: torch.cat(leaves), *parts)
    optimizer = Optimizer(local.runner.method, local.t, local.runner.module)
    moved = group("model", optimizer.step(named(common, {}), [g / n for g in total]))
    delta = {k: moved[k] - v for k, v in received.items() if k in common}
    floats = {k: v for k, v in out["buffers"].items() if k in received and v.is_floating_point()}
    delta |= weighted_mean({k: v - received[k] for k, v in floats.items()}, share)
    changed = {**out["buffers"], **out["kept"]}
    kept = {k: changed[k] for k in each["kept"]}
    return {"mean": delta, "own": out["own"], "kept": kept, "loss": out["loss"]}


def _step(
    local: LocalTraining, each: Tree, common: dict[str, Tensor], batch: Batch, scale: Tensor
) -> tuple[Tree, Sequence[Tensor]]:
    """Some clients' step, with the gradient of sum_j scale_j L_j with respect to ``common``."""
    runner, n = local.runner, len(each["index"])
    received, trained = local.inbox.get("model", {}), runner.trained
    still = {k: v for k, v in received.items() if k in runner.frozen}
    moving = {k: v for k, v in received.items() if k not in trained and k not in still}
    buffers = {k: v.expand(n, *v.shape) for k, v in moving.items()}
    buffers |= {k: v for k, v in each["kept"].items() if k not in trained}
    buffers = {k: v.clone() for k, v in buffers.items()}
    mine = named({k: v for k, v in each["kept"].items() if k in trained}, each["own"])
    mine = {k: v.detach().requires_grad_() for k, v in mine.items()}
    loss = getattr(runner.method, local.name)

    def one(e: Tree) -> Tensor:
        me = runner.me(local.t, e, local.inbox)
        me.own, me.rng = group("own", e["mine"]), me.rng.at(local.name, 0)
        me.net = Net(
            runner.module, {**still, **common, **group("model", e["mine"]), **e["buffers"]}
        )
        return loss(me.net, Batch(**e["batch"]), me)

    told = {k: v for k, v in vars(batch).items() if v is not None}
    rows = {**each, "mine": mine, "buffers": buffers, "batch": told}
    with training(runner.module, True):
        losses = each_row(one, rows)
        scale = scale.to(losses.dtype)
        leaves = [*common.values(), *mine.values()]
        grads = torch.autograd.grad((losses * scale).sum(), leaves, materialize_grads=True)
    own_grads = [g / scale.view(-1, *[1] * (g.dim() - 1)) for g in grads[len(common) :]]
    mine = Optimizer(runner.method, local.t, runner.module).step(mine, own_grads)
    changed = {"buffers": buffers, "kept": group("model", mine), "own": group("own", mine)}
    return {**changed, "loss": losses.detach()}, grads[: len(common)]
