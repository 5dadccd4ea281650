"""How many members an attack names at each share of false alarms: its ROC."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakbench.base.part import Part
from leakbench.base.spec import canonical
from leakbench.record.folders import AttackFolder, Run
from leakbench.results.number import Attacker, Measured
from leakbench.scoring.candidate_scores import TOPIC, asked_of_members, candidate_scores

POINTS = 60  # of a curve, evenly on a logarithmic axis


class Roc(Part):
    """Of one attack on a setting, over all clients; the mean of its seeds.

    ``false``: shares of the examples that nobody trained on which are named, from one of them to
    all, evenly on a logarithmic axis. ``true``: of members, at no more false alarms than that.
    ``others``: examples that nobody trained on, of a seed. Who is told nothing of ranks last.
    """

    attacker: Attacker
    false: tuple[float, ...]
    true: tuple[float, ...]
    others: int
    seeds: int


def rocs(runs: Sequence[Run], measured: Iterable[Measured]) -> tuple[Roc, ...]:
    """Of every attack whose AUC stands among ``measured``: not where the question was refused.

    Raises:
        BrokenFile: guesses are damaged, or another run's.
    """
    asked = {
        m.attacker.key: m.attacker
        for m in measured
        if m.meaning.topic and m.meaning.topic.name == TOPIC
    }
    found: dict[tuple[str, str], list[NDArray[Any]]] = {}
    for run in runs:
        for folder in asked_of_members(run):
            key = (folder.meta["attack"], canonical(folder.meta["params"]))
            if key in asked:
                found.setdefault(key, []).append(_told(run, folder))
    out = []
    for key, seeds in found.items():
        others = min(int((told[0] == 0).sum()) for told in seeds)
        false = np.geomspace(1 / others, 1.0, POINTS)
        true = np.mean([_named(told, false) for told in seeds], axis=0)
        points = {"false": tuple(false.tolist()), "true": tuple(true.tolist())}
        out.append(Roc(attacker=asked[key], **points, others=others, seeds=len(seeds)))
    return tuple(out)


def _told(run: Run, folder: AttackFolder) -> NDArray[Any]:
    """(2, n): whether each candidate of all clients is a member, and its score."""
    parts = []
    for member, score in candidate_scores(run, folder):
        said = np.full(len(member), -np.inf) if score is None else score.numpy()
        parts.append(np.stack([member.numpy().astype(float), said]))
    return np.concatenate(parts, axis=1)


def _named(told: NDArray[Any], false: NDArray[Any]) -> NDArray[Any]:
    """The largest share of members at no more than each share of false alarms."""
    from sklearn.metrics import roc_curve

    member, score = told
    least = score[np.isfinite(score)].min(initial=0.0) - 1.0
    alarms, named, _ = roc_curve(member, np.where(np.isfinite(score), score, least))
    return named[np.searchsorted(alarms, false * (1 + 1e-9), side="right") - 1]
