"""Somebody's own data, dealt to clients, with a test set and auxiliary data beside them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from leakbench.base.errors import UsageError, among, suggestion
from leakbench.base.lazy import torch
from leakbench.base.streams import shared
from leakbench.data import splits
from leakbench.federation.input_range import InputRange, declared
from leakbench.federation.task_data import Examples, TaskData, padded
from leakbench.own import arrays, readers

if TYPE_CHECKING:
    from torch import Tensor

STREAM = "own"  # of the draws: the same data and arguments give the same clients
RULES = ("class", "qua", "dir", "iid", "shards")
PARAM = {"qua": 2.0, "dir": 0.5, "shards": 2.0}  # where none is given
SHARE = 0.1  # of the inputs that are auxiliary, or tested, where nothing else is said
BY_ACCIDENT = 0.01  # of the test inputs, that may be training inputs: real sets hold a few


class Clients:
    """Data of one's own over the clients of a federation, checked when they are loaded.

    Args:
        x: (n, ...) inputs: a tensor, an array or a list. Bytes are pictures, 0 to 255 for 0 to 1;
            whole numbers are tokens; floats are pictures, signals or rows of a table.
        y: (n,) the class of each, a whole number from 0 on, or a text.
        clients: how many.
        split: "iid"; "dir", shares of each class drawn from a Dirichlet distribution; "qua", so
            many classes a client; "shards" of the class-sorted set; "class", a class a client.
        param: of the split: concentration, classes or shards of a client.
        rows: in place of clients and split, the rows of each client, or an array (n,) of the
            number of the client that holds each, -1 for nobody.
        test: (inputs, classes) to test on, or the share of x that is taken for it.
        aux: the same of what an attacker may be granted, which no client and no test set holds.
        mean, std: of pictures that were normalised, for each channel or for all.
        input_range: (low, high), where what is measured of the inputs is not what they can be.
        signal: True where pictures are none, but standardised signals without bounds.

    Raises:
        UsageError: something is wrong with them; the sentence names the row, and the client where
            it is somebody's.
    """

    def __init__(
        self,
        x: Any,
        y: Any,
        *,
        clients: int | None = None,
        split: str = "iid",
        param: float | None = None,
        rows: Any = None,
        test: Any = SHARE,
        aux: Any = SHARE,
        mean: Any = None,
        std: Any = None,
        input_range: Any = None,
        signal: bool = False,
    ) -> None:
        every = arrays.inputs(x, "the inputs")
        classes, self.names = arrays.labels(y, len(every), "the labels")
        self.shape = tuple(every.shape[1:])
        self.tokens = every.dtype == torch.int64
        self._x, self._y = every, classes
        held = self._held(rows)
        free = self._free(held)
        tested, free = self._apart("test", test, free, held)
        granted, free = self._apart("aux", aux, free, held)
        self.classes = self._numbered({"test": tested.y, "aux": granted.y})
        if held is None:
            held = self._dealt(free, clients, split, param)
        elif clients not in (None, len(held)):
            raise UsageError(
                f"clients = {clients}, and rows are of {len(held)} clients: leave clients out."
            )
        train, parts = self._train(held)
        table, counts = padded(parts)
        self.data = TaskData(train, tested, granted, table, counts, _stand_for(train.y, parts))
        self.lies_in = self._range(mean, std, input_range, signal=signal)
        self._tested_on_nothing_known()

    # who holds what -------------------------------------------------------------------------------
    def _held(self, rows: Any) -> list[Tensor] | None:
        """The rows of each client, where they are given."""
        if rows is None:
            return None
        n = len(self._x)
        plain = rows.tolist() if hasattr(rows, "tolist") else list(rows)
        if plain and all(isinstance(v, int | float) for v in plain):
            owners = _whole(plain, "the owners in rows")
            if len(owners) != n:
                raise UsageError(
                    f"rows names an owner for {len(owners)} inputs, and there are {n}: expected the"
                    " number of a client for each, or a list of rows for each client."
                )
            return [(owners == c).nonzero().flatten() for c in range(int(owners.max()) + 1)]
        held = [_whole(part, f"the rows of client {c}") for c, part in enumerate(plain)]
        owner: dict[int, int] = {}
        for c, part in enumerate(held):
            for row in part.tolist():
                if not 0 <= row < n:
                    raise UsageError(
                        f"client {c} holds row {row}, and there are {n} inputs: rows are counted"
                        f" from 0 to {n - 1}."
                    )
                if row in owner:
                    raise UsageError(
                        f"row {row} is held by client {owner[row]} and again by client {c}:"
                        " expected every row once."
                    )
                owner[row] = c
        return held

    def _free(self, held: list[Tensor] | None) -> Tensor:
        """The rows that nobody holds yet."""
        free = torch.ones(len(self._x), dtype=torch.bool)
        for part in held or []:
            free[part] = False
        return free.nonzero().flatten()

    def _dealt(
        self, free: Tensor, clients: int | None, split: str, param: float | None
    ) -> list[Tensor]:
        rule = among(split, RULES)
        if rule not in RULES:
            raise UsageError(
                f"split = {split!r}: expected one of {', '.join(RULES)}.{suggestion(split, RULES)}"
            )
        if clients is None and rule == "class":
            clients = self.classes
        if not isinstance(clients, int) or isinstance(clients, bool) or clients < 2:
            raise UsageError(
                f"clients = {clients!r}: expected a whole number from 2 on, among how many the"
                " inputs are dealt; or rows, which say who holds which."
            )
        value = PARAM.get(rule, 1.0) if param is None else float(param)
        how: dict[str, Any] = {"rule": rule, "param": value, "stream": f"task/{STREAM}"}
        y = self._y[free]
        try:
            parts = splits.split_rows(y, clients=clients, classes=self.classes, **how)
        except UsageError as error:  # which speaks as a task's fields are called
            plain = str(error).replace("task.split_param", "param").replace("split_param", "param")
            raise UsageError(plain.replace("task.clients", "clients")) from None
        return [free[part] for part in parts]

    def _train(self, held: list[Tensor]) -> tuple[Examples, list[Tensor]]:
        """All that somebody holds, and who holds which of it."""
        empty = [c for c, part in enumerate(held) if not len(part)]
        if empty or len(held) < 2:
            what = f"client {empty[0]} has no examples" if empty else "there is one client"
            raise UsageError(
                f"{what}: expected two clients or more, each with one example at least."
            )
        every = torch.cat(held).sort().values
        place = torch.full((len(self._x),), -1).index_copy(0, every, torch.arange(len(every)))
        return self._examples(every), [place[part.sort().values] for part in held]

    # what is beside -------------------------------------------------------------------------------
    def _apart(
        self, what: str, given: Any, free: Tensor, held: list[Tensor] | None
    ) -> tuple[Examples, Tensor]:
        """The test set or the auxiliary data, and the rows that are left."""
        if isinstance(given, float | int) and not isinstance(given, bool):
            if not 0 < given < 1:
                raise UsageError(
                    f"{what} = {given}: expected a share of the inputs between 0 and 1, or (inputs,"
                    " classes)."
                )
            many = max(1, round(given * len(self._x)))
            if many >= len(free) + (held is not None):
                raise UsageError(
                    f"{what} = {given} of {len(self._x)} inputs are {many}, and {len(free)} are"
                    f" nobody's: give {what}=(inputs, classes) that no client holds, or leave more"
                    " out of rows."
                )
            order = shared(0, f"{STREAM}/{what}").permutation("rows", len(free))
            taken = torch.zeros(len(free), dtype=torch.bool)
            taken[order[:many]] = True
            return self._examples(free[taken]), free[~taken]
        if not isinstance(given, tuple | list) or len(given) != 2:
            raise UsageError(
                f"{what} is {type(given).__name__}: expected (inputs, classes), or a share of the"
                " inputs between 0 and 1."
            )
        x = arrays.inputs(given[0], f"the {what} inputs")
        y, names = arrays.labels(given[1], len(x), f"the {what} labels")
        if tuple(x.shape[1:]) != self.shape:
            raise UsageError(
                f"the {what} inputs are {tuple(x.shape[1:])} each, and the clients' are"
                f" {self.shape}: expected the same."
            )
        if x.dtype != self._x.dtype:
            raise UsageError(
                f"the {what} inputs are {x.dtype}, and the clients' {self._x.dtype}: expected the"
                " same, bytes or floats, prepared in the same way."
            )
        if names != self.names:
            odd = sorted({*names} ^ {*self.names})
            if not {*names} <= {*self.names}:
                raise UsageError(
                    f"the {what} labels and the clients' are not of the same classes: {odd[0]!r} is"
                    " on one side alone."
                )
            y = torch.tensor([self.names.index(names[int(k)]) for k in y], dtype=torch.int64)
        return Examples(x, y, _floats(x)), free

    def _examples(self, rows: Tensor) -> Examples:
        return Examples(self._x[rows], self._y[rows], _floats(self._x))

    def _numbered(self, beside: dict[str, Tensor]) -> int:
        """How many classes there are: of each up to the last there is an input."""
        there = self._y.unique()  # no count of each: one of them may be a thousand million
        if len(there) < 2:
            raise UsageError(
                f"all {len(self._y)} labels are {int(there[0])}: expected two classes or more."
            )
        gone = (there != torch.arange(len(there))).nonzero().flatten().tolist()
        if gone:
            raise UsageError(
                f"no input is of class {gone[0]}, and labels go up to {int(there[-1])}: number"
                " the classes from 0 on without a gap (from 1 on, take one off)."
            )
        for what, y in beside.items():
            if int(y.max()) >= len(there):
                row = int((y >= len(there)).nonzero()[0])
                raise UsageError(
                    f"the {what} labels hold {int(y[row])} in row {row}, and no input of x is of"
                    f" that class: expected 0 to {len(there) - 1}."
                )
        return len(there)

    def _range(self, mean: Any, std: Any, given: Any, *, signal: bool) -> InputRange:
        if given is not None or signal:
            return declared(given, self.shape, signal=signal)
        if (mean is None) != (std is None):
            raise UsageError("mean and std go together: give both, or neither.")
        sets = (self.data.train, self.data.test, self.data.aux)
        return arrays.measured_range(torch.cat([e.stored for e in sets]), mean, std)

    def _tested_on_nothing_known(self) -> None:
        """Test inputs that are training inputs measure what was learnt by heart."""
        train, test = self.data.train, self.data.test
        known = torch.isin(test.marks, train.marks)
        count = torch.unique(train.marks, return_counts=True)[1]
        twins = float(count[count > 1].sum()) / len(train)  # of tables, alike by nature
        if int(known.sum()) > max(BY_ACCIDENT, 2 * twins) * len(test):
            row = int(known.nonzero()[0])
            same = int((train.marks == test.marks[row]).nonzero()[0])
            c = int((self.data.rows == same).any(1).nonzero()[0])
            raise UsageError(
                f"{int(known.sum())} of {len(test)} test inputs are training inputs, too (row {row}"
                f" of the test set is client {c}'s): test on what nobody trains on."
            )

    # what can be asked ----------------------------------------------------------------------------
    def __len__(self) -> int:
        """How many clients."""
        return len(self.data.sizes)

    def client(self, c: int) -> tuple[Tensor, Tensor]:
        """Inputs (n, ...) float32 and classes (n,) int64 of client ``c``, rows in their order.

        Raises:
            UsageError: there is no such client.
        """
        self.known(c)
        rows = self.data.rows[c, : self.data.sizes[c]]
        return self.data.train.images(rows), self.data.train.y[rows]

    def known(self, c: int) -> None:
        """Raise UsageError where there is no client ``c``."""
        if not isinstance(c, int) or not 0 <= c < len(self):
            raise UsageError(f"client {c!r}: expected a number from 0 to {len(self) - 1}.")

    @property
    def test(self) -> tuple[Tensor, Tensor]:
        """Inputs (n, ...) float32 and classes (n,) int64 that are tested on."""
        return self.data.test.x, self.data.test.y

    @property
    def aux(self) -> tuple[Tensor, Tensor]:
        """Inputs (n, ...) float32 and classes (n,) int64 that an attacker may be granted."""
        return self.data.aux.x, self.data.aux.y

    def __repr__(self) -> str:
        sizes = self.data.sizes
        return (
            f"{len(self)} clients with {min(sizes)} to {max(sizes)} of {sum(sizes)} examples"
            f" {self.shape}, {self.classes} classes, inputs in {self.lies_in};"
            f" {len(self.data.test)} tested, {len(self.data.aux)} auxiliary"
        )

    # where data come from -------------------------------------------------------------------------
    @classmethod
    def from_folder(
        cls, folder: str | Path, *, size: int | tuple[int, int] = 32, grey: bool = False, **how: Any
    ) -> Self:
        """Pictures in a folder for each class, (n, 3, size, size) bytes, or grey (n, 1, ...).

        Folders "train" and "test" (or "val") in it are the clients' and what is tested on.
        ``how``: as of the class itself.

        Raises:
            UsageError: there is no picture, or one cannot be read.
        """
        return cls._read(readers.folder(Path(folder), size, grey=grey), how)

    @classmethod
    def from_npz(cls, file: str | Path, **how: Any) -> Self:
        """Arrays of one file: ``x`` and ``y``, or as MedMNIST has them.

        Those are train_images, train_labels, test_images, test_labels, and of val_images with
        val_labels the auxiliary data.

        Raises:
            UsageError: it cannot be read, or there are no such arrays.
        """
        return cls._read(readers.npz(Path(file)), how)

    @classmethod
    def from_csv(cls, file: str | Path, *, label: str, client: str = "", **how: Any) -> Self:
        """Rows of a table: the column ``label`` is the class, ``client`` says whose a row is.

        Columns of numbers are standardised; one of texts becomes a column for each text.

        Raises:
            UsageError: it cannot be read, a column is not there, or a cell is empty.
        """
        return cls._read(readers.csv(Path(file), label, client), how)

    @classmethod
    def from_hf(
        cls,
        dataset: Any,
        *,
        x: str = "",
        y: str = "label",
        size: int | tuple[int, int] | None = None,
        **how: Any,
    ) -> Self:
        """A ``datasets.Dataset``, a ``DatasetDict`` with "train" (and "test"), or a partitioner.

        Of a partitioner of flwr-datasets each partition is a client. ``x``, ``y``: the columns;
        pictures are of ``size``.

        Raises:
            UsageError: a column is not there, or does not hold equal inputs.
        """
        return cls._read(readers.hugging_face(dataset, x, y, size), how)

    @classmethod
    def from_torchvision(cls, train: Any, test: Any = None, **how: Any) -> Self:
        """A map-style data set of (input, class), as torchvision's are; ``test``: another one.

        Its own transform is applied.

        Raises:
            UsageError: inputs are of several shapes, or no tensors.
        """
        return cls._read(readers.torchvision(train, test), how)

    @classmethod
    def _read(cls, found: dict[str, Any], how: dict[str, Any]) -> Self:
        """From what a reader found; what is said in ``how`` goes before."""
        if "clients" in how or "split" in how:
            found.pop("rows", None)
        return cls(**{**found, **how})


def _whole(part: Any, whose: str) -> Tensor:
    """Whole numbers as (n,) int64; ``whose`` names them."""
    plain = part.tolist() if hasattr(part, "tolist") else part
    if not isinstance(plain, Sequence) or isinstance(plain, str):
        plain = [part]
    if not all(isinstance(v, int) and not isinstance(v, bool) for v in plain):
        raise UsageError(f"{whose} are {str(part)[:40]}: expected whole numbers.")
    return torch.tensor(list(plain), dtype=torch.int64)


def _floats(x: Tensor) -> torch.dtype:
    return torch.float32


def _stand_for(y: Tensor, parts: Sequence[Tensor]) -> Tensor:
    """(C,) int64: the class of each client's examples, if they are of one and each has another."""
    first = torch.tensor([int(y[part[0]]) for part in parts], dtype=torch.int64)
    alone = all(bool((y[part] == k).all()) for part, k in zip(parts, first, strict=True))
    return first if alone and len({*first.tolist()}) == len(first) else torch.full_like(first, -1)


clients = Clients  # as it is called: leakbench.clients(x, y, clients=20)
