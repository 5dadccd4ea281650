"""FedAA's figures from our runs.

Accuracy over rounds (the tables' runs), the loss (Figure 4), how far local models are apart
(Figure 5), and names (Figure 8).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from leakbench.base import plots
from leakbench.reproduce import fedaa_loss, fedaa_names, fedaa_variance, write
from leakbench.reproduce.fedaa_setups import ABLATED, METHODS
from leakbench.reproduce.panels import Settings, band, gained, titled, wide
from leakbench.reproduce.recipe import Case, Recipe
from leakbench.reproduce.row import Row
from leakbench.results.settings import Setting

GREY = "#67645e"
Found = dict[tuple[str, str, str, int], float]  # measure, one set, the other, n
# Axes, a method's name, its place among the lines, its runs.
Draw = Callable[[Any, str, int, Setting], None]


def fractions(
    recipe: Recipe, scale: str, rows: Sequence[Row], settings: Settings, folder: Path
) -> list[Path]:
    """Accuracy (or BLEU-4) over rounds: a row of panels per data set, a panel per C.

    A line is the seeds' mean, with a band from the lowest to the highest.
    """

    def draw(axes: Any, method: str, place: int, setting: Setting) -> None:
        band(axes, gained(setting), place, method, _line(method))

    what = recipe.measures[0].title.removeprefix("best ")
    return _panels(recipe, scale, rows, settings, folder, draw, (what, "linear"))


def variance(
    recipe: Recipe, scale: str, rows: Sequence[Row], settings: Settings, folder: Path
) -> list[Path]:
    """Figure 5: variance of the local models over rounds.

    Dotted: a second upload's, which comes one epoch after an average.
    """

    def draw(axes: Any, method: str, place: int, setting: Setting) -> None:
        first = [fedaa_variance.variances(r, fedaa_variance.FIRST) for r in setting.runs]
        band(axes, first, place, method, _line(method))
        second = [fedaa_variance.variances(r, fedaa_variance.SECOND) for r in setting.runs]
        band(axes, [v for v in second if v], place, f"{method}, second upload", ":")

    return _panels(recipe, scale, rows, settings, folder, draw, ("variance of local models", "log"))


def loss(
    recipe: Recipe, scale: str, rows: Sequence[Row], settings: Settings, folder: Path
) -> list[Path]:
    """Figure 4: the global model's loss on the clients' data, over rounds."""

    def draw(axes: Any, method: str, place: int, setting: Setting) -> None:
        band(axes, [fedaa_loss.losses(r) for r in setting.runs], place, method, _line(method))

    return _panels(recipe, scale, rows, settings, folder, draw, ("loss", "linear"))


def names(
    recipe: Recipe, scale: str, rows: Sequence[Row], settings: Settings, folder: Path
) -> list[Path]:
    """Figure 8, a row of panels per data set.

    Heat maps of the paper's R² and of the corrected one, and both with images over n.

    Dotted: R² of random pairs of the same rows.
    """
    from matplotlib.figure import Figure

    sets = list(dict.fromkeys(r.dataset for r in rows if r.ours))
    with plots.style():
        figure = Figure(figsize=(12.6, 3.9 * len(sets)), layout="constrained")
        for line, dataset in zip(figure.subplots(len(sets), 3, squeeze=False), sets, strict=True):
            mine = [r for r in rows if r.dataset == dataset]
            found: Found = {}
            for r in mine:
                if r.ours:
                    x, y, n = (r.params[k] for k in ("x", "y", "n"))
                    found[r.measure, x, y, n] = found[r.measure, y, x, n] = r.ours.value
            heats = zip(line, ("r2", "corrected"), ("R² (Eq. 13)", "corrected R²"), strict=False)
            for axes, key, title in heats:
                _heat(axes, key, found)
                at = f"{write.title(mine)}: {title}, n = {fedaa_names.MAPPED}"
                axes.set_title(at, fontsize=8.5, parse_math=False)
            _over_n(line[2], found)
        return plots.save(figure, folder, scale)


def _heat(axes: Any, key: str, found: Found) -> None:
    """Every pair of sets at the heat map's n.

    A set with itself is 1 (a constant one: 0 by convention).
    """
    sets = fedaa_names.SETS
    table = []
    for x in sets:
        line = [found.get((key, x, y, fedaa_names.MAPPED), math.nan) for y in sets]
        line[sets.index(x)] = 0.0 if x == fedaa_names.ONE else 1.0
        table.append(line)
    axes.imshow(table, vmin=0, vmax=1, cmap="Blues")
    for i, line in enumerate(table):
        for j, value in enumerate(line):
            if not math.isnan(value):
                text = f"{value:.2f}".replace("-0.00", "0.00")
                look = {"fontsize": 7, "color": "white" if value > 0.55 else "black"}
                axes.text(j, i, text, ha="center", va="center", **look)
    axes.set_xticks(range(len(sets)), sets, rotation=35, ha="right", fontsize=7)
    axes.set_yticks(range(len(sets)), sets, fontsize=7)


def _over_n(axes: Any, found: Found) -> None:
    """What images have in common with each other set.

    As the paper measures it, by chance, and without bias.
    """
    lines = {
        "r2": ("-", "R² (Eq. 13)"),
        "r2_null": (":", "R² of random pairs"),
        "corrected": ("--", "corrected R²"),
    }
    at: list[int] = []
    for place, name in enumerate(fedaa_names.SETS[1:]):
        at = sorted(n for key, x, y, n in found if (key, x, y) == ("r2", fedaa_names.RAW, name))
        for key, (line, _) in lines.items():
            values = [found[key, fedaa_names.RAW, name, n] for n in at]
            look = {
                "lw": wide(place),
                "color": "black" if key == "r2_null" else f"C{place}",
                "marker": None if key == "r2_null" else "o",
            }
            axes.plot(at, values, line, ms=3, label=name if key == "r2" else f"_{key}", **look)
    for key, (line, what) in lines.items():
        axes.plot([], [], line, lw=1, color="black" if key == "r2_null" else GREY, label=what)
    titled(axes, f"with {fedaa_names.RAW}", "n, images", "R²", (-0.05, 1.03))
    axes.set_xscale("log")
    axes.set_xticks(at, [f"{n:,}" for n in at])
    axes.minorticks_off()
    axes.legend(fontsize=6.5, frameon=False, loc="upper left", bbox_to_anchor=(1, 1))


def _panels(
    recipe: Recipe,
    scale: str,
    rows: Sequence[Row],
    settings: Settings,
    folder: Path,
    draw: Draw,
    upright: tuple[str, str],
) -> list[Path]:
    """A row of panels per data set, a panel per C.

    ``upright``: what the upright axis shows, and its scale.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    cases = recipe.of(scale)
    sets = list(dict.fromkeys(dataset for _, dataset in settings))
    shares = list(dict.fromkeys(c.params["fraction"] for c in cases))
    size = (1.4 + 3.8 * len(shares), 3.4 * len(sets))
    with plots.style():
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(len(sets), len(shares), squeeze=False, sharey="row")
        for line, dataset in zip(grid, sets, strict=True):
            where = write.title([r for r in rows if r.dataset == dataset])
            for axes, share in zip(line, shares, strict=True):
                for place, case in enumerate(c for c in cases if c.params["fraction"] == share):
                    setting = settings.get((case.label, dataset))
                    if setting:
                        draw(axes, _method(case), place, setting)
                titled(axes, f"{where}, C = {share:g}", "round", upright[0])
                axes.set_yscale(upright[1])
                axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            if line[-1].get_legend_handles_labels()[0]:
                line[-1].legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
        return plots.save(figure, folder, scale)


def _line(method: str) -> str:
    """FedAA without some of its parts is dashed: it often lies on FedAA."""
    return "--" if method in (*ABLATED, "Neither") else "-"


def _method(case: Case) -> str:
    """Its name without C."""
    return next(name for name in METHODS if case.label.startswith(f"{name},"))
