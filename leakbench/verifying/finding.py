"""What one check of a run folder found."""

from __future__ import annotations

from typing import Literal

from leakbench.base.part import Part

Outcome = Literal["holds", "nearly", "differs", "not checked"]


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


def unchecked(part: str, what: str, detail: str) -> Finding:
    """It could not be derived again here."""
    return Finding(part=part, what=what, outcome="not checked", detail=detail)
