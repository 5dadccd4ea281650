"""Statements of a paper that can be checked on our numbers, and one honest sentence about each.

An order compares rows; a dead run's numbers support nothing and contradict nothing: they are left
out, and that is said.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Literal

from leakbench.scoring import flags

Row = Mapping[str, Any]
Verdict = Literal[
    "holds", "neither shown nor contradicted", "does not hold here", "cannot be judged here"
]
HOLDS: Verdict = "holds"
WITHIN: Verdict = "neither shown nor contradicted"
FAILS: Verdict = "does not hold here"
OPEN: Verdict = "cannot be judged here"
Relation = Literal["below", "in order", "out of order", "above"]


@dataclass(frozen=True)
class Statement:
    """What the paper says (``text``), what became of it here, and the sentence that says so with
    the numbers.
    """

    dataset: str
    text: str
    verdict: Verdict
    sentence: str


@dataclass(frozen=True)
class Order(ABC):
    """``text``: the paper's statement. ``measure``: whose values. ``datasets``: where it is
    claimed; everywhere if empty.
    """

    text: str
    measure: str
    datasets: tuple[str, ...] = ()

    @abstractmethod
    def labels(self) -> tuple[str, ...]:
        """The cases it speaks of."""

    @abstractmethod
    def verdict(self, live: Mapping[str, Row]) -> tuple[Verdict, str]:
        """Of the live rows by label: the verdict, and what has to be added to the numbers."""

    def within(self, labels: Set[str]) -> Order | None:
        """What is left of it where only the cases ``labels`` are run; None if nothing is."""
        return self if labels & {*self.labels()} else None

    def judge(self, rows: Sequence[Row], dataset: str) -> Statement:
        """The statement on one data set's rows."""
        mine = {
            r["label"]: r
            for r in rows
            if (r["dataset"], r["measure"]) == (dataset, self.measure) and r["value"] != ""
        }
        named = list(dict.fromkeys(self.labels()))
        dead = [label for label in named if label in mine and is_dead(mine[label])]
        live = {label: mine[label] for label in named if label in mine and label not in dead}
        verdict, why = self.verdict(live)
        absent = [label for label in named if label not in mine]
        said = [f"{self.text}: {verdict}" + (f" ({why})" if why else "")]
        said += ["; ".join(f"{label} {shown(r)}" for label, r in live.items())] if live else []
        said += (
            [
                "Left out, because dead runs support nothing:"
                f" {'; '.join(f'{d} {shown(mine[d])}' for d in dead)}"
            ]
            if dead
            else []
        )
        said += [f"Not there: {', '.join(absent)}"] if absent else []
        marks = {f for r in live.values() for f in flags.split(r["flags"])}
        said += (
            ["On stand-in data, so it speaks of the method's mechanism, not of the paper's numbers"]
            if "stand_in_data" in marks
            else []
        )
        said += (
            ["An attack that finds nothing undefended either is too weak to judge"]
            if "control_failed" in marks
            else []
        )
        said += ["One seed"] if "one_seed" in marks else []
        return Statement(dataset, self.text, verdict, ". ".join(said) + ".")


def relation(a: Row, b: Row) -> Relation:
    """Is ``a`` below ``b`` beyond their intervals, only by value (or equal), or the other way
    round?
    """
    if high(a) < low(b):
        return "below"
    if low(a) > high(b):
        return "above"
    return "in order" if a["value"] <= b["value"] else "out of order"


def is_dead(row: Row) -> bool:
    """Was the run that it comes from dead?"""
    return "dead_run" in flags.split(row["flags"])


def low(row: Row) -> float:
    """The lower end of its interval; the value where it has none."""
    return float(row["value"] if row["low"] == "" else row["low"])


def high(row: Row) -> float:
    """The upper end of its interval; the value where it has none."""
    return float(row["value"] if row["high"] == "" else row["high"])


def shown(row: Row, beside: str = "") -> str:
    """Value and interval, ``beside`` between them; to three decimals, or to three digits where
    decimals would show nothing of either.
    """
    form = (
        ".2e"
        if 0 < max(abs(row[k]) for k in ("value", "low", "high") if row[k] != "") < 5e-4
        else ".3f"
    )
    width = "" if row["low"] == "" else f" [{row['low']:{form}}, {row['high']:{form}}]"
    return f"{row['value']:{form}}{beside}{width}"
