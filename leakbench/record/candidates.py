"""Examples of which it is asked whether a client was trained on them: membership.

Half of those that are said to be of a client are its own (members), as many it never saw. Each of
these has the class of a member, so that neither class nor client tells anything: they are auxiliary
data, of which an attacker is granted the rest; or what the task held out of each client's data
(``TaskData.held_out``), which differs from it by nothing but that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from leakbench.base.lazy import torch
from leakbench.base.streams import Rng, shared
from leakbench.federation.task_data import Examples, TaskData, marks

if TYPE_CHECKING:
    from torch import Tensor

MOST = 1000  # members, of all clients together; as many others
EACH = 50  # members of a client
NEVER = -1  # in place of a member's row
Pair = tuple[int, int, int]  # client, row of a member, row of another


def drawn(data: TaskData, seed: int) -> tuple[Examples, Tensor] | None:
    """The candidates of a run, and which are members; None where there is nobody to pair with.

    Returns:
        Examples (n,) with ``client``; (n,) int64, a member's row of ``train``, -1 for the others.
    """
    if data.held_out is None and data.aux.stored.dtype != data.train.stored.dtype:
        return None  # a number's last digit would tell
    rng, mine = shared(seed, "candidates"), data.train.marks
    aux = data.aux.marks if data.aux.stored.dtype == data.train.stored.dtype else mine[:0]
    # What an attacker is granted, or another client trained on, would be known by that.
    # Of inputs that occur again (rows of a few categories) only rare ones would be nobody's.
    own = ~torch.isin(mine, aux) & _once(mine)
    if data.held_out is None:
        others, free = data.aux, ~torch.isin(aux, mine) & _once(aux)
        pairs = list(_of_a_class(data, own, free, rng))
    else:
        # Chosen as members are: of two candidates each is as likely the one that was held out.
        others, pairs = data.train, list(_held_out(data, own, rng))
    if not pairs:
        return None
    client, row, other = torch.tensor(pairs).unbind(1)
    both = _joined(data.train.some(row), others.some(other))
    found = replace(both, client=client.repeat(2))
    member = torch.cat([row, torch.full_like(row, NEVER)])
    order = rng.permutation("order", len(member))
    order = order[found.client[order].argsort(stable=True)] if found.client is not None else order
    return found.some(order), member[order]


def without(aux: Examples, candidates: Examples) -> Examples:
    """The auxiliary data of who is granted ``candidates``: none of them among it."""
    alike = aux.stored.dtype == candidates.stored.dtype
    ours, theirs = (e.marks if alike else marks(e.x) for e in (aux, candidates))
    return aux.some((~torch.isin(ours, theirs)).nonzero().flatten())


def _once(marks: Tensor) -> Tensor:
    """(n,) bool: which occur once."""
    _, again, times = torch.unique(marks, return_inverse=True, return_counts=True)
    return (times == 1)[again]


def _joined(one: Examples, other: Examples) -> Examples:
    """Both, one after the other."""
    targets = None
    if one.targets is not None and other.targets is not None:
        targets = torch.cat([one.targets, other.targets])
    x, y = torch.cat([one.stored, other.stored]), torch.cat([one.y, other.y])
    return Examples(x, y, one.dtype, targets)


def _of_a_class(data: TaskData, own: Tensor, free: Tensor, rng: Rng) -> Iterator[Pair]:
    """Clients in turns: a member, and a free auxiliary example of its class; half of these stay."""
    spare: dict[int, list[int]] = {}
    order = rng.permutation("auxiliary", len(data.aux))
    for i in order.tolist():
        spare.setdefault(int(data.aux.y[i]), []).append(i)
    for c, some in spare.items():
        spare[c] = [i for i in some[: len(some) // 2] if free[i]]
    left = [_own(data, c, own, rng) for c in range(len(data.sizes))]
    for _ in range(_each(data)):
        for c, rows in enumerate(left):
            while rows:
                row = rows.pop()
                fits = spare.get(int(data.train.y[row]))
                if fits:
                    yield c, row, fits.pop()
                    break


def _held_out(data: TaskData, own: Tensor, rng: Rng) -> Iterator[Pair]:
    """As many of a client's own examples, and of those that were held out of them."""
    held = torch.empty(0) if data.held_out is None else data.held_out
    for c, out in enumerate(held):
        others, most = out[own[out]].tolist(), _each(data)
        yield from ((c, *two) for two in zip(_own(data, c, own, rng), others[:most], strict=False))


def _own(data: TaskData, client: int, own: Tensor, rng: Rng) -> list[int]:
    """The rows of a client that may be asked for, in an order drawn at random."""
    rows = data.rows[client, : data.sizes[client]]
    rows = rows[rng.permutation(f"client/{client}", len(rows))]
    return rows[own[rows]].tolist()


def _each(data: TaskData) -> int:
    return min(EACH, max(1, MOST // len(data.sizes)))
