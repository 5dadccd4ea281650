"""What a metric is: one guess and one answer become one score per independent unit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from leakbench.attacking.guess import Guess

Leaks = Literal["up", "down"]


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
    """How a guess is turned into scores, and how they are to be read.

    ``score(guess, answer)`` is the only code that sees guess and truth together. ``floor`` stands
    in for the blind guess where a formula gives its score exactly; ``floor_of`` = "attack" hands it
    the attack's own guess instead (to pair it at random). ``control`` likewise stands in for the
    guess on the control transcript. ``exact``: scores are counted over everything there is, nothing
    is sampled, so their mean has no width. ``needs``: tensors without which the metric does not
    apply to a guess. ``beside``: further numbers per unit that stand in units.csv only. ``version``
    counts changes of meaning. ``remark``: of all guesses, one answer and all scores of a row, what
    a reader would miss in it (a line in missing.csv) or ""; where it raises NotMeasured there is
    that line and no row.
    """

    name: str
    leaks: Leaks
    low: float
    high: float
    unit: str
    share: bool
    needs: tuple[str, ...]
    score: Callable[[Guess, Any], list[Score]]
    floor: Callable[[Guess, Any], list[Score]] | None = None
    floor_of: Literal["blind", "attack"] = "blind"
    beside: tuple[tuple[str, Callable[[Guess, Any], list[Score]]], ...] = ()
    version: int = 1
    control: Callable[[Guess, Any], list[Score]] | None = None
    exact: bool = False
    remark: Callable[[Sequence[Guess], Any, Sequence[Score]], str] | None = None
