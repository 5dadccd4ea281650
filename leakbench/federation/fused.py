"""One SGD step of all chosen clients at once.

Exact where every client takes one step from the same weights and nobody reads a single update:
one loss over the clients, vectorised, and one backward pass through their sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from leakbench.base import dice
from leakbench.base.lazy import torch
from leakbench.base.streams import SIDE_BY_SIDE
from leakbench.base.tree import Tree, each_row, row, tmap
from leakbench.federation.batches import Plan
from leakbench.federation.engines import LocalTraining
from leakbench.federation.layout import laid, laid_batch, plain_layout
from leakbench.federation.net import Net, training_mode
from leakbench.federation.optimizer import Optimizer, group_leaves, leaves_named
from leakbench.federation.parties import Batch, weighted_mean
from leakbench.federation.side_by_side import no_derivative_of_its_own, no_hooks, own_unwritten
from leakbench.federation.task_data import TaskData

if TYPE_CHECKING:
    from torch import Tensor

# Input numbers of one backward pass on a CPU: beyond it, memory is slower than another pass is.
GROUP = 2**16


def fused(local: LocalTraining, each: Tree, plan: Plan, share: Tensor, data: TaskData) -> Tree:
    """One step of all chosen clients at once.

    The mean update, and each client's own new private parameters. With L = sum_j M q_j L_j (q_j the
    averaging weights), the shared gradient over M is the averaged one, and a private parameter of
    client j has M q_j times its own gradient, which is divided out. The sum is taken over groups of
    clients, one backward pass each: on a CPU a batch of all of them does not fit into the cache. A
    group of one is not vectorised, which spares what ``vmap`` adds to every layer.
    """
    n = len(each["index"])
    received, trained = local.inbox.get("model", {}), local.runner.trained
    one = plan.first(data, slice(1)).x.numel()
    size = n if not each["index"].is_cpu else min(n, max(1, GROUP // max(one, 1)))
    common = {k: v.detach().clone() for k, v in received.items() if k in trained}
    if size == 1 and local.runner.images_last:  # vmap does not know of layouts
        common = tmap(laid, common)
    common = {k: v.requires_grad_() for k, v in common.items()}
    parts, total = [], [torch.zeros_like(v) for v in common.values()]
    for some in (slice(i, min(i + size, n)) for i in range(0, n, size)):
        batch = plan.first(data, some)
        part, grads = _step(local, row(each, some), common, batch, share[some] * n)
        parts.append(part)
        if total:  # a method may keep the whole model at the clients
            torch._foreach_add_(total, list(grads))
    if len(parts) > 1:  # the next group read what the last one wrote
        own_unwritten(received, common)
    out = parts[0] if len(parts) == 1 else tmap(lambda *leaves: torch.cat(leaves), *parts)
    optimizer = Optimizer(local.runner.method, local.t, local.runner.module)
    moved = group_leaves("model", optimizer.step(leaves_named(common, {}), [g / n for g in total]))
    delta = {k: (moved[k] - v).contiguous() for k, v in received.items() if k in common}
    floats = {k: v for k, v in out["buffers"].items() if k in received and v.is_floating_point()}
    delta |= weighted_mean({k: v - received[k] for k, v in floats.items()}, share)
    changed = {**out["buffers"], **out["kept"]}
    kept = plain_layout({k: changed[k] for k in each["kept"]})
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
    mine = leaves_named({k: v for k, v in each["kept"].items() if k in trained}, each["own"])
    mine = {k: v.detach().requires_grad_() for k, v in mine.items()}

    def one(e: Tree) -> Tensor:
        me = runner.me(local.t, e, local.inbox)
        me.own, me.rng = group_leaves("own", e["mine"]), me.rng.at(local.name, 0)
        weights = {**still, **common, **group_leaves("model", e["mine"]), **e["buffers"]}
        here = Batch(**e["batch"])
        if n == 1 and runner.images_last:
            weights, here = tmap(laid, weights), laid_batch(here)
        me.net = Net(runner.module, weights, runner.low)
        return local.loss(me.net, here, me)

    told = {k: v for k, v in vars(batch).items() if v is not None}
    rows = {**each, "mine": mine, "buffers": buffers, "batch": told}
    with training_mode(runner.module, True):
        with dice.untouched(SIDE_BY_SIDE), no_hooks(runner.module):
            losses = each_row(one, rows) if n > 1 else one(row(rows, 0))[None]
        no_derivative_of_its_own(losses)
        scale = scale.to(losses.dtype)
        leaves = [*common.values(), *mine.values()]
        grads = torch.autograd.grad((losses * scale).sum(), leaves, materialize_grads=True)
    own_grads = [g / scale.view(-1, *[1] * (g.dim() - 1)) for g in grads[len(common) :]]
    mine = Optimizer(runner.method, local.t, runner.module).step(mine, own_grads)
    changed = {
        "buffers": buffers,
        "kept": group_leaves("model", mine),
        "own": group_leaves("own", mine),
    }
    return {**changed, "loss": losses.detach()}, grads[: len(common)]
