"""What `leakbench check` said, as every format shows it: its rows, its limits, and what of them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, computed_field

from leakbench.base.meaning import Meaning
from leakbench.base.part import Part
from leakbench.base.reason import Reason


class CheckRow(Part):
    """One row of `leakbench check` in words and numbers.

    ``verdict``: "leaks more", "loses utility", "cannot tell", "new" or "fine". ``row``: setting and
    attack, as people read them; ``ref``: the name that `--accept` takes. ``setting``: its name, or
    task, method and parameters; ``changes``: what of it is another one than in the baseline, as in
    "σ 0.3 -> 0.1"; ``kind``: rows of a setting with the same verdict and kind are one thing that
    happened. ``attack``, ``rung``, ``stage``, ``probe``: as in tradeoff.csv. ``difference`` counts
    against the method, on the scale on which it was compared, with the one-sided 95 % limits
    ``low`` and ``high``; None where nothing could be compared. ``reasons``: why it came out so, of
    which ``why`` tells what the numbers do not. ``end``: it stood at its ceiling
    (it cannot get worse) or at its floor. ``look``: of how many seeds it was judged; ``seeds``:
    about how many on each side would settle it; ``more``: those to train for the next look.
    ``command``: what settles a "cannot tell", or takes into the baseline what is meant.
    """

    verdict: str
    row: str
    ref: str
    meaning: Meaning = Field(exclude=True)
    old: float | None
    new: float | None
    difference: float | None
    low: float | None
    high: float | None
    margin: float | None
    why: str
    reasons: tuple[Reason, ...] = Field((), exclude=True)
    command: str = ""
    # The same without the row's own `--accept`; "" where it accepts none.
    accepting: str = Field("", exclude=True)
    updates: bool = Field(False, exclude=True)  # its command writes the baseline
    setting: str = ""
    changes: tuple[str, ...] = ()
    kind: str = ""
    attack: str = ""
    rung: str = ""
    stage: str = ""
    probe: bool = False
    end: Literal["", "ceiling", "floor"] = ""
    look: int | None = None
    seeds: int | None = None
    more: tuple[int, ...] = ()

    @computed_field  # type: ignore[prop-decorator]
    @property
    def metric(self) -> str:
        """The metric's name."""
        return self.meaning.name


class CheckLimit(Part):
    """One limit (`p_leak<=0.2`) on one setting; its worst row decides.

    ``verdict``: "breached", "cannot tell" or "kept". ``attack``: the worst row's, in words, and
    ``ref`` its name; ``value``, ``low``, ``high``: its number with one-sided limits; None where no
    number was found. ``rows``: how many were held against it. ``meaning``: of the number; None
    where there is none.
    """

    verdict: Literal["breached", "cannot tell", "kept"]
    limit: str
    setting: str
    attack: str = ""
    ref: str = ""
    meaning: Meaning | None = Field(None, exclude=True)
    value: float | None = None
    low: float | None = None
    high: float | None = None
    rows: int = 0
    why: str = ""
    reasons: tuple[Reason, ...] = Field((), exclude=True)
    more: tuple[int, ...] = ()
    command: str = ""


class Check(Part):
    """What `leakbench check` said about these runs.

    It is the exit code and what has to be looked at, the most urgent first.

    ``lines``: one sentence for each thing that happened, "verdict: row: what moved", without the
    rows that are fine. ``rows``: every gated row; ``limits``: every limit on every setting;
    ``unfinished``: runs without rows; ``notes``: what is said of the whole. ``softer``: in what the
    SPEC holds a build to less than when the baseline was written. ``heading``: the first line, as
    in "Check failed (exit 1): 1 row leaks more, 17 fine." ``baseline``: where the file compared
    with lies.
    """

    exit: int
    lines: tuple[str, ...]
    against: str = ""
    heading: str = ""
    rows: tuple[CheckRow, ...] = ()
    limits: tuple[CheckLimit, ...] = ()
    unfinished: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    softer: tuple[str, ...] = ()
    baseline: str = Field("", exclude=True)
    undone: tuple[str, ...] = Field((), exclude=True)  # the folders of what is unfinished
