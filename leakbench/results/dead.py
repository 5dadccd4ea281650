"""Why a run is dead: its model did not learn, or all its prototypes have become one."""

from __future__ import annotations

from typing import Any

from leakbench.base.meaning import Meaning
from leakbench.record.columns import RUN_DIAGNOSTICS
from leakbench.record.folders import Run
from leakbench.statistics.intervals import Estimate

COLLAPSED_COSINE, COLLAPSED_RATIO = 0.99, 0.01
DIAGNOSTIC = {"cosine": "prototype_mean_cosine", "euclidean": "prototype_distance_ratio"}


def why_dead(run: Run, meaning: Meaning, final: Estimate) -> str:
    """Why ``run`` is dead, a clause for a sentence, or "".

    Args:
        run: a complete run.
        meaning: of its utility.
        final: its utility after training: not beyond chance is dead.

    Raises:
        BrokenFile: its diagnostics are missing, changed or damaged.
    """
    chance = float(run.meta["utility"]["chance"])
    end = final.low if meaning.direction == "up" else final.high
    if not meaning.worse(end, chance):
        value = meaning.text(final.value)
        return f"{meaning.heading} {value} is not beyond chance ({meaning.text(chance)})"
    distance = str(run.meta.get("distance", ""))
    last = _last(run, DIAGNOSTIC.get(distance, ""))
    if distance == "cosine" and last is not None and last > COLLAPSED_COSINE:
        return f"its prototypes have become one direction (mean cosine {last:.3f})"
    if distance == "euclidean" and last is not None and last < COLLAPSED_RATIO:
        text = f"their distance is {last:.4f} of the embeddings'"
        return f"its prototypes have become one point ({text})"
    return ""


def _last(run: Run, name: str) -> float | None:
    """The newest value of a diagnostic."""
    lines: list[Any] = []
    if name:
        table = run.table("diagnostics.csv", RUN_DIAGNOSTICS)
        lines = [(line["round"], line["value"]) for line in table if line["name"] == name]
    return float(max(lines)[1]) if lines else None
