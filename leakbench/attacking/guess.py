"""What an attack outputs, saved before anything is scored."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Guess:
    """What an attack claims about one client at one round."""

    unit: str  # "client/3"
    round: int
    tensors: dict[str, Tensor] = field(default_factory=dict)
    accepted: bool = False  # by the attack's own self-check, without the truth
    probe: int | None = None
    # Why the attack has no guess for this unit; then ``tensors`` is empty, and the unit scores what
    # the blind guess scores.
    failed: str = ""
    # What a reader should know: loss_did_not_fall, gradient_vanished, restarts_disagree.
    flags: tuple[str, ...] = ()
