"""What attacks on one run prove of its ε: a lower bound, by guesses about fair coins.

Steinke, Nasr and Jagielski, "Privacy auditing with one (1) training run", NeurIPS 2023. A task with
``held_out`` draws of each client's examples, at random, those that the client does not train on. So
which of two candidates of a client it trained on is a fair coin, and independent of that of every
other pair: swapped, the two would have been drawn as likely. A pair that falls the other way is a
client with another example in the place of one: the neighbours of ``replace``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from leakbench.base.errors import NotMeasured
from leakbench.base.lazy import torch
from leakbench.record.folders import AttackFolder, Run
from leakbench.scoring.candidate_scores import asked_of_members, candidate_scores
from leakbench.scoring.truth import Truth
from leakbench.statistics.epsilon import LEVEL, proven_epsilon

if TYPE_CHECKING:
    from torch import Tensor

# Of all pairs so many are guessed, the surest first. They were fixed before any run was looked at;
# the best of all of them pays for having been picked (Bonferroni).
SHARES = (1.0, 1 / 4, 1 / 16, 1 / 64)


@dataclass(frozen=True)
class Proven:
    """The largest lower bound of several: ``right`` of ``guesses`` about ``pairs`` pairs.

    ``epsilon``: of 95 % over all ``tried`` together. ``attack``: the folder of the guesses.
    """

    epsilon: float
    attack: str
    pairs: int
    guesses: int
    right: int
    tried: int


def held_examples(run: Run) -> int | None:
    """How many examples all clients train on; None where the run does not say (an export)."""
    return int(Truth(run).data["counts"].sum()) if _has_answers(run) else None


def audited(run: Run, delta: float) -> Proven | None:
    """The largest ε that the membership attacks on ``run`` refute; None where there are none.

    Raises:
        NotMeasured: there are guesses, and they prove nothing: members are no fair coins, or the
            record has no answers.
        BrokenFile: guesses are damaged, or another run's.
    """
    folders = asked_of_members(run)
    if not folders:
        return None
    if not run.spec["task"]["params"].get("held_out"):
        raise NotMeasured(
            "members and others were not drawn by a coin: hold some of each client's own examples"
            " out (task.held_out), and train again"
        )
    if not _has_answers(run):
        raise NotMeasured("the record does not say who was a member")
    gaps = {f.path.name: pair_gaps(run, f) for f in folders}
    return most_proven(gaps, delta)


def most_proven(gaps: dict[str, Tensor], delta: float) -> Proven:
    """The largest lower bound of all attacks and ``SHARES``, at 95 % over all of them.

    ``gaps``: of each attack (pairs,), see ``pair_gaps``.
    """
    tried, found = len(gaps) * len(SHARES), []
    for name, gap in gaps.items():
        surest = gap[gap.abs().argsort(descending=True, stable=True)]
        for share in SHARES:
            some = surest[: max(1, round(share * len(gap)))]
            some = some[some != 0]  # no guess
            right, level = int((some > 0).sum()), LEVEL / tried
            least = proven_epsilon(len(gap), len(some), right, delta, level)
            found.append(Proven(least, name, len(gap), len(some), right, tried))
    return max(found, key=lambda p: p.epsilon)


def pair_gaps(run: Run, attack: AttackFolder) -> Tensor:
    """(pairs,) float64: how far the member of each pair is ranked above the other; 0: not at all.

    The candidates of a client lie in an order drawn at random, whose i-th member is paired with the
    i-th other. Of a client of whom nothing was guessed all are 0.
    """
    gaps = []
    for member, score in candidate_scores(run, attack):
        told = torch.zeros(len(member), dtype=torch.float64) if score is None else score
        gaps.append(told[member] - told[~member])
    return torch.cat(gaps)


def _has_answers(run: Run) -> bool:
    return "truth/data.safetensors" in run.meta.get("files", {})
