"""A task's data: examples, and who holds which of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from leakbench.base.errors import UsageError
from leakbench.base.lazy import torch
from leakbench.base.streams import shared
from leakbench.base.tree import Tree
from leakbench.federation.parties import Batch

if TYPE_CHECKING:
    from torch import Tensor

CHUNK = 1 << 18  # words at once
MORE = ("targets", "client", "attribute")  # of examples, beside inputs and classes


@dataclass(frozen=True)
class Examples:
    """Inputs with their classes."""

    # (n, ...) uint8, 0 to 255 for 0 to 1, or floats in the task's ``input_range``.
    stored: Tensor
    y: Tensor  # (n,) int64
    # Of the floats that are made of ``stored``.
    dtype: torch.dtype = field(default_factory=lambda: torch.float64)
    # (n, ...) int64, where the network is to say more than a class: captions (n, T), padded with 0.
    targets: Tensor | None = None
    # (n,) int64, where it is asked whether a client was trained on them: which client.
    client: Tensor | None = None
    # (n,) int64, 0 to V - 1, where the data have an attribute beside the class: whose each is, say.
    attribute: Tensor | None = None

    @classmethod
    def of(cls, tree: Tree) -> Examples:
        """From what ``tree`` gives."""
        return cls(tree["x"], tree["y"], **{k: tree.get(k) for k in MORE})

    @property
    def tree(self) -> Tree:
        """As it stands in a file: x, y, and targets, clients, attributes where there are some."""
        more = {k: getattr(self, k) for k in MORE}
        return {"x": self.stored, "y": self.y, **{k: v for k, v in more.items() if v is not None}}

    def batch(self, rows: Tensor) -> Batch:
        """The examples in ``rows`` (any shape)."""
        targets = None if self.targets is None else self.targets[rows]
        return Batch(self.images(rows), self.y[rows], targets)

    def some(self, rows: Tensor) -> Examples:
        """The examples in ``rows`` (k,), as they are stored."""
        more = (None if t is None else t[rows] for t in self._more)
        return Examples(self.stored[rows], self.y[rows], self.dtype, *more)

    @property
    def _more(self) -> tuple[Tensor | None, ...]:
        return tuple(getattr(self, k) for k in MORE)

    @property
    def shown(self) -> Tensor:
        """(n,) int64: the number of the input that each example shows, in order.

        Examples of one input with several targets lie side by side; without targets each shows its
        own.
        """
        if self.targets is None:
            return torch.arange(len(self), device=self.y.device)
        rows = range(1, len(self))
        new = [not torch.equal(self.stored[i], self.stored[i - 1]) for i in rows]
        return torch.tensor([0, *new], device=self.y.device).cumsum(0)

    def gallery(self) -> Examples:
        """Every input once, in an order that tells nothing, and without its class or target."""
        rows = in_gallery(self.shown)
        return Examples(self.stored[rows], torch.zeros_like(self.y[rows]), self.dtype)

    def __len__(self) -> int:
        return len(self.y)

    @cached_property
    def marks(self) -> Tensor:
        """(n,) int64, a number for each input as it is stored, see ``marks``."""
        return marks(self.stored)

    @property
    def x(self) -> Tensor:
        """All inputs (n, ...) as floats; for large sets take ``images`` of some rows."""
        return self._floats(self.stored)

    def images(self, rows: Tensor) -> Tensor:
        """The inputs in ``rows`` (any shape) as floats, (*rows.shape, ...)."""
        return self._floats(self.stored[rows])

    def _floats(self, stored: Tensor) -> Tensor:
        return stored.to(self.dtype) / 255 if stored.dtype == torch.uint8 else stored.to(self.dtype)

    def to(self, device: torch.device | str, dtype: torch.dtype) -> Examples:
        """The same on another device and in another precision."""
        stored = self.stored.to(device)
        if stored.dtype != torch.uint8:
            stored = stored.to(dtype)
        more = (None if t is None else t.to(device) for t in self._more)
        return Examples(stored, self.y.to(device), dtype, *more)


@dataclass(frozen=True)
class TaskData:
    """What a task loads."""

    train: Examples
    test: Examples
    # What an attacker may be granted: of the task alone, disjoint from train and test.
    aux: Examples
    rows: Tensor  # (C, n_max) int64: each client's rows of ``train``, padded with its first
    counts: Tensor  # (C,) int64
    client_class: Tensor  # (C,) the class that a client stands for, or -1
    # (C,) bool: do all of a client's inputs carry the planted marker? None: the task plants none.
    context: Tensor | None = None
    # Why these are not, byte for byte, the official set's data, a clause; "": they are. None: there
    # is no official set to compare with.
    unofficial: str | None = None
    # (P, 3) int64, for verification: two rows of ``test``, then 1 if both show one person, else 0.
    pairs: Tensor | None = None
    # Tensors of the network by name, laid over those that are drawn before round 1; public.
    pretrained: Mapping[str, Tensor] = field(default_factory=dict)
    # (C, k) int64: rows of ``train`` that each client was dealt and does not train on, drawn at
    # random of all that it was dealt, so that it can be asked which of its examples it did.
    held_out: Tensor | None = None
    # Of each of those who were dealt data and never train its rows (n,) of ``train``; who of all
    # they are was drawn at random, so that it can be asked who trained.
    absent: tuple[Tensor, ...] = ()
    # Examples of which an attacker may be told the attribute; no client trains on them, none is
    # tested. None: the task has no attribute, or was not asked for it.
    attributed: Examples | None = None

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """``counts`` as numbers: shapes depend on them, and nobody may wait for a device."""
        return tuple(self.counts.tolist())

    @cached_property
    def shown_twice(self) -> dict[str, tuple[int, int]]:
        """How many auxiliary inputs are "training" or "test" inputs, too; of how many.

        An input with several targets counts once. Of rows of a few categories, which are
        alike by nature, none: so are most of that set's own.
        """
        alike = len({e.stored.dtype for e in (self.train, self.test, self.aux)}) == 1
        ours, *others = (_marked(e, as_stored=alike) for e in (self.aux, self.train, self.test))
        out = {}
        for what, theirs in zip(("training", "test"), others, strict=True):
            found, twins = int(torch.isin(ours, theirs).sum()), 0.0
            if found:
                times = torch.unique(theirs, return_counts=True)[1]
                twins = float(times[times > 1].sum()) / len(theirs)
            out[what] = (found if found > 2 * twins * len(ours) else 0, len(ours))
        return out

    @property
    def tested(self) -> tuple[Tensor, ...]:
        """All that utility is measured on."""
        more = (self.test.targets, self.pairs)
        return (self.test.stored, self.test.y, *(t for t in more if t is not None))

    def to(self, device: torch.device | str, dtype: torch.dtype) -> TaskData:
        """The same on another device and in another precision."""
        train, test, aux = (e.to(device, dtype) for e in (self.train, self.test, self.aux))
        rows, counts, own = (t.to(device) for t in (self.rows, self.counts, self.client_class))
        context = None if self.context is None else self.context.to(device)
        pairs = None if self.pairs is None else self.pairs.to(device)
        weights = {k: v.to(device) for k, v in self.pretrained.items()}
        why = self.unofficial
        out = None if self.held_out is None else self.held_out.to(device)
        told = None if self.attributed is None else self.attributed.to(device, dtype)
        away = tuple(t.to(device) for t in self.absent)
        moved = TaskData(
            train, test, aux, rows, counts, own, context, why, pairs, weights, out, away, told
        )
        vars(moved)["sizes"] = self.sizes  # as they were on the host
        return moved


def in_gallery(shown: Tensor) -> Tensor:
    """(m,) int64: the rows that ``Examples.gallery`` shows, in its order.

    ``shown``: (n,), of the same examples.
    """
    first = torch.cat([shown.new_ones(1), shown.diff()]).nonzero().flatten()
    return first[shared(0, "gallery").permutation("order", len(first)).to(first.device)]


def one_class_each(train: Examples, test: Examples, aux: Examples, clients: int) -> TaskData:
    """Client c has the training examples of class c."""
    rows, counts = padded([(train.y == c).nonzero().flatten() for c in range(clients)])
    return TaskData(train, test, aux, rows, counts, client_class=torch.arange(clients))


def marks(stored: Tensor) -> Tensor:
    """(n,) int64, a number for each input (n, ...): of equal inputs the same, of others another."""
    flat = stored.contiguous().flatten(1)
    size = flat.shape[1] * flat.element_size()
    # Words of 32 bits: of 64 bits most of a float of few digits would be zeros.
    words = flat.view(_word(size))
    dice = torch.Generator().manual_seed(0)
    weights = 2 * torch.randint(-(2**62), 2**62, (words.shape[1],), generator=dice) + 1
    weights = weights.to(words.device)
    some = torch.split(words, max(1, CHUNK // words.shape[1]))
    return torch.cat([(part.long() * weights).sum(1) for part in some])


def _marked(some: Examples, *, as_stored: bool) -> Tensor:
    found = some.marks if as_stored else marks(some.x)
    return found if some.targets is None else torch.unique(found)


def _word(size: int) -> torch.dtype:
    """The widest that divides a row of so many bytes."""
    return next(k for k in (torch.int32, torch.int16, torch.uint8) if size % k.itemsize == 0)


def padded(parts: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Rows per client as one table, short ones padded with their first row; and the counts.

    Raises:
        UsageError: a client has none.
    """
    none = [c for c, part in enumerate(parts) if not len(part)]
    if none:
        raise UsageError(
            f"client {none[0]} has no examples: give each of {len(parts)} clients one at least, or"
            " say that there are fewer clients."
        )
    longest = max(map(len, parts))
    rows = torch.stack([torch.cat([p, p[:1].expand(longest - len(p))]) for p in parts])
    return rows, torch.tensor([len(p) for p in parts])
