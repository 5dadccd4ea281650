"""The examination of what a task loads: is it what its class says, and can anything be made of it?

Torch takes much of what is wrong without a word (a label of -100, a test label beyond the classes)
or says it far from where it came in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leakbench.base.errors import UsageError
from leakbench.base.lazy import torch
from leakbench.federation.input_range import DECLARE

if TYPE_CHECKING:
    from torch import Tensor

    from leakbench.federation.input_range import InputRange
    from leakbench.federation.task_data import Examples, TaskData

# Of the auxiliary inputs, that may be training or test inputs: real sets hold a few by accident.
BY_ACCIDENT = 0.01


@dataclass(frozen=True)
class Declared:
    """What a task's class says of its data."""

    name: str
    shape: tuple[int, ...]  # of one input
    classes: int
    clients: int
    lies_in: InputRange
    targets: str  # "classes" or "tokens"


class Examination:
    """Of what a task loads: what is wrong with it, in one sentence."""

    def __init__(self, task: Declared, data: TaskData) -> None:
        self.task, self.data, self.name = task, data, task.name
        self.sets = {"training": data.train, "test": data.test, "auxiliary": data.aux}

    def passed(self) -> TaskData:
        """The data, of which all that is used is as the task says.

        Raises:
            UsageError: something is not; the sentence names the set, and the row and the client
                where it is a row's.
        """
        for what, some in self.sets.items():
            self._inputs(what, some)
            self._labels(what, some)
            self._targets(what, some)
        self._table()
        self._stands()
        self._pairs()
        self._apart()
        return self.data

    def _inputs(self, what: str, some: Examples) -> None:
        """(n, *shape), of test inputs that are compared in pairs (n, crops, *shape), finite."""
        shape, stored = tuple(self.task.shape), some.stored
        whose = f"the {what} inputs of {self.name}"
        if not isinstance(stored, torch.Tensor) or stored.is_complex() or not stored.ndim:
            kind = getattr(stored, "dtype", type(stored).__name__)
            raise UsageError(f"{whose} are {kind}: expected a tensor (n, ...) of real numbers.")
        if not len(stored):
            raise UsageError(f"{self.name} has no {what} examples: load one at least.")
        paired = what == "test" and self.data.pairs is not None
        crops = int(paired and stored.ndim == len(shape) + 2)
        if tuple(stored.shape[1 + crops :]) != shape:
            raise UsageError(
                f"{whose} are {tuple(stored.shape[1:])} each, and its class says {shape}: let"
                " `shape` there say how they are."
            )
        if stored.is_floating_point() and not bool(torch.stack(stored.aminmax()).isfinite().all()):
            wrong = stored[~stored.isfinite()][0]
            row = int((~stored.isfinite()).flatten(1).any(1).nonzero()[0])
            raise UsageError(
                f"{whose} hold {float(wrong)} in row {row}{self._holder(what, row)}: expected"
                " finite numbers."
            )
        lies = self.task.lies_in
        if stored.dtype == torch.uint8 and lies.plain:
            return
        if stored.dtype == torch.uint8 and lies.bounded:
            raise UsageError(
                f"{whose} are bytes, which stand for [0, 1]: load floats that lie in {lies}, or"
                " declare no input_range."
            )
        beyond = lies.beyond(some.x)
        if beyond:
            raise UsageError(
                f"{whose} {beyond}: say in the task's class where they lie, {DECLARE}."
            )

    def _labels(self, what: str, some: Examples) -> None:
        """A class for each input; of people who are no clients any number from 0 on."""
        whose = f"the {what} labels of {self.name}"
        self._whole(whose, some.y, (len(some.stored),), "a class for each input")
        strangers = what != "training" and self.data.pairs is not None
        wrong = some.y < 0 if strangers else (some.y < 0) | (some.y >= self.task.classes)
        if bool(wrong.any()):
            row = int(wrong.nonzero()[0])
            most = "on" if strangers else f"to {self.task.classes - 1}"
            raise UsageError(
                f"{whose} hold {int(some.y[row])} in row {row}{self._holder(what, row)}: expected"
                f" the number of a class, from 0 {most}."
            )

    def _targets(self, what: str, some: Examples) -> None:
        """Tokens for each input where the network is to say tokens."""
        whose, asked = f"the {what} targets of {self.name}", self.task.targets == "tokens"
        if (some.targets is not None) != asked:
            raise UsageError(
                f"{whose} are {'missing' if asked else 'there'}, and its class says targets ="
                f" {self.task.targets!r}: tokens go with inputs that are described, and with no"
                " others."
            )
        if some.targets is not None:
            size = (len(some.stored), *some.targets.shape[1:])
            self._whole(whose, some.targets, size, "tokens for each input")

    def _whole(self, whose: str, value: Tensor, size: Sequence[int], meaning: str) -> None:
        """Raise UsageError where ``value`` is not int64 of this size."""
        kind, found = getattr(value, "dtype", type(value).__name__), tuple(value.shape)
        if not isinstance(value, torch.Tensor) or value.dtype != torch.int64 or found != (*size,):
            raise UsageError(
                f"{whose} are {kind} {found}: expected {meaning}, torch.int64 {(*size,)}."
            )

    def _table(self) -> None:
        """Who holds which training examples."""
        rows, counts, clients = self.data.rows, self.data.counts, self.task.clients
        longest = rows.shape[-1]
        self._whole(f"the rows of {self.name}", rows, (clients, longest), "a line for each client")
        self._whole(f"the counts of {self.name}", counts, (clients,), "a number for each client")
        wrong = (counts < 1) | (counts > longest)
        if bool(wrong.any()):
            c = int(wrong.nonzero()[0])
            raise UsageError(
                f"client {c} of {self.name} counts {int(counts[c])} examples: expected one at"
                f" least, and {longest} at most, for so long is its line of rows."
            )
        wrong = (rows < 0) | (rows >= len(self.data.train))
        if bool(wrong.any()):
            c, i = wrong.nonzero()[0].tolist()
            raise UsageError(
                f"client {c} of {self.name} holds row {int(rows[c, i])}, and there are"
                f" {len(self.data.train)} training examples: rows are counted from 0."
            )

    def _stands(self) -> None:
        """The class that a client stands for is the class of what it holds."""
        data, own = self.data, self.data.client_class
        whose = f"the client classes of {self.name}"
        self._whole(whose, own, (self.task.clients,), "a class for each client, or -1")
        held = torch.arange(data.rows.shape[1]) < data.counts[:, None]
        wrong = held & (own[:, None] >= 0) & (data.train.y[data.rows] != own[:, None])
        if bool(wrong.any()):
            c, i = wrong.nonzero()[0].tolist()
            row = int(data.rows[c, i])
            raise UsageError(
                f"client {c} of {self.name} stands for class {int(own[c])}, and its example in row"
                f" {row} is of class {int(data.train.y[row])}: give clients of several classes the"
                " client_class -1."
            )

    def _pairs(self) -> None:
        """Pairs are of rows of the test set, and say whether both are of one identity."""
        pairs, y = self.data.pairs, self.data.test.y
        if pairs is None:
            return
        self._whole(f"the pairs of {self.name}", pairs, (len(pairs), 3), "two rows, and 1 or 0")
        i, j, alike = pairs.T
        wrong = (pairs[:, :2] < 0).any(1) | (pairs[:, :2] >= len(y)).any(1)
        known = torch.where(wrong[:, None], 0, pairs[:, :2])
        wrong |= (y[known[:, 0]] == y[known[:, 1]]).long() != alike
        if bool(wrong.any()):
            k = int(wrong.nonzero()[0])
            raise UsageError(
                f"pair {k} of {self.name} is ({int(i[k])}, {int(j[k])}, {int(alike[k])}): expected"
                f" two rows of {len(y)} test examples, and 1 if both have one label, else 0."
            )

    def _apart(self) -> None:
        """Auxiliary inputs are nobody's: of a victim's own a floor is made that hides leaks."""
        for what, (found, many) in self.data.shown_twice.items():
            if found > BY_ACCIDENT * many:
                raise UsageError(
                    f"{found} of {many} auxiliary inputs of {self.name} are among its {what}"
                    " inputs, and an attacker may be granted them all: load others, that no client"
                    " holds and nothing is tested on."
                )

    def _holder(self, what: str, row: int) -> str:
        """Whose row of the training set it is, in brackets."""
        if what != "training" or not isinstance(self.data.rows, torch.Tensor):
            return ""
        own = (self.data.rows == row).nonzero()
        return f" (client {int(own[0][0])}'s)" if len(own) else ""
