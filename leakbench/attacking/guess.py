"""What an attack outputs, saved before anything is scored."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Guess:
    """What an attack claims about one client at one round.

    ``unit``: "client/3". ``accepted``: by the attack's own self-check, without the truth.
    ``failed``: why the attack has no guess for this unit (then ``tensors`` is empty, and the unit
    scores what the blind guess scores). ``flags``: what a reader should know about this guess
    (loss_did_not_fall, gradient_vanished, restarts_disagree).
    """

    unit: str
    round: int
    tensors: dict[str, Tensor] = field(default_factory=dict)
    accepted: bool = False
    probe: int | None = None
    failed: str = ""
    flags: tuple[str, ...] = ()
