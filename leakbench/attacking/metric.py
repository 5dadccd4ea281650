"""What a metric is: one guess and one answer become one score per independent unit.

And what the mean of these scores means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from leakbench.base.meaning import Direction, Meaning

if TYPE_CHECKING:
    from leakbench.attacking.guess import Guess


@dataclass(frozen=True)
class Score:
    """One independent unit's score."""

    unit: str
    cluster: str  # the unit itself where units are independent
    value: float
    # The attack made a guess, but not what the metric counts (it never got there): counted as a
    # failed unit.
    failed: bool = False


@dataclass(frozen=True)
class Metric:
    """How a guess is turned into scores; ``meaning`` says how they are read."""

    meaning: Meaning
    needs: tuple[str, ...]  # tensors without which the metric does not apply to a guess
    # (guess, answer): the only code that sees guess and truth together.
    score: Callable[[Guess, Any], list[Score]]
    # Stands in for the blind guess where a formula gives its score exactly; it gets the blind
    # guess, or the attack's own (to pair it at random).
    floor: Callable[[Guess, Any], list[Score]] | None = None
    floor_of: Literal["blind", "attack"] = "blind"
    # In place of ``score``, where a number takes all guesses of an attack, or of its floor, or its
    # control, to be told: of these with their answers what scores each.
    across: Callable[[Sequence[tuple[Guess, Any]]], Callable[[Guess, Any], list[Score]]] | None = (
        None
    )
    # Further numbers per unit, by name, that stand in units.csv only.
    beside: tuple[tuple[str, Callable[[Guess, Any], list[Score]]], ...] = ()
    # Stands in for the guess on the control transcript.
    control: Callable[[Guess, Any], list[Score]] | None = None
    # Counted over everything there is: nothing is sampled, so the mean has no width.
    exact: bool = False
    # Units are only those whose guess the attack's own self-check accepted.
    accepted_only: bool = False
    # Where the blind guess is the class mean, a row that is no better is flagged.
    class_mean: bool = False
    # Of an answer: is the metric meant for such inputs? Where it is not, nothing is said of it.
    meant_for: Callable[[Any], bool] | None = None
    # Of ``meaning``, what is said in other words where inputs are no images.
    of_examples: Mapping[str, Any] = field(default_factory=dict)
    # Of all guesses, one answer and all scores of a row: what a reader would miss in it (a line in
    # missing.csv) or ""; where it raises NotMeasured there is that line and no row.
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
