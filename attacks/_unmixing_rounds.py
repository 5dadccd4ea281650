"""Several messages of a client together: one that is solved begins the search of the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from attacks._unmixing import STEPS, Mixed, Preimage, search
from leakbench import unit
from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor

BRIEF = 10  # steps of a first look
HOPELESS = 0.1  # share of clients solved at first sight, below which no longer search is tried


class Unmixed(NamedTuple):
    """What came of a client's messages."""

    prototype: Tensor  # (dim,)
    newest: bool  # was its newest message solved?
    agree: bool  # do all solutions of it that were found?
    twin: Tensor | None = None  # (dim,): the solution that agrees least


def unmixed(messages: Mapping[str, Sequence[Mixed]]) -> dict[str, Unmixed]:
    """``messages``: {client: its messages, oldest first, at least one}.

    Where hardly any client's is what a mixture would be, the others' are not searched for long.
    """
    first = {who: search(of[-1], steps=BRIEF) for who, of in messages.items()}
    solved = sum(found.consistent for found in first.values())
    out = {}
    for who, of in messages.items():
        if first[who].consistent or solved < HOPELESS * len(first):
            out[who] = _newest(first[who])
        else:
            out[who] = _together(of)
    return out


def _newest(found: Preimage) -> Unmixed:
    return Unmixed(found.prototype, found.consistent, found.agree, found.twin)


def _together(messages: Sequence[Mixed]) -> Unmixed:
    """The newest that can be solved, and from there on again with what is known.

    Where none can be, the mean of what came nearest to it.
    """
    found = [search(messages[-1], steps=STEPS)]
    if found[0].consistent:
        return _newest(found[0])
    for j in range(len(messages) - 2, -1, -1):
        found.append(search(messages[j], steps=BRIEF))
        if found[-1].consistent:
            return _followed(found[-1], messages[j + 1 :])
    return Unmixed(unit(torch.stack([f.prototype for f in found]).mean(0)), False, False)


def _followed(found: Preimage, newer: Sequence[Mixed]) -> Unmixed:
    """What was found, and what it led to in the messages after it.

    A prototype goes on as it went: so it is started from there, too.
    """
    known, last = [found.prototype], found
    for j, message in enumerate(newer):
        ahead = [unit(2 * known[-1] - known[-2])] if len(known) > 1 else []
        last = search(message, [known[-1], *ahead], steps=BRIEF if j < len(newer) - 1 else STEPS)
        if last.consistent:
            known.append(last.prototype)
    return Unmixed(known[-1], last.consistent, last.agree, last.twin)
