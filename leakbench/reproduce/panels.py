"""What the figures over rounds have in common.

Lines with bands over seeds, and what stands around a panel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leakbench.reproduce.row import Measurement
from leakbench.results.settings import Setting

Settings = Mapping[tuple[str, str], Setting]  # by case's label and data set


def gained(setting: Setting) -> list[dict[int, float]]:
    """Each seed's utility as {round: value}."""
    out = []
    for seed in setting.evaluated:
        out.append({e.round: e.value for e in seed.evaluations})
    return out


def error_bars(rows: Sequence[Measurement]) -> list[list[float]]:
    """How far below and above each value its interval goes, as matplotlib takes them."""
    below = [m.value - m.lowest for m in rows]
    return [below, [m.highest - m.value for m in rows]]


def band(
    axes: Any, values: Sequence[Mapping[int, float]], place: int, label: str, line: str = "-"
) -> None:
    """The mean of several {round: value} over the rounds that all have.

    With a band from the lowest to the highest.

    Args:
        axes: of matplotlib.
        values: one for each seed.
        place: of the line among the panel's; its colour and width.
        label: in the legend.
        line: of matplotlib.
    """
    if not values:
        return
    at = sorted(set.intersection(*map(set, values)))
    mean, low, high = [], [], []
    for t in at:
        each = [v[t] for v in values]
        mean.append(sum(each) / len(each))
        low.append(min(each))
        high.append(max(each))
    look = {"lw": wide(place), "ls": line, "marker": "o" if len(at) < 6 else None, "ms": 3}
    axes.plot(at, mean, label=label, color=f"C{place}", **look)
    if len(values) > 1:
        axes.fill_between(at, low, high, color=f"C{place}", alpha=0.12, lw=0)


def wide(place: int) -> float:
    """Later lines are thinner, so that one on top of another leaves both to be seen."""
    return max(0.8, 2.8 - 0.6 * place)


def titled(
    axes: Any, title: str, across: str, up: str, limits: tuple[float, float] | None = None
) -> None:
    """The panel's title, what its axes are and, where given, the limits of the upright one."""
    axes.set_title(title, fontsize=8.5, parse_math=False)
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    if limits:
        axes.set_ylim(*limits)
