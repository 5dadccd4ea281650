"""What a build is held to by its SPEC, as the baseline noted it: is it held to less now?

Whoever changes a method may change the SPEC beside it. That is nobody's fault and must be seen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from pydantic import Field

from leakbench.base.errors import UsageError
from leakbench.base.reason import Reason, reason
from leakbench.base.spec import Spec
from leakbench.gate.bounds import ROUNDING
from leakbench.gate.limits import parse
from leakbench.gate.row import GateRow


class Terms(Spec):
    """The table `[ci]` of a SPEC, and its seeds."""

    spec: str = Field(default="", description="the file's name")
    seeds: tuple[int, ...] = Field(default=(), description="that a build trains; none: not known")
    baseline: str = Field(default="", description='as the SPEC names it; "none": limits alone')
    limits: tuple[str, ...] = ()
    gate: tuple[str, ...] = ()
    spend: int = Field(default=0, ge=0)
    undecided: str = "fail"
    allow_new: bool = False


def softer(now: Terms, then: Terms | None) -> tuple[Reason, ...]:
    """In what a build is held to less than when the baseline was written.

    ``then``: None where the baseline does not say, which then is what holds unless said otherwise.
    """
    old = then or Terms()
    less = {
        "baseline": then is not None and old.baseline != now.baseline,
        "undecided": old.undecided != now.undecided == "warn",
        "allow_new": now.allow_new and not old.allow_new,
        "spend": now.spend < old.spend,
        "seeds": not set(old.seeds) <= set(now.seeds),
    }
    out = []
    for key in [key for key, is_less in less.items() if is_less]:
        out.append(reason("less_of", key=key, old=getattr(old, key), new=getattr(now, key)))
    out += [reason("row_ungated", row=pattern) for pattern in old.gate if pattern not in now.gate]
    loosened = (_loosened(limit, now.limits) for limit in old.limits)
    return (*out, *(why for why in loosened if why))


def _loosened(old: str, now: Sequence[str]) -> Reason | None:
    """What became of a limit, where nothing as strict stands in its place."""
    if old in now:
        return None
    was, others = parse(old), []
    for text in now:
        try:
            others.append(parse(text))
        except UsageError:  # said where it is held
            continue
    same = [x for x in others if (x.rows, x.sign) == (was.rows, was.sign)]
    if any(was.over(x.most) <= 0 for x in same):
        return None
    return reason("limit_loosened", limit=old, now=same[0].text if same else "")


def widened(rows: Iterable[GateRow]) -> tuple[Reason, ...]:
    """Whose margin is wider than it was written, or than the metric of the runs takes, each.

    Whoever edits one file of a baseline edits both: only what the runs say is out of reach.
    """
    out = []
    for row in rows:
        usual = min((m for m in (row.written, row.usual) if m is not None), default=math.inf)
        if row.allowed is not None and row.allowed > usual * (1 + ROUNDING):
            out.append(reason("margin_widened", row=row.name, old=usual, new=row.allowed))
    return tuple(out)
