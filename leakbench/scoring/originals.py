"""What a reconstruction is compared with, and which guess stands beside which original."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from leakbench.base.errors import NotMeasured
from leakbench.base.lazy import torch
from leakbench.federation.input_range import DECLARE, UNIT, InputRange
from leakbench.scoring import image_distances

if TYPE_CHECKING:
    from torch import Tensor

# A guess with a tensor "<kind>.rows" is about these rows of the client's newest message of that
# kind.
ROWS = ".rows"
# One with "<kind>.among" is about all rows of it, in no order, and may hold more guesses than there
# are rows; with both it is about the rows that are named, in no order.
AMONG = ".among"
# One with "<kind>.classes" is of these classes, one for each guess, and about the rows of them that
# are nearest: a client may have more of a class or fewer.
CLASSES = ".classes"


@dataclass(frozen=True)
class Originals:
    """What the ``x`` of a guess is compared with."""

    x: Tensor  # (B, ...) float64, on [0, 1] where its range has bounds
    rows: Tensor  # (B,) their rows in the task's data
    ordered: bool  # guess j is about x[j]; else about any of them
    spare: bool = False  # there may be more guesses than x
    input_range: InputRange = UNIT  # of the guesses, as attacks make them

    @classmethod
    def of(
        cls, x: Tensor, rows: Tensor, input_range: InputRange, *, ordered: bool, spare: bool = False
    ) -> Originals:
        """Of inputs ``x`` (B, ...) as the network takes them.

        Raises:
            NotMeasured: some lie outside of their range.
        """
        beyond = input_range.beyond(x)
        if beyond:
            raise NotMeasured(f"inputs {beyond}: say where they lie, {DECLARE}")
        return cls(input_range.unit(x), rows, ordered, spare, input_range)

    def beside(self, guess: Tensor, *, clip: bool) -> Tensor:
        """What of ``guess`` each of ``x`` is compared with: its own, or by optimal assignment.

        Args:
            guess: (m, ...), m = B, or m >= B with ``spare``, as the network takes inputs.
            clip: to [0, 1] before distances are taken.

        Returns:
            (B, ...) float64, on the scale of ``x``.

        Raises:
            ValueError: another number of guesses, or one that is not finite.
        """
        found = as_floats(guess.cpu(), self.input_range).reshape(-1, *self.x.shape[1:])
        found = self.input_range.unit(found)
        if len(found) < len(self.x) or (len(found) > len(self.x) and not self.spare):
            more = " or more" if self.spare else ""
            raise ValueError(
                f"expected {len(self.x)} guesses{more}, one for each original, got {len(found)}."
            )
        return found if self.ordered else found[image_distances.match(found, self.x, clip=clip)]


def as_floats(x: Tensor, lies: InputRange) -> Tensor:
    """Inputs in float64; bytes stand for images on [0, 1], as in a task's data, if these lie so."""
    stored = x.dtype == torch.uint8 and lies.plain and lies.bounded
    return x.double() / 255 if stored else x.double()
