"""Several local steps of all chosen clients, their weights side by side.

One vectorised step for all: where networks and batches are small, a library takes longer to begin
a layer than to compute it, and here it begins once for all. Batches of several sizes are padded
where that is exact (leakbench.federation.padding); else those of one size go together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from leakbench.base import dice
from leakbench.base.lazy import torch
from leakbench.base.streams import SIDE_BY_SIDE
from leakbench.base.tree import Tree, each_row, row, stack, tmap
from leakbench.federation.batches import Plan, indices
from leakbench.federation.engines import LocalTraining
from leakbench.federation.net import Net, training_mode
from leakbench.federation.optimizer import Optimizer, group_leaves, leaves_named
from leakbench.federation.padding import declares_loss, paddable
from leakbench.federation.parties import Batch
from leakbench.federation.party_runner import single
from leakbench.federation.side_by_side import leaving_nothing, no_hooks
from leakbench.federation.task_data import TaskData

if TYPE_CHECKING:
    from torch import Tensor


def stacked(local: LocalTraining, each: Tree, plan: Plan, data: TaskData) -> Tree:
    """Train the clients ``each``; every leaf of the result is stacked over them."""
    side = _Side.of(local, each)
    sizes = [plan.sizes(j) for j in range(side.clients)]
    with training_mode(local.runner.module, True):
        for s in range(max(map(len, sizes))):
            todo = {j: own[s] for j, own in enumerate(sizes) if s < len(own)}
            for some in side.groups(todo, s, plan, data):
                side.step(some, s, plan.step(data, some, s))
    return side.finished(plan, data)


@dataclass
class _Side:
    """The clients' trainings; every leaf (M, ...)."""

    local: LocalTraining
    each: Tree
    still: dict[str, Tensor]  # what nobody trains, the same for all
    rest: dict[str, Tensor]  # of the models, what is not trained by a gradient
    leaves: dict[str, Tensor]  # what is
    moments: dict[str, dict[str, Tensor]]  # of the optimiser
    losses: Tensor  # (M,), summed over the steps

    @classmethod
    def of(cls, local: LocalTraining, each: Tree) -> _Side:
        """As they begin."""
        runner, m = local.runner, len(each["index"])
        received = local.inbox.get("model", {})
        still = {k: v for k, v in received.items() if k in runner.frozen}
        model = {k: v.expand(m, *v.shape) for k, v in received.items() if k not in still}
        model = {k: v.clone() for k, v in {**model, **each["kept"]}.items()}
        trained = {k: v for k, v in model.items() if k in runner.trained}
        rest = {k: v for k, v in model.items() if k not in trained}
        leaves = leaves_named(trained, each["own"])
        nothing = torch.zeros(m, dtype=runner.dtype, device=each["index"].device)
        return cls(local, each, still, rest, leaves, {"mean": {}, "square": {}}, nothing)

    @property
    def clients(self) -> int:
        return len(self.losses)

    def groups(self, todo: dict[int, int], s: int, plan: Plan, data: TaskData) -> list[list[int]]:
        """Who steps together: all who have a step ``s``, or those with batches of one size.

        ``todo``: client -> its size.
        """
        found: dict[int, list[int]] = {}
        for j, size in todo.items():
            found.setdefault(size, []).append(j)
        runner, name = self.local.runner, self.local.name
        # How an augmentation draws may depend on how long a batch is.
        if len(found) > 1 and plan.augment is None and declares_loss(runner.method, name):
            if name not in runner.padded:
                batch, classes = plan.step(data, [*todo], s), runner.facts.classes
                runner.padded[name] = paddable(partial(self.tried, [*todo], s), batch, classes)
            if runner.padded[name]:
                return [[*todo]]
        return [*found.values()]

    def tried(self, some: list[int], s: int, batch: Batch) -> Tree:
        """What step ``s`` of the clients ``some`` makes of a batch; nobody moves."""
        at = indices(some, self.losses.device)
        # Copies: BatchNorm writes into them.
        leaves, rest = (tmap(lambda v: v[at].detach(), t) for t in (self.leaves, self.rest))
        losses, grads = self._slopes(at, s, batch, leaves, rest)
        return {"losses": losses, "rest": rest, "grads": dict(zip(leaves, grads, strict=True))}

    def _slopes(
        self, take: Tensor | slice, s: int, batch: Batch, leaves: Tree, rest: Tree
    ) -> tuple[Tensor, Sequence[Tensor]]:
        """The losses (m,) and their gradients by ``leaves``, of the clients ``take``."""
        runner = self.local.runner
        leaves = {k: v.requires_grad_() for k, v in leaves.items()}

        def one(e: Tree) -> Tensor:
            me = runner.me(self.local.t, e["each"], self.local.inbox)
            me.own, me.rng = group_leaves("own", e["leaves"]), me.rng.at(self.local.name, s)
            weights = {**self.still, **e["rest"], **group_leaves("model", e["leaves"])}
            me.net = Net(runner.module, weights, runner.low)
            with leaving_nothing(me):
                return self.local.loss(me.net, Batch(**e["batch"]), me)

        told = {k: v for k, v in vars(batch).items() if v is not None}
        rows = {"each": row(self.each, take), "leaves": leaves, "rest": rest, "batch": told}
        with dice.untouched(SIDE_BY_SIDE), no_hooks(runner.module):
            losses = each_row(one, rows) if len(batch.x) > 1 else one(row(rows, 0))[None]
        grads = torch.autograd.grad(losses.sum(), [*leaves.values()], materialize_grads=True)
        return losses, grads

    def step(self, some: list[int], s: int, batch: Batch) -> None:
        """Step ``s`` of the clients ``some``, each on its row of ``batch``."""
        runner = self.local.runner
        at = indices(some, self.losses.device)
        everyone = len(some) == self.clients
        take = slice(None) if everyone else at
        leaves = {k: v[take].detach() for k, v in self.leaves.items()}
        rest = {k: v[take] for k, v in self.rest.items()}
        losses, grads = self._slopes(take, s, batch, leaves, rest)
        optimizer = Optimizer(runner.method, self.local.t, runner.module, clients=True)
        optimizer.steps = s
        optimizer.mean, optimizer.square = (row(v, take) for v in self.moments.values())
        new = optimizer.step(leaves, grads)
        moments = {"mean": optimizer.mean, "square": optimizer.square}
        self.losses = self.losses.index_add(0, at, losses.detach())
        if everyone:
            self.leaves, self.moments = new, moments
            return
        self.leaves = _written(self.leaves, at, new)
        self.rest = _written(self.rest, at, rest)
        for kind, made in moments.items():
            blank = {k: torch.zeros_like(self.leaves[k]) for k in made}
            self.moments[kind] = _written({**blank, **self.moments[kind]}, at, made)

    def finished(self, plan: Plan, data: TaskData) -> Tree:
        """What each of them sends and keeps, as the reference has it."""
        runner, local = self.local.runner, self.local
        trained = {k: v.detach() for k, v in self.leaves.items()}
        weights = {**self.rest, **group_leaves("model", trained)}
        out = []
        for j, who in enumerate(plan.who):
            mine, batches = single(self.each, j, who), plan.batches(data, j)
            me = runner.me(local.t, mine, local.inbox)
            me.rng = me.rng.at(local.name)
            whole = {**self.still, **row(weights, j)}
            own = row(group_leaves("own", trained), j)
            made = runner.finish(me, whole, own, mine, batches)
            out.append({**made, "loss": self.losses[j] / max(len(batches), 1)})
        return stack(out)


def _written(columns: Tree, at: Tensor, new: Tree) -> Tree:
    return tmap(lambda c, v: c.index_copy(0, at, v), columns, new)
