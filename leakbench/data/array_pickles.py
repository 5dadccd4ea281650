"""CIFAR's pickles, read without unpickling: nothing is imported, called or given an attribute.

A pickle is a program. Of its language the part that builds lists, dicts and NumPy's arrays is
followed here, and what names stand for is never looked up: an array is its bytes, its kind of
number and its shape. Each instruction costs no more than it takes in the file.
"""

from __future__ import annotations

import io
import pickletools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

_CORES = ("numpy.core", "numpy._core")  # numpy 1's name and numpy 2's
_ENCODE, _EMPTY, _BYTES = "_codecs.encode", "_reconstruct", "_frombuffer"
_KNOWN = {
    "numpy.ndarray": "ndarray",
    "numpy.dtype": "dtype",
    _ENCODE: _ENCODE,
    **{f"{core}.multiarray._reconstruct": _EMPTY for core in _CORES},
    **{f"{core}.numeric._frombuffer": _BYTES for core in _CORES},
}
_KINDS = "uif"  # of numbers: whole, with or without sign, and real
_CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_VALUES = {  # instructions that bring a value along
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE"),
    *("BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
}


@dataclass(frozen=True)
class _Named:
    """A name, which stands for nothing but itself."""

    name: str


@dataclass
class _Called:
    """What a name was called with, and the state that it was given afterwards."""

    name: str
    given: Sequence[Any]
    state: Any = None


class _Mark:
    """Where a list on the stack begins."""


def read_pickle(data: bytes) -> dict[str, Any]:
    """What a pickled dict holds; its arrays are to be asked for with ``array``.

    Raises:
        ValueError: it is cut, or holds what no array needs.
    """
    machine = _Machine()
    for code, value, _ in pickletools.genops(io.BytesIO(data)):
        machine.do(code.name, value)
    held = machine.pop()
    if not isinstance(held, dict):
        raise ValueError(f"it holds a {type(held).__name__}, and no dict")
    return held


def array(value: Any) -> NDArray[Any]:
    """An array, or a list of numbers, of what ``read`` found.

    Raises:
        ValueError: it is neither, or of a kind of number that images and classes do not have.
    """
    if isinstance(value, list) and all(type(x) in (int, float) for x in value):
        return np.asarray(value)
    if not isinstance(value, _Called):
        raise ValueError("an array, or a list of numbers, was expected")
    if value.name == _BYTES:
        raw, kind, shape, order = value.given
    elif value.name == _EMPTY and isinstance(value.state, tuple):
        _, shape, kind, fortran, raw = value.state
        order = "F" if fortran else "C"
    else:
        raise ValueError("an array was expected")
    raw = raw.encode("latin-1") if isinstance(raw, str) else raw
    number = _number(kind)
    flat = isinstance(shape, tuple) and len(shape) in (1, 2)
    whole = flat and all(type(n) is int and n >= 0 for n in shape)
    if not whole or prod(shape) * number.itemsize != len(raw):
        raise ValueError(f"an array's shape does not fit its {len(raw)} bytes")
    return np.frombuffer(raw, number).reshape(shape, order="F" if order == "F" else "C")


def _number(kind: Any) -> np.dtype[Any]:
    """NumPy's kind of number; its state says in which order the bytes are."""
    if not isinstance(kind, _Called) or kind.name != "dtype":
        raise ValueError("an array of no kind of number")
    number = np.dtype(kind.given[0])
    order = kind.state[1] if isinstance(kind.state, tuple) else "="
    if number.kind not in _KINDS or order not in ("<", ">", "|", "="):
        raise ValueError(f"an array of {kind.given[0]!r}")
    return number.newbyteorder(order)


class _Machine:
    """A stack, and what was put aside."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.kept: dict[int, Any] = {}
        self.doing: dict[str, Callable[[Any], None]] = {
            "MARK": lambda _: self.push(_Mark),
            "EMPTY_LIST": lambda _: self.push([]),
            "EMPTY_DICT": lambda _: self.push({}),
            "EMPTY_TUPLE": lambda _: self.push(()),
            "LIST": lambda _: self.push(self.marked()),
            "TUPLE": lambda _: self.push(tuple(self.marked())),
            "DICT": lambda _: self.push(self.filled({}, self.marked())),
            "TUPLE1": lambda _: self.push(tuple(self.last(1))),
            "TUPLE2": lambda _: self.push(tuple(self.last(2))),
            "TUPLE3": lambda _: self.push(tuple(self.last(3))),
            "APPEND": lambda _: self.extend(self.last(1)),
            "APPENDS": lambda _: self.extend(self.marked()),
            "SETITEM": self.set_item,
            "SETITEMS": self.set_items,
            "MEMOIZE": lambda _: self.keep(len(self.kept)),
            "GLOBAL": lambda name: self.name(*name.split(" ", 1)),
            "STACK_GLOBAL": lambda _: self.name(*self.last(2)),
            "REDUCE": self.call,
            "BUILD": self.build,
            **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), self.keep),
            **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), lambda i: self.push(self.kept[i])),
            **dict.fromkeys(("PROTO", "FRAME", "STOP"), lambda _: None),
        }

    def do(self, code: str, value: Any) -> None:
        """One instruction.

        Raises:
            ValueError: no array needs it.
            LookupError: the stack does not hold what it takes.
        """
        if code in _VALUES:
            self.push(value)
        elif code in _CONSTANTS:
            self.push(_CONSTANTS[code])
        elif code in self.doing:
            self.doing[code](value)
        else:
            raise ValueError(f"it asks for {code}, which no array needs")

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop(self) -> Any:
        return self.stack.pop()

    def last(self, count: int) -> list[Any]:
        """The topmost, taken from the stack."""
        found = self.stack[-count:]
        if len(found) < count:
            raise IndexError("its stack is empty")
        del self.stack[-count:]
        return found

    def marked(self) -> list[Any]:
        """All above the last mark, which goes with them."""
        at = len(self.stack) - 1
        while self.stack[at] is not _Mark:
            at -= 1
        found = self.stack[at + 1 :]
        del self.stack[at:]
        return found

    def keep(self, at: int) -> None:
        self.kept[at] = self.stack[-1]

    def extend(self, values: list[Any]) -> None:
        if not isinstance(self.stack[-1], list):
            raise ValueError("it adds to what is no list")
        self.stack[-1].extend(values)

    def set_item(self, _: Any) -> None:
        pair = self.last(2)
        self.filled(self.stack[-1], pair)

    def set_items(self, _: Any) -> None:
        values = self.marked()
        self.filled(self.stack[-1], values)

    def filled(self, held: Any, values: Sequence[Any]) -> dict[str, Any]:
        """The dict with keys and values in turn; its keys are texts alone."""
        if not isinstance(held, dict) or len(values) % 2:
            raise ValueError("it fills what is no dict")
        for key, value in zip(values[::2], values[1::2], strict=True):
            name = key.decode("latin-1") if isinstance(key, bytes) else key
            if not isinstance(name, str):
                raise ValueError("a dict's key is no text")
            held[name] = value
        return held

    def name(self, module: Any, name: Any) -> None:
        full = f"{module}.{name}"
        if full not in _KNOWN:
            raise ValueError(f"it asks for {full[:100]}, which no array needs")
        self.push(_Named(_KNOWN[full]))

    def call(self, _: Any) -> None:
        named, given = self.last(2)
        if not isinstance(named, _Named) or not isinstance(given, tuple):
            raise ValueError("it calls what has no name")
        # Python 3 tells a byte as the text that it encodes.
        self.push(given[0] if named.name == _ENCODE else _Called(named.name, given))

    def build(self, _: Any) -> None:
        (state,) = self.last(1)
        made = self.stack[-1]
        if not isinstance(made, _Called):
            raise ValueError("it changes what is no array")
        made.state = state
