"""What one check of a run folder found."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Literal

from leakbench.base.part import Part

Outcome = Literal["holds", "nearly", "differs", "not checked"]


# Why some keys are not checked.
MACHINE = "on which machine it was made, and how it went there, no file tells"
CHECKOUT = "of which checkout its code was, no file tells; the digests of its sources do"
ELSEWHERE = "trained elsewhere"  # by its owner's own loop, which leakbench recorded
LAST_BITS = "but for the last bits"  # so begins what tells that two tensors are nearly the same


class Finding(Part):
    """One thing that was derived again, or why it was not."""

    part: str  # of the folder, as "run.json" or "attacks/decoder-1a2b3c4d"
    what: str  # was derived again
    outcome: Outcome
    detail: str = ""  # a sentence


def holds(part: str, what: str, detail: str = "") -> Finding:
    """It was derived again, and is the same."""
    return Finding(part=part, what=what, outcome="holds", detail=detail)


def compared(part: str, what: str, why: str, exact: str) -> Finding:
    """By ``why``, what differs (of ``same.tensors``); ``exact``: the detail where nothing does."""
    if not why:
        return holds(part, what, exact)
    if why.startswith(LAST_BITS):
        more = "another number of threads or another processor adds in another order"
        return Finding(part=part, what=what, outcome="nearly", detail=f"the same {why}: {more}")
    return differs(part, what, why)


def differs(part: str, what: str, detail: str) -> Finding:
    """It was derived again, and is not the same."""
    return Finding(part=part, what=what, outcome="differs", detail=detail)


def untold(part: str, unknown: Mapping[str, str], keys: Collection[str]) -> Iterator[Finding]:
    """A finding for each reason of ``unknown`` {key: why it is not checked} that ``keys`` give."""
    reasons: dict[str, list[str]] = {}
    for key, why in unknown.items():
        if key in keys:
            reasons.setdefault(why, []).append(key)
    for why, named in reasons.items():
        yield unchecked(part, ", ".join(named), why)


def unchecked(part: str, what: str, detail: str) -> Finding:
    """It could not be derived again here."""
    return Finding(part=part, what=what, outcome="not checked", detail=detail)
