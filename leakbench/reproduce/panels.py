"""What the figures over rounds have in common: lines with bands over seeds, and what stands around
a panel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leakbench.reproduce.row import Measurement
from leakbench.results.settings import Setting

Settings = Mapping[tuple[str, str], Setting]  # by case's label and data set


def gained(setting: Setting) -> list[dict[int, float]]:
    """Each seed's utility as {round: value}."""
    return [{e.round: e.value for e in seed.evaluations} for seed in setting.evaluated]


def error_bars(rows: Sequence[Measurement]) -> list[list[float]]:
    """How far below and above each value its interval goes, as matplotlib takes them."""
    return [[m.value - m.lowest for m in rows], [m.highest - m.value for m in rows]]


def band(
    axes: Any, values: Sequence[Mapping[int, float]], place: int, label: str, line: str = "-"
) -> None:
    """The mean of several {round: value} over the rounds that all have, and from the lowest to the
    highest.

    Args:
        axes: of matplotlib.
        values: one for each seed.
        place: of the line among the panel's; its colour and width.
        label: in the legend.
        line: of matplotlib.
    """
    if not values:
        return
    at = sorted(set.intersection(*(set(v) for v in values)))
    each = [[v[t] for v in values] for t in at]
    look = {
        "lw": wide(place),
        "ls": line,
        "marker": "o" if len(at) < 6 else None,
        "ms": 3,
        "color": f"C{place}",
    }
    axes.plot(at, [sum(e) / len(e) for e in each], label=label, **look)
    if len(values) > 1:
        axes.fill_between(
            at, [min(e) for e in each], [max(e) for e in each], color=f"C{place}", alpha=0.12, lw=0
        )


def wide(place: int) -> float:
    """Later lines are thinner, so that one on top of another leaves both to be seen."""
    return max(0.8, 2.8 - 0.6 * place)


def titled(
    axes: Any, title: str, across: str, up: str, limits: tuple[float, float] | None = None
) -> None:
    """The panel's title, what its axes are and, where given, from where to where the upright one
    goes.
    """
    axes.set_title(title, fontsize=8.5, parse_math=False)
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    if limits:
        axes.set_ylim(*limits)
