"""What a number means: its range and direction, what of it matters, and how it is spoken of.

A metric states all of this once. An attack writes it beside its numbers, so that tables, verdicts
and the gate read it there: a plugin's metric is judged like one of ours, and an old folder keeps
its meaning when a metric changes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from leakbench.base.errors import UsageError
from leakbench.base.printable_text import one_line, printable
from leakbench.base.spec import Spec

Direction = Literal["up", "down"]
Axis = Literal["unit", "open", "log"]
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
    secrets: tuple[str, ...] = Field(
        (), description="it is asked of methods that mean to hide one of these; (): of any"
    )
    contents: bool = Field(
        True,
        description="is it answered by what a message says? false: by who got it, whatever it says",
    )
    listens: bool = Field(
        False, description="does every update say more of it? then few rounds of them acquit nobody"
    )


class Meaning(Spec):
    """How one metric's numbers are read."""

    name: str
    direction: Direction  # in which a leakage is worse, or a utility better
    low: float | None  # the range of a unit's score; None: it has no end
    high: float | None
    unit: str
    share: bool = Field(False, description="units score 0 or 1, ties and failures between")
    version: int = Field(1, ge=1, description="counts changes of meaning")
    scale: Literal["linear", "log"] = "linear"  # on which differences are taken
    # What is too small to matter, on that scale.
    margin: float | None = Field(None, gt=0, description="None: 0.05, of numbers within [-1, 1]")
    title: str = Field("", description="as a heading; '': the name")
    short: str = Field("", description="as a label; '': the title")
    # What stands between "an attacker" and the amount.
    verb: str = Field("", description="'': 'reaches <name>'")
    # The units of a share of a whole ("94 of 100 clients"); empty for any other number, which is
    # written with ``decimals`` and ``suffix``.
    noun: str = ""
    about: str = Field("", description="one sentence for somebody who does not know it")
    decimals: int = Field(2, ge=0, le=8)
    suffix: str = ""
    # From which a guess is as good as the original, where the range has no natural end.
    as_good: float | None = None
    # How it is drawn: from 0 to 1, over what there is, or on logarithms.
    axis: Axis | None = Field(None, description="None: by its scale and range")
    public: str = Field("", description="the metric of the same without what the truth gives")
    topic: Topic | None = Field(None, description="None: a topic of its own")
    judges: bool = Field(
        True, description="False: it stands beside another metric, and nothing is judged by it"
    )
    rank: int = Field(0, description="place among the metrics of its topic, the lowest judges")

    @classmethod
    def recorded(cls, name: str, values: Any) -> Self:
        """The metric ``name`` as a file tells it.

        ``values``: what ``parameters()`` wrote; or, from before a metric stated its facts, leaks,
        low, high, unit, share and version alone. Nobody stated a margin then: beyond [-1, 1] it
        counts as 5 % of the range, or as 0.05 where that is open. Text is one line that can do no
        harm; keys of later versions are passed over.

        Raises:
            ValueError: one sentence: a value is missing, of the wrong type, or contradicts another.
        """
        what = f"metric {one_line(name)}"
        if not isinstance(values, Mapping):
            raise ValueError(f"{what}: expected an object that says how it is read.")
        direction = values.get("direction", values.get("leaks"))
        for key, known in (("name", name), ("leaks", direction)):
            if values.get(key, known) != known:
                raise ValueError(f"{what}: its {key} contradicts the rest.")
        lacking = [k for k in ("low", "high", "unit", "share", "version") if k not in values]
        if lacking:
            raise ValueError(f"{what}: {lacking[0]!r} is missing.")
        told = {**_told(cls, values), "name": name, "direction": direction}
        if isinstance(told.get("topic"), Mapping):
            told["topic"] = _told(Topic, told["topic"])
        try:
            if told.get("margin") is None:
                told["margin"] = _margin(told["low"], told["high"])
            return cls.build(told, what)
        except UsageError as error:
            raise ValueError(str(error)) from None
        except (OverflowError, RecursionError) as error:
            raise ValueError(f"{what}: {error}.") from None

    @model_validator(mode="after")
    def _has_a_margin(self) -> Self:
        low, high = self.ends
        if not low < high:
            raise ValueError(f"the range goes from {low} to {high}: expected the lower end first")
        if self.margin is None and not (low >= -1 and high <= 1):
            raise ValueError(
                f"metric {self.name!r} has a range beyond [-1, 1], so it has to state its margin:"
                " how much more of it matters"
            )
        return self

    @model_validator(mode="after")
    def _fits_its_range(self) -> Self:
        if self.scale == "log" and self.ends[0] < 1:
            raise ValueError(
                f"metric {self.name!r} is compared by logarithms, so its range has to begin at 1 or"
                f" above, got {self.low}: nothing below 1 would ever be seen to change"
            )
        if self.share and self.ends != (0, 1):
            raise ValueError(
                f"metric {self.name!r} is a share, so its units score from 0 to 1, got"
                f" {self.low} to {self.high}"
            )
        return self

    def unlike(self, other: Meaning) -> str:
        """What verdicts rest on and the two state differently, or nothing: "margin 0.05 and 1"."""
        for what in ("direction", "low", "high", "unit", "share", "scale", "matters"):
            one, two = getattr(self, what), getattr(other, what)
            if one != two:
                return f"{'margin' if what == 'matters' else what} {one} and {two}"
        return ""

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
    def drawn(self) -> Axis:
        """How an axis shows it."""
        low, high = self.ends
        usual: Axis = "unit" if low >= -1 and high <= 1 else "open"
        return self.axis or ("log" if self.scale == "log" else usual)

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


def _told(cls: type[Spec], values: Mapping[str, Any]) -> dict[str, Any]:
    """What ``values`` says of the fields of ``cls``, text on one line."""
    line = str.maketrans("\n\t", "  ")
    out = {k: v for k, v in values.items() if k in cls.model_fields}
    texts = {k: v for k, v in out.items() if isinstance(v, str)}
    return {**out, **{k: printable(v).translate(line) for k, v in texts.items()}}


def _margin(low: Any, high: Any) -> float | None:
    """Of a range for which none was stated; what is no number is found out later."""
    if not all(isinstance(end, int | float) for end in (low, high)):
        return PROPORTION
    span = float(high) - float(low)
    return None if (low >= -1 and high <= 1) or not span > 0 else PROPORTION * span
