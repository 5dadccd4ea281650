"""Why a run is dead: its model did not learn, its prototypes have become one, or it diverged."""

from __future__ import annotations

import math

from leakbench.base.meaning import Meaning
from leakbench.base.reason import Reason, reason
from leakbench.record.columns import BEGINNING, RUN_DIAGNOSTICS
from leakbench.record.folders import Run
from leakbench.statistics.intervals import Estimate

COLLAPSED_COSINE, COLLAPSED_RATIO = 0.99, 0.01
# Times the loss of the first rounds (``BEGINNING``), or times 1 where that was less: a hinge may
# begin at 0. Or, of the cross-entropy of the global model, where they had run away already, times
# that of who answers every class alike.
RUNAWAY = 10
DIAGNOSTIC = {"cosine": "prototype_mean_cosine", "euclidean": "prototype_distance_ratio"}


def why_dead(run: Run, meaning: Meaning, final: Estimate) -> Reason | None:
    """Why ``run`` is dead; None where it is not.

    Args:
        run: a complete run.
        meaning: of its utility.
        final: its utility after training: dead is what is not beyond chance, or not beyond what
            there is without training (``UtilityMetric.untaught``, and the untrained network).

    Raises:
        BrokenFile: its diagnostics are missing, changed or damaged.
    """
    about = run.meta["utility"]
    end = final.low if meaning.direction == "up" else final.high
    known = {"chance": float(about["chance"]), **about.get("untaught", {})}
    for what, value in known.items():
        if not meaning.worse(end, value):
            ends = {"low": final.low, "high": final.high, "value": final.value, "level": value}
            shown = {name: meaning.text(number) for name, number in ends.items()}
            shown["n"] = str(final.n)
            return reason("not_beyond", metric=meaning.heading, what=what, **shown)
    distance = str(run.meta.get("distance", ""))
    last = _last(run, DIAGNOSTIC.get(distance, ""))
    if distance == "cosine" and last is not None and last > COLLAPSED_COSINE:
        return reason("one_direction", cosine=last)
    if distance == "euclidean" and last is not None and last < COLLAPSED_RATIO:
        return reason("one_point", ratio=last)
    return why_diverged(run)


def why_diverged(run: Run) -> Reason | None:
    """How the loss of ``run`` ran away; None where it did not.

    What its model still answers right it answers by luck.

    Raises:
        BrokenFile: as ``why_dead``.
    """
    lines = _lines(run, "loss")
    early = [line for line in lines[:-1] if line[0] <= BEGINNING] or lines[:1]
    if len(lines) >= 2 and lines[-1][1] > RUNAWAY * max(1.0, *(abs(x) for _, x in early)):
        first, began = max(early, key=lambda line: abs(line[1]))
        last, ended = lines[-1]
        return reason("loss_ran_away", began=began, first=first, ended=ended, last=last)
    loss = _last(run, "global_loss")
    if loss is None:
        return None
    alike = math.log(max(int(run.meta["facts"]["classes"]), 2))
    if loss <= RUNAWAY * alike:
        return None
    return reason("loss_of_model", loss=loss, alike=alike)


def _last(run: Run, name: str) -> float | None:
    """The newest value of a diagnostic."""
    lines = _lines(run, name)
    return lines[-1][1] if lines else None


def _lines(run: Run, name: str) -> list[tuple[int, float]]:
    """(round, value) of a diagnostic, the newest last."""
    if not name:
        return []
    table = run.table("diagnostics.csv", RUN_DIAGNOSTICS)
    return sorted((line["round"], float(line["value"])) for line in table if line["name"] == name)
