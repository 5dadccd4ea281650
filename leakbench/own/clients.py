"""Somebody's own data, dealt to clients, with a test set and auxiliary data beside them."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeGuard

from leakbench.base.arguments import arguments_of, refuse_other_arguments
from leakbench.base.errors import UsageError, among, suggestion
from leakbench.base.lazy import torch
from leakbench.base.streams import shared
from leakbench.data import splits
from leakbench.federation.input_range import InputRange, declared
from leakbench.federation.task_data import Examples, TaskData, padded
from leakbench.own import arrays, readers
from leakbench.own.notes import note

if TYPE_CHECKING:
    from torch import Tensor

CALLED = "leakbench.clients"
STREAM = "own"  # of the draws: the same data and arguments give the same clients
RULES = ("class", "qua", "dir", "iid", "shards")
PARAM = {"qua": 2.0, "dir": 0.5, "shards": 2.0}  # where none is given
# What a split calls things, by what they are called here.
OURS = (("task.", ""), ("split_param", "param"), ("a larger mean_local_size", "more inputs"))
SHARE = 0.1  # of the inputs that are auxiliary, or tested, where nothing else is said
OFTEN = 0.1  # of inputs taken out of x as a share, that are training inputs: x repeats itself
BY_ACCIDENT = 0.01  # of the test inputs, that may be training inputs: real sets hold a few


class ClientData:
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
        test: (inputs, classes) to test on, or the share of x that is taken for it, 0.1 where
            nothing is said.
        aux: the same of what an attacker may be granted, which no client and no test set holds.
        mean: of pictures that were normalised, for each channel or for all.
        std: likewise.
        input_range: (low, high), where what is measured of the inputs is not what they can be.
        signal: True where pictures are none, but signals without bounds.

    Raises:
        UsageError: something is wrong with them; the sentence names the row, and the client where
            it is somebody's.
    """

    @arguments_of(CALLED)
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
        self.untold = False  # is it unknown what clients hold?
        every = self._inputs(x, rows)
        classes, self.names = arrays.labels(y, len(every), "the labels")
        self.shape = tuple(every.shape[1:])
        self.tokens = every.dtype == torch.int64
        self._x, self._y = every, classes
        held = _held(rows, len(every))
        free = self._free(held)
        tested, free = self._apart("test", test, free, held)
        granted, free = self._apart("aux", aux, free, held)
        self.classes = self._numbered({"test": tested.y, "aux": granted.y})
        if held is None:
            held = self._dealt(free, clients, split, param)
        elif split != "iid" or param is not None:
            raise UsageError(
                "rows say who holds what, and so does split: leave split and param out, or rows."
            )
        elif clients not in (None, len(held)):
            raise UsageError(
                f"clients = {clients}, and rows are of {len(held)} clients: leave clients out."
            )
        train, parts = self._train(held)
        table, counts = padded(parts)
        self.data = TaskData(train, tested, granted, table, counts, _stand_for(train.y, parts))
        self.lies_in = self._range(mean, std, input_range, signal=signal)
        self._nothing_twice(test=test, aux=aux)
        large = arrays.far_from_one(self._x)
        if large:
            note(large)
        del self._x, self._y  # they are in ``data``

    # who holds what -------------------------------------------------------------------------------
    def _inputs(self, x: Any, rows: Any) -> Tensor:
        """The inputs; of a wrong one it is said whose it is, where ``rows`` tell."""
        try:
            return arrays.inputs(x, "the inputs")
        except arrays.WrongRowError as error:
            for c, part in enumerate(_held(rows, error.count) or []):
                if error.row in part.tolist():
                    raise UsageError(f"client {c}: {error}") from None
            raise

    def _free(self, held: list[Tensor] | None) -> Tensor:
        """The rows that nobody holds yet."""
        free = torch.ones(len(self._x), dtype=torch.bool)
        for part in held or []:
            free[part] = False
        return free.nonzero().flatten()

    def _dealt(
        self, free: Tensor, clients: int | None, split: str, param: float | None
    ) -> list[Tensor]:
        rule = among(str(split), RULES)
        if rule not in RULES:
            raise UsageError(
                f"split = {split!r}: expected one of {', '.join(RULES)}."
                f"{suggestion(rule, RULES) if isinstance(split, str) else ''}"
            )
        value = PARAM.get(rule, 1.0) if param is None else param
        if param is not None and rule not in PARAM:
            raise UsageError(f"param = {param!r}: split {rule} has none; leave it out.")
        if not _is_share(value) or not math.isfinite(value):
            raise UsageError(f"param = {param!r}: expected a number, as {PARAM[rule]:g}.")
        if clients is None and rule == "class":
            clients = self.classes
        if not arrays.is_whole(clients) or clients < 2:
            raise UsageError(
                f"clients = {clients!r}: expected a whole number from 2 on, among how many the"
                " inputs are dealt; or rows, which say who holds which."
            )
        how: dict[str, Any] = {"rule": rule, "param": float(value), "stream": f"task/{STREAM}"}
        y = self._y[free]
        try:
            parts = splits.split_rows(y, clients=int(clients), classes=self.classes, **how)
        except UsageError as error:  # which speaks as a task's fields are called
            plain = str(error)
            for theirs, ours in OURS:
                plain = plain.replace(theirs, ours)
            raise UsageError(plain) from None
        return [free[part] for part in parts]

    def _train(self, held: list[Tensor]) -> tuple[Examples, list[Tensor]]:
        """All that somebody holds, and who holds which of it."""
        empty = [c for c, part in enumerate(held) if not len(part)]
        if empty or len(held) < 2:
            there = f"rows are of {len(held)} clients" if len(held) != 1 else "there is one client"
            what = f"client {empty[0]} has no examples" if empty else there
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
        if _is_share(given):
            if not 0 < given < 1:
                raise UsageError(
                    f"{what} = {given}: expected a share of the inputs between 0 and 1, or (inputs,"
                    " classes)."
                )
            many = max(1, round(given * len(self._x)))
            if many >= len(free) + (held is not None):
                raise UsageError(
                    f"{what} = {given} of {len(self._x)} inputs are {many}, and {len(free)} are"
                    f" left: give {what}=(inputs, classes) that no client holds, or"
                    f" {'a smaller share' if held is None else 'leave more out of rows'}."
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
        if bool(names) != bool(self.names):
            kinds = ("texts", "numbers") if names else ("numbers", "texts")
            raise UsageError(
                f"the {what} labels are {kinds[0]}, and the clients' {kinds[1]}: expected the same."
            )
        if names != self.names:
            odd = sorted({*names} - {*self.names})
            if odd:
                raise UsageError(
                    f"the {what} labels hold {odd[0]!r}, and no client's input is of that class:"
                    f" expected the same classes.{suggestion(odd[0], self.names)}"
                )
            y = torch.tensor([self.names.index(names[int(k)]) for k in y], dtype=torch.int64)
        return Examples(x.clone(), y.clone(), torch.float32), free  # theirs may change

    def _examples(self, rows: Tensor) -> Examples:
        return Examples(self._x[rows], self._y[rows], torch.float32)

    def _numbered(self, beside: dict[str, Tensor]) -> int:
        """How many classes there are: of each up to the last there is an input."""
        there = torch.unique(self._y)  # no count of each: one of them may be a thousand million
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
                    f"the {what} labels hold {int(y[row])} in row {row} ({arrays.FROM_0}), and no"
                    f" input of x is of that class: expected 0 to {len(there) - 1}."
                )
        return len(there)

    def _range(self, mean: Any, std: Any, given: Any, *, signal: bool) -> InputRange:
        if not isinstance(signal, bool):
            raise UsageError(f"signal = {signal!r}: expected True or False.")
        if (mean is None) != (std is None):
            raise UsageError("mean and std go together: give both, or neither.")
        if mean is not None and (given is not None or signal):
            raise UsageError("mean and std say where inputs lie: leave input_range and signal out.")
        every = torch.cat([e.stored for e in (self.data.train, self.data.test, self.data.aux)])
        if given is not None or signal:
            found = declared(given, self.shape, signal=signal)
        else:
            found = arrays.measured_range(every, mean, std)
        if every.dtype == torch.uint8 and not found.plain:
            raise UsageError(
                f"the inputs are bytes, 0 to 255 for 0 to 1, and would lie in {found}: leave mean,"
                " std and input_range out, or give floats."
            )
        beyond = "" if every.dtype == torch.uint8 else found.beyond(every)
        if beyond:
            raise UsageError(
                f"the inputs {beyond}, where they were said to lie: give mean and std, or"
                " input_range=(low, high), as they are."
            )
        return found

    def _nothing_twice(self, *, test: Any, aux: Any) -> None:
        """Who tests on training inputs measures what was learnt by heart; so of aux.

        Shares of a table are taken as they come: its rows are alike by nature.
        """
        data, picture = self.data, arrays.is_picture(self.data.train.stored)
        for what, given, some in (("test", test, data.test), ("aux", aux, data.aux)):
            _, many = _shared(some, data.train) if picture and _is_share(given) else (0, 0)
            if many > max(2, OFTEN * len(some)):
                raise UsageError(
                    f"x holds inputs several times: {many} of {len(some)} that are taken for {what}"
                    " are training inputs, too. Take what is repeated out of x, or give"
                    f" {what}=(inputs, classes)."
                )
        test, aux = not _is_share(test), not _is_share(aux)
        if test:
            row, many = _shared(data.test, data.train)
            if many:
                raise UsageError(
                    f"{many} of {len(data.test)} test inputs are training inputs, too (row {row} of"
                    f" the test set, {arrays.FROM_0}, is client"
                    f" {self._holder(data.test, row)}'s): test on what nobody trains on."
                )
        if aux:
            row, many = _shared(data.aux, data.train)
            if many:
                raise UsageError(
                    f"{many} of {len(data.aux)} aux inputs are training inputs, too (row {row} of"
                    f" aux, {arrays.FROM_0}, is client {self._holder(data.aux, row)}'s): an"
                    " attacker may be granted them; give what nobody holds."
                )
        if test or aux:
            row, many = _shared(data.aux, data.test)
            if many:
                raise UsageError(
                    f"{many} of {len(data.aux)} aux inputs are test inputs, too (row {row} of aux,"
                    f" {arrays.FROM_0}): expected inputs that no test set holds."
                )

    def _holder(self, some: Examples, row: int) -> int:
        """The client that holds the input in ``row`` of ``some``."""
        same = int((self.data.train.marks == some.marks[row]).nonzero()[0])
        return int((self.data.rows == same).any(1).nonzero()[0])

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
        if not arrays.is_whole(c) or not 0 <= c < len(self):
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
        sizes, lies = self.data.sizes, self.lies_in
        inputs = f"inputs in {lies}" if lies.bounded else "inputs without bounds"
        if self.tokens:
            inputs = f"tokens up to {int(self.data.train.stored.max())}"
        return (
            f"{len(self)} clients with {min(sizes)} to {max(sizes)} of {sum(sizes)} examples"
            f" {self.shape}, {self.classes} classes, {inputs};"
            f" {len(self.data.test)} tested, {len(self.data.aux)} auxiliary"
        )

    # where data come from -------------------------------------------------------------------------
    @classmethod
    @arguments_of("leakbench.clients.from_folder")
    def from_folder(
        cls, folder: str | Path, *, size: int | tuple[int, int] = 32, grey: bool = False, **how: Any
    ) -> Self:
        """Pictures in a folder for each class, (n, 3, size, size) bytes, or grey (n, 1, ...).

        Folders "train" and "test" (or "val") in it are the clients' and what is tested on.
        ``how``: as of the class itself.

        Raises:
            UsageError: there is no picture, or one cannot be read.
        """
        return cls._read(str(folder), readers.folder(folder, size, grey=grey), how)

    @classmethod
    @arguments_of("leakbench.clients.unknown")
    def unknown(cls, clients: int, *, public: tuple[Any, Any], **how: Any) -> Self:
        """Clients of which nobody knows what they hold: for ``leakbench.observe`` alone.

        Args:
            clients: how many there are.
            public: (inputs, classes) of the same kind, an input of each class at least; of the
                others every second one is what the model is tested on, the rest what an attacker
                may be granted.
            how: mean, std, input_range and signal, as of the class itself.

        Raises:
            UsageError: something is wrong with them.
        """
        if not arrays.is_whole(clients) or clients < 2:
            raise UsageError(f"clients = {clients!r}: expected a whole number from 2 on.")
        if not isinstance(public, tuple | list) or len(public) != 2:
            raise UsageError(
                f"public is {type(public).__name__}: expected (inputs, classes) of the same kind as"
                " what clients hold."
            )
        x = arrays.inputs(public[0], "the public inputs")
        y, names = arrays.labels(public[1], len(x), "the public labels")
        if len(x) < 2:
            raise UsageError(f"public has {len(x)} inputs: expected two at least.")
        many = max(clients, int(y.max()) + 1)
        # Nothing is made of these: they stand for what nobody knows, in no truth and no guess.
        blank, called = torch.zeros(many, *x.shape[1:], dtype=x.dtype), torch.arange(many)
        told: Any = called % (int(y.max()) + 1)
        said: Any = y
        if names:
            told, said = [names[int(k)] for k in told], [names[int(k)] for k in y]
        beside: dict[str, Any] = {"test": (x[::2], said[::2]), "aux": (x[1::2], said[1::2])}
        made = cls(blank, told, rows=called % clients, **beside, **how)
        made.untold = True
        return made

    @classmethod
    @arguments_of("leakbench.clients.from_npz")
    def from_npz(cls, file: str | Path, **how: Any) -> Self:
        """Arrays of one file: ``x`` and ``y``, or as MedMNIST has them.

        Those are train_images, train_labels, test_images, test_labels, and of val_images with
        val_labels the auxiliary data.

        Raises:
            UsageError: it cannot be read, or there are no such arrays.
        """
        return cls._read(str(file), readers.npz(file), how)

    @classmethod
    @arguments_of("leakbench.clients.from_csv")
    def from_csv(cls, file: str | Path, *, label: str, client: str = "", **how: Any) -> Self:
        """Rows of a table: the column ``label`` is the class, ``client`` says whose a row is.

        Columns of numbers are standardised; one of texts becomes a column for each text.

        Raises:
            UsageError: it cannot be read, a column is not there, or a cell is empty.
        """
        return cls._read(str(file), readers.csv(file, label, client), how)

    @classmethod
    @arguments_of("leakbench.clients.from_hf")
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
        return cls._read("the data set", readers.hugging_face(dataset, x, y, size), how)

    @classmethod
    @arguments_of("leakbench.clients.from_torchvision")
    def from_torchvision(cls, train: Any, test: Any = None, **how: Any) -> Self:
        """A map-style data set of (input, class), as torchvision's are; ``test``: another one.

        Its own transform is applied.

        Raises:
            UsageError: inputs are of several shapes, or no tensors.
        """
        return cls._read("the data set", readers.torchvision(train, test), how)

    @classmethod
    def _read(cls, whose: str, found: dict[str, Any], how: dict[str, Any]) -> Self:
        """From what a reader found in ``whose``; what is said in ``how`` goes before.

        A line says what became of it: of what nobody chose, too.
        """
        done = found.pop("done", "")
        known = [*inspect.signature(cls).parameters][2:]  # without x and y
        refuse_other_arguments(CALLED, how, known)
        if "clients" in how or "split" in how:
            found.pop("rows", None)
        made = cls(**{**found, **how})
        sizes, rule = made.data.sizes, how.get("split", "iid")
        param = how.get("param", PARAM.get(rule))
        held = f"dealt to {len(sizes)} clients by split={rule}"
        held += "" if param is None else f", param={param:g}"
        if "rows" in {**found, **how}:
            held = f"those of {len(sizes)} clients"
        note(
            f"{whose}: {done}{sum(sizes)} examples are {held}, {len(made.data.test)} are tested and"
            f" {len(made.data.aux)} auxiliary."
        )
        return made


def _held(rows: Any, n: int) -> list[Tensor] | None:
    """The rows of each client, of ``n`` inputs, where they are given."""
    if rows is None:
        return None
    plain = rows.tolist() if hasattr(rows, "tolist") else rows
    if isinstance(plain, str | bytes | Mapping) or not hasattr(plain, "__iter__"):
        raise UsageError(
            f"rows is {type(rows).__name__}: expected a list of rows for each client, or the"
            " number of a client for each input; of a dict take list(rows.values())."
        )
    plain = list(plain)
    if plain and all(isinstance(v, Real) for v in plain):
        return _owned(_whole(plain, "the owners in rows"), n)
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


def _owned(owners: Tensor, n: int) -> list[Tensor]:
    """The rows of each client, of the number (n,) of the client that holds each."""
    if len(owners) != n:
        raise UsageError(
            f"rows names an owner for {len(owners)} inputs, and there are {n}: expected the"
            " number of a client for each, or a list of rows for each client."
        )
    if int(owners.min()) < -1:
        row = int((owners < -1).nonzero()[0])
        raise UsageError(
            f"rows says {int(owners[row])} of input {row}: expected the number of a client from"
            " 0 on, or -1 for nobody."
        )
    there = torch.unique(owners[owners >= 0])
    gone = (there != torch.arange(len(there))).nonzero().flatten().tolist()
    if gone:
        raise UsageError(
            f"client {gone[0]} owns no input, and rows names client {int(there[-1])}: number"
            " the clients from 0 on without a gap."
        )
    return [(owners == c).nonzero().flatten() for c in range(len(there))]


def _whole(part: Any, whose: str) -> Tensor:
    """Whole numbers as (n,) int64; ``whose`` names them."""
    plain = part.tolist() if hasattr(part, "tolist") else part
    if not isinstance(plain, Sequence) or isinstance(plain, str):
        raise UsageError(
            f"{whose} are {arrays.short(plain)}: expected a list of whole numbers; or give in rows"
            " the number of a client for each input."
        )
    for v in plain:
        if not arrays.is_whole(v) or abs(v) >= 2**63:
            raise UsageError(
                f"{whose} hold {arrays.short(v)}: expected whole numbers, as .astype(int) gives."
            )
    return torch.tensor([int(v) for v in plain], dtype=torch.int64)


def _is_share(given: Any) -> TypeGuard[float]:
    """Is it a number?"""
    return isinstance(given, Real) and not isinstance(given, bool)


def _shared(some: Examples, other: Examples) -> tuple[int, int]:
    """How many inputs of ``some`` are in ``other``, too, and the row of the first: 0 and 0 of few.

    Of tables, whose rows are alike by nature, more are few.
    """
    known = torch.isin(some.marks, other.marks)
    count = torch.unique(other.marks, return_counts=True)[1]
    twins = float(count[count > 1].sum()) / len(other)
    twins *= not arrays.is_picture(some.stored)
    if int(known.sum()) <= max(BY_ACCIDENT, 2 * twins) * len(some):
        return 0, 0
    return int(known.nonzero()[0]), int(known.sum())


def _stand_for(y: Tensor, parts: Sequence[Tensor]) -> Tensor:
    """(C,) int64: the class of each client's examples, if they are of one and each has another."""
    first = torch.tensor([int(y[part[0]]) for part in parts], dtype=torch.int64)
    alone = all(bool((y[part] == k).all()) for part, k in zip(parts, first, strict=True))
    return first if alone and len({*first.tolist()}) == len(first) else torch.full_like(first, -1)


clients = ClientData  # as it is called: leakbench.clients(x, y, clients=20)
