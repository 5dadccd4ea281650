"""The rounds of a run, what follows the last one, and when the utility of what is left is taken."""

from __future__ import annotations

import math
from collections.abc import Callable, Set

import torch
from torch import Tensor

from leakbench.base.tree import flat
from leakbench.federation.defense import Defense
from leakbench.federation.evaluate import Evaluations, diverged
from leakbench.federation.federation import Federation
from leakbench.record.columns import BEGINNING


def run_rounds(
    fed: Federation, rounds: int, at: Set[int], scores: Evaluations, between: Callable[[], None]
) -> None:
    """Every round until ``rounds`` that is left, and what follows the last one.

    ``at``: the rounds after which utility is added to ``scores``. ``between`` is called after each
    round.

    Raises:
        MethodError: training diverged.
    """
    while fed.t < rounds:
        advance(fed, at, scores)
        between()
    end(fed, scores)


def advance(fed: Federation, at: Set[int], scores: Evaluations) -> None:
    """One round, and what is measured after it.

    Raises:
        MethodError: training diverged.
    """
    fed.step()
    if fed.t in at:
        measure(fed, scores)
    elif fed.t <= BEGINNING:
        scores.begin(fed)
    scores.note(fed)


def measure(fed: Federation, scores: Evaluations) -> None:
    """Evaluate the federation as it stands.

    Raises:
        MethodError: it is not finite.
    """
    scores.add(fed)
    now = [(name, value) for t, name, value in scores.diagnostics if t == fed.t]
    bad = [f"{name} is {value}" for name, value in now if not math.isfinite(value)]
    held = {"the model": dict(fed.model), "what clients keep of it": fed.columns["kept"]}
    for what, tensors in held.items():
        if not all(bool(v.isfinite().all()) for v in flat(tensors).values()):
            bad.append(f"{what} is not finite")
    if bad:
        raise diverged(fed, bad[0])


def end(fed: Federation, scores: Evaluations) -> None:
    """What the method does after the last round; what it changed is evaluated once more.

    So the newest utility is that of the model that is left, whoever keeps it.
    """
    if type(fed.method).after is Defense.after:
        fed.end()
        return
    before = {name: tensor.clone() for name, tensor in _evaluated(fed).items()}
    fed.end()
    after = _evaluated(fed)
    same = before.keys() == after.keys() and all(torch.equal(before[k], after[k]) for k in after)
    if not same:
        measure(fed, scores)


def _evaluated(fed: Federation) -> dict[str, Tensor]:
    """What a prediction may read: the model, and what clients hold."""
    held = {name: group for name, group in fed.columns.items() if name != "inbox"}
    return flat({"model": fed.model, **held})
