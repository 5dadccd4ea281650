"""What an attack said of each candidate, beside who was a member."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from leakbench.attacking.guess import Guess
from leakbench.attacking.guessing import saved
from leakbench.record.folders import AttackFolder, Run
from leakbench.record.placing import GUESS
from leakbench.scoring.truth import Truth

if TYPE_CHECKING:
    from torch import Tensor

TOPIC = "members"  # of what is scored of such guesses
TENSOR = "membership"  # of guesses: a score for each candidate of a client


def asked_of_members(run: Run) -> list[AttackFolder]:
    """The attacks on ``run`` that guessed, and were scored on, who was a member."""
    return [f for f in run.attacks if f.done and any(map(_of_members, f.meta["metrics"].values()))]


def candidate_scores(
    run: Run, attack: AttackFolder, but: Collection[int] = ()
) -> Iterator[tuple[Tensor, Tensor | None]]:
    """Of each client, in order, ``but`` these: members (n,) bool, and scores (n,) float64.

    None in place of scores where nothing was guessed. A client's candidates lie in an order drawn
    at random.

    Raises:
        NotMeasured: the record has no candidates.
        BrokenFile: guesses are damaged, or another run's.
    """
    attack.check(GUESS)
    run.owns_guesses(attack)
    asked = Truth(run).candidates
    told = {g.unit: g for g in _guesses(attack)}
    for client in sorted({*asked["client"].tolist()} - {*but}):
        member = asked["member"][asked["client"] == client]
        guess = told.get(f"client/{client}")
        said = None if guess is None or guess.failed else guess.tensors.get(TENSOR)
        fits = said is not None and said.shape == member.shape
        yield member, said.double().cpu() if fits and said is not None else None


def _guesses(attack: AttackFolder) -> Iterator[Guess]:
    for one in saved(attack.path):
        if one.role == "attack" and one.guess.probe is None:
            yield one.guess


def _of_members(meaning: Mapping[str, Any]) -> bool:
    return (meaning.get("topic") or {}).get("name") == TOPIC
