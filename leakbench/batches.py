"""Which examples each local step uses: rows of the training data, from a named stream."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from leakbench.parties import Batch
from leakbench.streams import Rng
from leakbench.task import TaskData


@dataclass(frozen=True)
class Plan:
    """Rows of every step of every chosen client: ``even`` (M, S, B) int64, or ``ragged[j][s]`` (B,) where they differ."""

    even: Tensor | None
    ragged: list[list[Tensor]]

    def rows(self, j: int) -> list[Tensor]:
        """The steps of the j-th chosen client."""
        return self.ragged[j] if self.even is None else list(self.even[j])

    def batches(self, data: TaskData, j: int) -> list[Batch]:
        """The same, as examples."""
        return [Batch(data.train.x[r], data.train.y[r]) for r in self.rows(j)]


def plan(data: TaskData, chosen: Tensor, *, seed: int, round: int, phase: int, batch: int, steps: int, epochs: int) -> Plan:
    """``steps`` steps (or ``epochs`` epochs) of ``batch`` examples for each of the clients ``chosen`` (M,).

    Each pass over a client's data is a fresh permutation. By steps, incomplete batches are left out (as long as every
    client has a complete one); by epochs they are used.
    """
    counts, width = data.counts[chosen], data.rows.shape[1]
    least = int(counts.min())
    passes = epochs if not steps else -(-steps // max(least // batch, 1))
    orders = []
    for p in range(passes):
        rng = Rng(seed, "batch", chosen, torch.float64, round=round, phase=str(phase), step=p)
        order = rng.uniform("order", width).masked_fill(torch.arange(width, device=chosen.device) >= counts[:, None], 2.0)
        orders.append(data.rows[chosen[:, None], order.argsort(1)])  # (M, width), padding last
    full = least // batch
    if steps and full:
        return Plan(torch.cat([o[:, : full * batch].reshape(len(o), full, batch) for o in orders], 1)[:, :steps], [])
    ragged = [[b for o in orders for b in torch.split(o[j, :c], batch)][: steps or None] for j, c in enumerate(counts.tolist())]
    if len({tuple(len(b) for b in r) for r in ragged}) == 1 and len({len(b) for b in ragged[0]}) <= 1:
        return Plan(torch.stack([torch.stack(r) for r in ragged]), []) if ragged[0] else Plan(None, ragged)
    return Plan(None, ragged)
