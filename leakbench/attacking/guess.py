"""What an attack outputs, saved before anything is scored."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from leakbench.base.errors import MethodError

if TYPE_CHECKING:
    from torch import Tensor

    from leakbench.attacking.view import View
    from leakbench.federation.input_range import InputRange

_UNIT = re.compile(r"[a-z_]+/(0|[1-9]\d{0,8})")


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
    # What a reader should know: loss_did_not_fall, gradient_vanished, restarts_disagree, and
    # below_class_mean where what was found shows nothing.
    flags: tuple[str, ...] = ()
    # Where the inputs of the transcript that was attacked in memory lie; of a run its task says so.
    input_range: InputRange | None = None


def guess_on_device(guess: Guess, device: str) -> Guess:
    """The same, its tensors on ``device``."""
    return replace(guess, tensors={k: t.to(device) for k, t in guess.tensors.items()})


def checked_guesses(
    guesses: Sequence[Guess], who: str, view: View, covers: Callable[[Guess], set[str]]
) -> list[Guess]:
    """The guesses with tensors of their own, where they are guesses about what ``view`` shows.

    Raises:
        MethodError: naming the attack ``who`` and the first that is not.
    """
    if not isinstance(guesses, list | tuple):
        raise MethodError(
            f"{who} returned {type(guesses).__name__}: expected a list of Guess, one for each"
            " client or probe; the function must return it."
        )
    seen: set[tuple[str, int | None]] = set()
    for g in guesses:
        if not isinstance(g, Guess):
            raise MethodError(f"{who} returned a list with {type(g).__name__} in it, not a Guess.")
        why = _wrong(g, view)
        if why:
            raise MethodError(f"{who} guessed about {g.unit}: {why}.")
        if (g.unit, g.probe) in seen:
            raise MethodError(f"{who} guessed one unit twice at round {view.round}.")
        seen.add((g.unit, g.probe))
        if not g.failed and not all(bool(t.isfinite().all()) for t in g.tensors.values()):
            raise MethodError(
                f"{who}: the guess for {g.unit} is not finite; report it as failed instead."
            )
        named = [u for u in sorted(covers(g)) if u.startswith("client/")]
        nobody = [u for u in named if not view._exists(u)]
        if nobody:
            raise MethodError(
                f"{who} guessed about {nobody[0]}, which does not exist or is the observer itself."
            )
    return [_own(g) for g in guesses]


def _own(g: Guess) -> Guess:
    """With tensors of its own: an attack may hand on the very message that it was given."""
    return replace(g, tensors={k: t.detach().clone() for k, t in g.tensors.items()})


def _wrong(g: Guess, view: View) -> str:
    """Why a guess cannot be about anything that was attacked; empty where it can."""
    if not _UNIT.fullmatch(g.unit):
        return "expected the name of a unit, as client/3"
    if g.unit.startswith("client/") and not view._exists(g.unit):
        return "there is no such client, or it is the observer itself"
    if g.round != view.round:
        return f"the guess names round {g.round}, and round {view.round} was attacked"
    if g.probe is not None and not view._exists(g.unit, g.probe):
        return f"it sent no probe {g.probe} in round {g.round}"
    return ""
