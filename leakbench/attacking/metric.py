"""What a metric is: one guess and one answer become one score per independent unit, and what the
mean of these scores means.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from leakbench.base.meaning import Direction, Meaning

if TYPE_CHECKING:
    from leakbench.attacking.guess import Guess


@dataclass(frozen=True)
class Score:
    """One independent unit's score; ``cluster`` is the unit itself where units are independent.

    ``failed``: the attack made a guess, but not what the metric counts (it never got there):
    counted as a failed unit.
    """

    unit: str
    cluster: str
    value: float
    failed: bool = False


@dataclass(frozen=True)
class Metric:
    """How a guess is turned into scores; ``meaning`` says how they are read.

    ``score(guess, answer)`` is the only code that sees guess and truth together. ``needs``: tensors
    without which the metric does not apply to a guess. ``floor`` stands in for the blind guess
    where a formula gives its score exactly; ``floor_of`` = "attack" hands it the attack's own guess
    instead (to pair it at random). ``control`` likewise stands in for the guess on the control
    transcript. ``exact``: scores are counted over everything there is, nothing is sampled, so their
    mean has no width. ``class_mean``: where the blind guess is the class mean, a row that is no
    better is flagged. ``beside``: further numbers per unit that stand in units.csv only.
    ``remark``: of all guesses, one answer and all scores of a row, what a reader would miss in it
    (a line in missing.csv) or ""; where it raises NotMeasured there is that line and no row.
    """

    meaning: Meaning
    needs: tuple[str, ...]
    score: Callable[[Guess, Any], list[Score]]
    floor: Callable[[Guess, Any], list[Score]] | None = None
    floor_of: Literal["blind", "attack"] = "blind"
    beside: tuple[tuple[str, Callable[[Guess, Any], list[Score]]], ...] = ()
    control: Callable[[Guess, Any], list[Score]] | None = None
    exact: bool = False
    class_mean: bool = False
    remark: Callable[[Sequence[Guess], Any, Sequence[Score]], str] | None = None

    @property
    def name(self) -> str:
        """As in tables and files."""
        return self.meaning.name

    @property
    def leaks(self) -> Direction:
        """In which direction more of it is more leakage."""
        return self.meaning.direction

    @property
    def low(self) -> float:
        """The lower end of a score, -inf where there is none."""
        return self.meaning.ends[0]

    @property
    def high(self) -> float:
        """The upper end of a score, inf where there is none."""
        return self.meaning.ends[1]

    @property
    def unit(self) -> str:
        """What is independent."""
        return self.meaning.unit

    @property
    def share(self) -> bool:
        """Do units score 0 or 1?"""
        return self.meaning.share
