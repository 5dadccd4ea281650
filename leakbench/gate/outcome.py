"""What `leakbench check` found, as values; ``leakbench.words.outcomes`` says them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from leakbench.base.errors import PartFailed, UsageError
from leakbench.base.jobs import Outcome
from leakbench.base.reason import Reason
from leakbench.gate.change import Change
from leakbench.gate.row import GateRow

FINE, LEAKS_MORE, CANNOT_TELL = 0, 1, 3  # exit codes
State = Literal["leaks more", "loses utility", "cannot tell", "new", "fine"]
Kept = Literal["breached", "cannot tell", "kept"]
ORDER: tuple[State, ...] = ("leaks more", "loses utility", "cannot tell", "new", "fine")


@dataclass(frozen=True)
class Comparison:
    """What is said of one row.

    ``why`` it came out so: its numbers where it was compared, then what else there is to say.
    ``name``: what `--accept` takes, SETTING/ATTACK/RUNG/METRIC/STAGE[/probe]. ``d``: how much worse
    it is, with one-sided 95 % limits ``low`` and ``high``; None where nothing was compared.
    ``changes``: what of the setting is another one than in the baseline.
    ``end``: it stood at its ceiling (it cannot get worse) or at its floor in the baseline.
    ``seeds``: about how many on each side would settle what cannot be told. ``more``: the seeds to
    train for the next look at it; none where seeds do not help or the looks are used up.
    ``look``: of how many seeds now it was judged. ``reason``: ``why`` in one sentence.
    """

    name: str
    state: State
    why: tuple[Reason, ...]
    d: float | None = None
    low: float | None = None
    high: float | None = None
    now: GateRow | None = None
    then: GateRow | None = None
    seeds: int | None = None
    changes: tuple[Change, ...] = ()
    end: Literal["", "ceiling", "floor"] = ""
    more: tuple[int, ...] = ()
    look: int | None = None
    reason: str = ""


@dataclass(frozen=True)
class LimitOutcome:
    """What is said of one limit (`p_leak<=0.2`) on one setting: its worst row decides.

    ``value``, ``low``, ``high``: that row's number, with one-sided limits at the level that the
    limit is judged with. ``rows``: how many rows were held against it. ``reason``: ``why`` in one
    sentence.
    """

    limit: str
    setting: str
    state: Kept
    why: tuple[Reason, ...]
    name: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    row: GateRow | None = None
    rows: int = 0
    more: tuple[int, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class CheckResult:
    """What `check` or `update` found, and the rows behind it.

    ``undone``: runs without rows. ``said``: what else there is to say, a line each. ``noted``: what
    is said of the whole, such as that there is no baseline. ``less``: in what the SPEC holds a
    build to less than when the baseline was written. ``updates``: of `update`, which tells of rows
    by what it says alone.

    In words, which ``leakbench.words.outcomes.check_in_words`` adds: ``lines``, one for each row
    and limit, the most urgent first; ``unfinished``, ``notes`` and ``softer``.
    """

    exit_code: int
    rows: tuple[Comparison, ...] = field(default=(), repr=False)  # ``lines`` says what they come to
    limits: tuple[LimitOutcome, ...] = field(default=(), repr=False)
    undone: tuple[Reason, ...] = ()
    said: tuple[Reason, ...] = ()
    noted: tuple[Reason, ...] = ()
    less: tuple[Reason, ...] = ()
    updates: bool = False
    lines: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    softer: tuple[str, ...] = ()


def concluded(result: CheckResult, failed: Sequence[Outcome]) -> CheckResult:
    """The same, with exit 4 where something failed and nothing leaks more; 2 if it was damaged."""
    if not failed or result.exit_code == LEAKS_MORE:
        return result
    damaged = any(o.damaged for o in failed)
    code = UsageError.exit_code if damaged else PartFailed.exit_code
    return replace(result, exit_code=code)
