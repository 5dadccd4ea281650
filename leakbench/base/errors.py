"""Errors raised on purpose: one sentence each, saying what was expected, what came and what to do.

LeakbenchError                 exit code
├── UsageError                 2     what the user gave is wrong
│   ├── UnknownName            2     a method, field or task that does not exist
│   └── BrokenFile             2     an artifact damaged, cut or changed
│       └── NewerFile          2     whole, and of a newer schema than this version reads
├── ThreatViolation            2     an attack asked for what its threat model does not declare
├── MethodError                2     a defense, wrapper or attack breaks its contract
├── NotMeasured                2     a metric does not apply here; becomes a line in missing.csv
└── PartFailed                 4     some runs or attacks failed; the others are written
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

OUR_FAULT = 70  # the exit code where something else was raised


class LeakbenchError(Exception):
    """Base of all errors raised on purpose."""

    exit_code = 2


class UsageError(LeakbenchError):
    """What the user gave is wrong."""


class UnknownName(UsageError):
    """A name that does not exist; says which one was probably meant."""

    def __init__(self, what: str, name: str, known: Iterable[str], more: str = "") -> None:
        known = sorted(set(known))  # a metric may be called as its attack is
        self._text = f"unknown {what} {name!r}"
        super().__init__(f"{self._text}.{suggestion(name, known)}{more}")

    def of_file(self, options: str) -> UnknownName:
        """The same of a name that is known as soon as ``options`` are added to the command."""
        self.args = (f"{self._text}: it is of a file of one's own, so add {options}.",)
        return self


class BrokenFile(UsageError):
    """An artifact that cannot be trusted: damaged, cut, changed, or from a newer schema."""


class NewerFile(BrokenFile):
    """A later leakbench wrote it: it is whole, and nothing that may be taken away."""


class ThreatViolation(LeakbenchError):
    """An attack asked for something that its threat model does not grant."""


class MethodError(LeakbenchError):
    """A defense, wrapper or attack breaks its contract."""


class NotMeasured(LeakbenchError):
    """A metric does not apply to these units; its reason stands in missing.csv."""


class NoWeights(NotMeasured):
    """The weights of the network that a metric measures by are not on this machine."""


class PartFailed(LeakbenchError):
    """Some runs or attacks failed; the others are written."""

    exit_code = 4


def circumstance(error: OSError) -> str:
    """What the system refused, in a sentence: a full disk, a path too long, no permission."""
    where = f"{error.filename}: " if error.filename else ""
    return (
        f"{where}{error.strerror or error}. Give a path that can be read and written, or make room"
        " there."
    )


def alike(one: str, other: str) -> bool:
    """Are they one name, whether it is written with hyphens or with underscores?"""
    return one.replace("_", "-") == other.replace("_", "-")


def among(name: str, known: Iterable[str]) -> str:
    """The one of ``known`` that ``name`` means; ``name`` itself where it is none of them.

    As it is written, or with hyphens for underscores and the other way round.
    """
    known = list(known)
    return name if name in known else next((k for k in known if alike(k, name)), name)


def suggestion(name: str, known: Iterable[str]) -> str:
    """The second half of an error about a name: did you mean another one, or which there are."""
    known = sorted(set(known))
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return f" Did you mean {near[0]!r}?"
    return f" Known: {', '.join(known)}." if known else " None are known here."
