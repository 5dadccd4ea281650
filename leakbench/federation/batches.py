"""Which examples each local step uses: rows of the training data, from a named stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias, overload

from leakbench.base.lazy import torch
from leakbench.base.streams import Rng
from leakbench.federation.parties import Batch
from leakbench.federation.task_data import TaskData

if TYPE_CHECKING:
    from torch import Tensor

# Images (*party, B, ...) and the step's dice -> images of the same shape.
Augment: TypeAlias = "Callable[[Tensor, Rng], Tensor]"


def indices(numbers: Sequence[int], device: torch.device) -> Tensor:
    """The same numbers, (n,) int64, on ``device``, for which no processor waits."""
    made = torch.tensor(numbers, dtype=torch.int64)
    pinned = made.pin_memory() if device.type == "cuda" else made
    return pinned.to(device, non_blocking=True)


@dataclass(frozen=True)
class Plan:
    """Rows of every step of every chosen client."""

    chosen: Tensor  # (M,) the clients
    who: Sequence[int]  # the same, for which no device is asked
    even: Tensor | None  # (M, S, B) int64 rows, where all clients have as many
    ragged: list[list[Tensor]]  # else ragged[j][s] (B,)
    rng: Rng  # whose draws augment their batches, one per client, step and image
    augment: Augment | None = None

    def rows(self, j: int) -> list[Tensor]:
        """The steps of the j-th chosen client."""
        return self.ragged[j] if self.even is None else list(self.even[j])

    def sizes(self, j: int) -> list[int]:
        """How many examples each of them has."""
        return [len(rows) for rows in self.rows(j)]

    def batches(self, data: TaskData, j: int) -> Sequence[Batch]:
        """The same, as examples, augmented; each is made when it is asked for, as all are large."""
        return _Lazy(self.rows(j), lambda rows, s: self._batch(data, rows, self.chosen[j], s))

    def first(self, data: TaskData, some: slice = slice(None)) -> Batch:
        """The first step of the clients ``some``, x (m, B, ...), y (m, B); needs ``even``."""
        if self.even is None:
            raise ValueError("clients' steps differ: take them one by one")
        return self._batch(data, self.even[some, 0], self.chosen[some], 0)

    def step(self, data: TaskData, some: list[int], s: int) -> Batch:
        """Step ``s`` of the chosen clients ``some``, who all have one, x (m, B, ...), y (m, B).

        Who has fewer examples than the others repeats its first one, which is not its ``own``.
        """
        everyone = len(some) == len(self.who)
        take = slice(None) if everyone else indices(some, self.chosen.device)
        if self.even is not None:
            rows = self.even[take, s]
        else:
            rows = _padded([self.ragged[j][s] for j in some])
        batch = self._batch(data, rows, self.chosen[take], s)
        sizes = [len(self.ragged[j][s]) for j in some] if self.even is None else []
        if len(set(sizes)) < 2:
            return batch
        counts = indices(sizes, rows.device)
        return replace(batch, own=torch.arange(max(sizes), device=rows.device) < counts[:, None])

    def _batch(self, data: TaskData, rows: Tensor, party: Tensor, step: int) -> Batch:
        batch = data.train.batch(rows)
        if self.augment is None:
            return batch
        rng = Rng(self.rng.seed, "augment", party, data.train.dtype, round=self.rng.round)
        return replace(batch, x=self.augment(batch.x, rng.at(self.rng.phase, step)))


def _padded(rows: list[Tensor]) -> Tensor:
    width = max(map(len, rows))
    return torch.stack([torch.cat([r, r[:1].expand(width - len(r))]) for r in rows])


class _Lazy(Sequence[Batch]):
    """The batches of a client's steps, none of which is kept."""

    def __init__(self, rows: list[Tensor], make: Callable[[Tensor, int], Batch]) -> None:
        self.rows, self.make = rows, make

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, step: int) -> Batch: ...
    @overload
    def __getitem__(self, step: slice) -> Sequence[Batch]: ...
    def __getitem__(self, step: int | slice) -> Batch | Sequence[Batch]:
        if isinstance(step, slice):
            return [self[s] for s in range(len(self))[step]]
        return self.make(self.rows[step], range(len(self))[step])


def batch_plan(
    data: TaskData,
    who: Sequence[int],
    *,
    seed: int,
    round: int,
    phase: int,
    batch: int,
    steps: int,
    epochs: int,
    augment: Augment | None = None,
) -> Plan:
    """``steps`` steps (or ``epochs`` epochs) of ``batch`` examples for each of the clients ``who``.

    Each pass over a client's data is a fresh permutation. By steps, incomplete batches are left out
    (as long as every client has a complete one); by epochs they are used. ``augment``: a task's,
    for what the steps see.
    """
    chosen = indices(who, data.counts.device)
    counts, width = data.counts[chosen], data.rows.shape[1]
    sizes = [data.sizes[i] for i in who]
    least = min(sizes)
    passes = epochs if not steps else -(-steps // max(least // batch, 1))
    dice = Rng(seed, "batch", chosen, torch.float64, round=round, phase=str(phase))
    orders = []
    for p in range(passes):
        order = dice.at(dice.phase, p).uniform("order", width)
        order = order.masked_fill(torch.arange(width, device=chosen.device) >= counts[:, None], 2.0)
        orders.append(data.rows[chosen[:, None], order.argsort(1)])  # (M, width), padding last
    full = least // batch
    if steps and full:
        passed = [o[:, : full * batch].reshape(len(o), full, batch) for o in orders]
        return Plan(chosen, who, torch.cat(passed, 1)[:, :steps], [], dice, augment)
    ragged = []
    for j, c in enumerate(sizes):
        of_client = [b for o in orders for b in torch.split(o[j, :c], batch)]
        ragged.append(of_client[: steps or None])
    widths = {len(b) for of_client in ragged for b in of_client}
    alike = len(widths) == 1 and len(set(map(len, ragged))) == 1
    even = torch.stack([torch.stack(r) for r in ragged]) if alike else None
    return Plan(chosen, who, even, ragged, dice, augment)
