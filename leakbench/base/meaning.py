"""What a number means: its range and direction, what of it matters, and how it is spoken of.

A metric states all of this once. An attack writes it beside its numbers, so that tables, verdicts
and the gate read it there: a plugin's metric is judged like one of ours, and an old folder keeps
its meaning when a metric changes.
"""

from __future__ import annotations

import math
from typing import Literal, Self

from pydantic import Field, model_validator

from leakbench.base.printable_text import one_line
from leakbench.base.spec import Spec

Direction = Literal["up", "down"]
PROPORTION = 0.05  # the margin of numbers within [-1, 1] whose metric names none


class Topic(Spec):
    """What an attacker may be after.

    Of the metrics of one topic the first that a task has judges it; the others stand in the table.
    """

    name: str
    order: int = Field(100, description="place among the questions of a report, the lowest first")
    kinds: tuple[str, ...] = Field((), description="kinds of message it is read from; (): any")
    kind: str = Field("messages of this kind", description="such a message, as a sentence names it")
    ask: str = Field(
        description="what clients do, and the question: 'send .... Can an attacker ...?'"
    )


class Meaning(Spec):
    """How one metric's numbers are read.

    ``direction``: in which a leakage is worse, or a utility better. ``low``, ``high``: the range of
    a unit's score, None where it has no end. ``margin``: what is too small to matter, on the scale
    on which differences are taken (``log``: of logarithms); a number whose range lies within [-1,
    1] has 0.05 unless it says otherwise, any other metric has to say. ``verb`` stands between "an
    attacker" and the amount. ``noun``: the units of a share of a whole ("94 of 100 clients"); empty
    for any other number, which is written with ``decimals`` and ``suffix``. ``as_good``: the value
    from which a guess is as good as the original, where the range has no natural end.
    """

    name: str
    direction: Direction
    low: float | None
    high: float | None
    unit: str
    share: bool = Field(False, description="units score 0 or 1, ties and failures between")
    version: int = Field(1, ge=1, description="counts changes of meaning")
    scale: Literal["linear", "log"] = "linear"
    margin: float | None = Field(None, gt=0, description="None: 0.05, of numbers within [-1, 1]")
    title: str = Field("", description="as a heading; '': the name")
    short: str = Field("", description="as a label; '': the title")
    verb: str = Field("", description="'': 'reaches <name>'")
    noun: str = ""
    about: str = Field("", description="one sentence for somebody who does not know it")
    decimals: int = Field(2, ge=0, le=8)
    suffix: str = ""
    as_good: float | None = None
    topic: Topic | None = Field(None, description="None: a topic of its own")
    rank: int = Field(0, description="place among the metrics of its topic, the lowest judges")

    @model_validator(mode="after")
    def _has_a_margin(self) -> Self:
        low, high = self.ends
        if self.margin is None and not (low >= -1 and high <= 1):
            raise ValueError(
                f"metric {self.name!r} has a range beyond [-1, 1], so it has to state its margin:"
                " how much more of it matters"
            )
        return self

    @property
    def matters(self) -> float:
        """The margin."""
        return PROPORTION if self.margin is None else self.margin

    @property
    def ends(self) -> tuple[float, float]:
        """The range, infinite where it is open."""
        low = -math.inf if self.low is None else self.low
        return low, math.inf if self.high is None else self.high

    @property
    def heading(self) -> str:
        """The title, or the name on one line."""
        return self.title or one_line(self.name)

    @property
    def label(self) -> str:
        """The shortest name."""
        return self.short or self.heading

    @property
    def does(self) -> str:
        """What stands between "an attacker" and the amount."""
        return self.verb or f"reaches {one_line(self.name)}"

    @property
    def question(self) -> Topic:
        """The topic that the metric belongs to; a metric without one is a topic of its own."""
        name = one_line(self.name)
        return self.topic or Topic(
            name=name, ask=f"send messages. What does {name} say about them?"
        )

    def worse(self, a: float, b: float) -> bool:
        """Is ``a`` further in the metric's direction than ``b``?"""
        return a > b if self.direction == "up" else a < b

    def scaled(self, value: float) -> float:
        """On the scale on which differences are taken."""
        return math.log(max(value, 1e-300)) if self.scale == "log" else value

    def text(self, value: float) -> str:
        """As people read it: "0.94", "46.2 dB".

        Never a zero with a sign before it, and never a bare 0 for what is not 0.
        """
        shown = f"{value:.{self.decimals}f}"
        if float(shown) == 0:
            zero, least = f"{0:.{self.decimals}f}", 10**-self.decimals
            small = value > 0 and self.decimals >= 2
            shown = f"under {least:.{self.decimals}f}" if small else zero
        return shown + self.suffix
