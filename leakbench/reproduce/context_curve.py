"""FLea's Figure 9, last panel: how well a planted context is told, against the samples made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakbench.attacking.guessing import Role, saved
from leakbench.base import plots
from leakbench.base.errors import NotMeasured
from leakbench.metrics.context import AIM, CONTEXT_ACCURACY, shares
from leakbench.record.folders import Run
from leakbench.scoring.truth import Truth
from leakbench.statistics import intervals


@dataclass(frozen=True)
class CurvePoint:
    """Balanced accuracy over clients with 95 % interval, with this many samples."""

    samples: int
    value: float
    low: float
    high: float
    n: int  # unit scores


def curve(
    run: Run, folder: Path, *, role: Role = "attack", stage: str = "final"
) -> list[CurvePoint]:
    """Accuracy against samples from the saved guesses of an attack ``context`` on ``run``.

    The last point is its row in results.csv.

    Args:
        run: for the truth.
        folder: of the attack.
        role: "control" for what nothing defended would have given away.
        stage: which audited round.

    Raises:
        NotMeasured: no draw was made there, or the clients' contexts are not known or all alike.
        BrokenFile: guesses or truth are damaged.
    """
    truth = Truth(run)
    at = {(g.role, g.guess.unit): g.guess for g in saved(folder) if g.stage == stage}
    draws = {unit: g for (r, unit), g in at.items() if r == role}
    made = [g for g in draws.values() if not g.failed]
    if not made:
        raise NotMeasured(f"{folder} holds no guess of the role {role} at the stage {stage}.")
    coin = CONTEXT_ACCURACY.floor or CONTEXT_ACCURACY.score
    points = []
    for i, samples in enumerate(made[0].tensors["sizes"].tolist()):
        scores = []
        for unit, guess in draws.items():
            answer = truth.answer(guess)
            if guess.failed:  # scores what the blind guess scores, as in results.csv
                scores += coin(at["floor", unit], answer)
            else:
                scores += shares(guess, answer, guess.tensors["score"][i])
        values, clusters = [s.value for s in scores], [s.cluster for s in scores]
        limits = {"low": CONTEXT_ACCURACY.low, "high": CONTEXT_ACCURACY.high}
        found = intervals.estimate(values, clusters, share=False, unit="client", **limits)
        points.append(CurvePoint(int(samples), found.value, found.low, found.high, found.n))
    return points


def draw(curves: Mapping[str, Sequence[CurvePoint]], folder: Path, stem: str) -> list[Path]:
    """One line per entry of ``curves``, its label the key.

    Writes ``folder``/``stem``.svg and .png and returns both.

    Raises:
        UsageError: the place cannot be written.
    """
    from matplotlib.figure import Figure

    with plots.style():
        figure = Figure(figsize=(4.8, 3.4), layout="constrained")
        axes = figure.add_subplot()
        for i, (label, points) in enumerate(curves.items()):
            plot(axes, points, label, i)
        axes.axhline(0.5, color="#67645e", ls=":", lw=1)
        axes.axhline(AIM, color="#67645e", ls="--", lw=0.8)
        axes.set_xscale("log")
        axes.set_ylim(0.4, 1.02)
        axes.set_xlabel("samples that the attacker made")
        axes.set_ylabel("balanced accuracy over clients")
        if curves:
            axes.legend(fontsize=7, frameon=False, loc="lower right")
        return plots.save(figure, folder, stem)


def plot(
    axes: Any,
    points: Sequence[CurvePoint],
    label: str,
    place: int,
    *,
    width: float = 1.1,
    alpha: float = 0.12,
) -> None:
    """A line with its band, in the colour of its ``place`` among the lines of ``axes``."""
    x, colour = [p.samples for p in points], f"C{place}"
    line = {"marker": "o", "ms": 3, "lw": width, "color": colour, "label": label}
    axes.plot(x, [p.value for p in points], **line)
    low, high = [p.low for p in points], [p.high for p in points]
    axes.fill_between(x, low, high, color=colour, alpha=alpha, lw=0)
