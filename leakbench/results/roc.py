"""How many members an attack names at each share of false alarms: its ROC."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakbench.base.part import Part
from leakbench.base.spec import canonical
from leakbench.federation.traffic import members
from leakbench.record.folders import AttackFolder, Run
from leakbench.results.number import Attacker, Measured
from leakbench.scoring.candidate_scores import TOPIC, asked_of_members, candidate_scores

POINTS = 60  # of a curve, evenly on a logarithmic axis
ROUND = (0.001, 0.01, 0.1)  # where it is read, so that a step there is not read too early


class Roc(Part):
    """Of one attack on a setting, over all clients but who observes; the mean of its seeds.

    ``false``: shares of the examples that nobody trained on which are named, from one of them to
    all, evenly on a logarithmic axis, and round ones. ``true``: of members, at no more false alarms
    than that.
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
    asked: dict[tuple[str, str], Attacker] = {}
    seeds_asked: set[tuple[int, tuple[str, str]]] = set()
    for m in measured:
        if m.meaning.topic and m.meaning.topic.name == TOPIC:
            asked[m.attacker.key] = m.attacker
            seeds_asked.add((m.run.seed, m.attacker.key))
    found: dict[tuple[str, str], list[NDArray[Any]]] = {}
    for run in runs:
        for folder in asked_of_members(run):
            key = (folder.meta["attack"], canonical(folder.meta["params"]))
            if (run.seed, key) in seeds_asked:
                found.setdefault(key, []).append(_told(run, folder))
    out = []
    for key, seeds in found.items():
        others = min(int((told[0] == 0).sum()) for told in seeds)
        false = np.geomspace(1 / others, 1.0, POINTS)
        false = np.union1d(false, [f for f in ROUND if f > false[0]])
        true = np.mean([_named(told, false) for told in seeds], axis=0)
        points = {"false": tuple(false.tolist()), "true": tuple(true.tolist())}
        out.append(Roc(attacker=asked[key], **points, others=others, seeds=len(seeds)))
    return tuple(out)


def _told(run: Run, folder: AttackFolder) -> NDArray[Any]:
    """(2, n): whether each candidate of all clients but who observes is a member, and its score."""
    parts = []
    for member, score in candidate_scores(run, folder, but=members(_observer(folder))):
        said = np.full(len(member), -np.inf) if score is None else score.numpy()
        parts.append(np.stack([member.numpy().astype(float), said]))
    return np.concatenate(parts, axis=1)


def _observer(folder: AttackFolder) -> str:
    return str(folder.meta["params"].get("observer", ""))


def _named(told: NDArray[Any], false: NDArray[Any]) -> NDArray[Any]:
    """The share of members at each share of false alarms; of ties as many as there is room for."""
    from sklearn.metrics import roc_curve

    member, score = told
    least = score[np.isfinite(score)].min(initial=0.0) - 1.0
    score = np.where(np.isfinite(score), score, least)
    alarms, named, _ = roc_curve(member, score, drop_intermediate=False)
    at = np.searchsorted(alarms, false * (1 + 1e-9), side="right") - 1
    after = np.minimum(at + 1, len(alarms) - 1)
    step = np.where(alarms[after] > alarms[at], alarms[after] - alarms[at], 1.0)
    room = np.clip((false - alarms[at]) / step, 0.0, 1.0)
    return named[at] + room * (named[after] - named[at])
