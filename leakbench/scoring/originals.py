"""What a reconstruction is compared with, and which guess stands beside which original."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from leakbench.scoring import image_distances

if TYPE_CHECKING:
    from torch import Tensor

# A guess with a tensor "<kind>.rows" is about these rows of the client's newest message of that
# kind.
ROWS = ".rows"
# One with "<kind>.among" is about all rows of it, in no order, and may hold more guesses than there
# are rows.
AMONG = ".among"


@dataclass(frozen=True)
class Originals:
    """What the ``x`` of a guess is compared with."""

    x: Tensor  # (B, ...) float64
    rows: Tensor  # (B,) their rows in the task's data
    ordered: bool  # guess j is about x[j]; else about any of them
    spare: bool = False  # there may be more guesses than x

    def beside(self, guess: Tensor, *, clip: bool) -> Tensor:
        """What of ``guess`` each of ``x`` is compared with: its own, or by optimal assignment.

        Args:
            guess: (m, ...), m = B, or m >= B with ``spare``.
            clip: to [0, 1] before distances are taken.

        Returns:
            (B, ...) float64.

        Raises:
            ValueError: another number of guesses, or one that is not finite.
        """
        found = guess.double().cpu().reshape(-1, *self.x.shape[1:])
        if len(found) < len(self.x) or (len(found) > len(self.x) and not self.spare):
            more = " or more" if self.spare else ""
            raise ValueError(
                f"expected {len(self.x)} guesses{more}, one for each original, got {len(found)}."
            )
        return found if self.ordered else found[image_distances.match(found, self.x, clip=clip)]
