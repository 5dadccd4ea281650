"""The figures of the papers from our runs, as SVG and PNG, and their points as CSV."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from leakbench.base import plots
from leakbench.base.errors import NotMeasured
from leakbench.base.files import read_csv, write_csv
from leakbench.metrics import prototype_pairs
from leakbench.reproduce import (
    fedaa_figures,
    flea_figures,
    inversion_figure,
    labels,
    prototype_views,
    write,
)
from leakbench.reproduce.panels import Settings, error_bars, gained
from leakbench.reproduce.recipe import UTILITY, Case, Recipe
from leakbench.reproduce.row import Measurement, Row
from leakbench.results.settings import Setting

CURVE = ("dataset", "label", "seed", "round", "value", "low", "high")
FAMILY = {
    "fedaws": "#1c1b19",
    "fedgn": "#b3390a",
    "fedcs": "#0b5cab",
    "fedhide": "#2f7d4f",
    "fedmetric": "#7a3f9d",
}
OTHER = "#67645e"
MARKS = {"fedaws": "*", "fedgn": "o", "fedcs": "s", "fedhide": "^", "fedmetric": "D"}


def draw(
    recipe: Recipe, scale: str, rows: Sequence[Row], settings: Settings, out: Path
) -> list[Path]:
    """The recipe's figure below ``out``/<recipe>; returns the files written.

    There are none if the recipe has no figure or there is no number to show.

    Raises:
        UsageError: the folder cannot be written.
        BrokenFile: an artifact of a run is damaged.
    """
    shown = settings or (recipe.study and any(r.ours for r in rows))
    if not recipe.figure or not shown:
        return []
    return FIGURES[recipe.figure](recipe, scale, rows, settings, out / recipe.name)


def _accuracy(
    recipe: Recipe, scale: str, rows: Sequence[Row], settings: Settings, folder: Path
) -> list[Path]:
    """FedHide's Figure 3: utility over rounds, and utility against leakage.

    Over rounds each family stands beside FedAwS.
    """
    from matplotlib.figure import Figure

    _write_curves(folder / f"{scale}-curves.csv", rows, settings)
    with plots.style():
        figure = Figure(figsize=(8.4, 6.2), layout="constrained")
        panels = figure.subplots(2, 2).flatten()
        for axes, family in zip(panels, ("fedgn", "fedcs", "fedhide"), strict=False):
            cases = [c for c in recipe.of(scale) if c.defense in (family, "fedaws")]
            _over_rounds(axes, cases, settings)
        _against(panels[3], recipe, rows)
        return [*plots.save(figure, folder, scale), folder / f"{scale}-curves.csv"]


def _identities(
    recipe: Recipe, scale: str, rows: Sequence[Row], settings: Settings, folder: Path
) -> list[Path]:
    """FedHide's Figure 4: utility against leakage, a panel per data set."""
    from matplotlib.figure import Figure

    sets = list(dict.fromkeys(r.dataset for r in rows if r.ours))
    with plots.style():
        figure = Figure(figsize=(5.4 * len(sets), 3.6), layout="constrained")
        for axes, dataset in zip(
            figure.subplots(1, len(sets), squeeze=False)[0], sets, strict=True
        ):
            mine = [r for r in rows if r.dataset == dataset]
            _against(axes, recipe, mine)
            axes.set_title(write.title(mine), fontsize=8.5, parse_math=False)
            axes.set_ylabel(next(r.metric for r in mine if r.measure == UTILITY))
        return plots.save(figure, folder, scale)


def _write_curves(path: Path, rows: Sequence[Row], settings: Settings) -> None:
    """Every evaluation of every run; of rows that were kept, those that are there already."""
    kept = {(r.label, r.dataset) for r in rows if r.ours} - settings.keys()
    before = read_csv(path, CURVE) if kept and path.is_file() else []
    lines: list[dict[str, Any]] = [x for x in before if (x["label"], x["dataset"]) in kept]
    for (label, dataset), setting in settings.items():
        for seed in setting.evaluated:
            about = {"dataset": dataset, "label": label, "seed": seed.run.seed}
            lines += [about | vars(e) for e in seed.evaluations]
    write_csv(path, CURVE, lines)


def _over_rounds(axes: Any, cases: Sequence[Case], settings: Settings) -> None:
    """One line per case, the mean of its seeds.

    FedAwS is black, a family goes from dark to light, what is ours is dotted.
    """
    found: dict[str, list[Setting]] = defaultdict(list)
    for (label, _), setting in settings.items():
        found[label].append(setting)
    shown = [c for c in cases if c.label in found]
    for i, case in enumerate(shown):
        by_round: dict[int, list[float]] = defaultdict(list)
        for seed in (seed for setting in found[case.label] for seed in gained(setting)):
            for t, value in seed.items():
                by_round[t].append(value)
        look = {
            "color": FAMILY.get(case.defense, OTHER),
            "ls": ":" if case.ours else "-",
            "alpha": 1 - 0.75 * i / max(len(shown), 1),
        }
        rounds = sorted(by_round)
        means = [sum(by_round[t]) / len(by_round[t]) for t in rounds]
        axes.plot(rounds, means, lw=1.1, label=case.label, **look)
    axes.set_xlabel("round")
    axes.set_ylabel("utility")
    axes.set_ylim(bottom=0)
    _legend(axes, 6)


def _against(axes: Any, recipe: Recipe, rows: Sequence[Row]) -> None:
    """Leakage across, utility up, intervals as bars.

    The paper's own points are hollow, dead runs are crosses.
    """
    by = {(r.label, r.measure): r for r in rows}
    named, papers, bars = [], [], []
    for case in recipe.cases:
        up, across = by.get((case.label, UTILITY)), by.get((case.label, "p_leak"))
        if up is None or across is None:
            continue
        colour, mark = FAMILY.get(case.defense, OTHER), MARKS.get(case.defense, "P")
        size = 8 if mark == "*" else 5  # a star shows under another point
        if up.claim and across.claim:
            papers.append((across.claim.value, up.claim.value))
            look = {"ms": size, "color": colour, "fillstyle": "none", "alpha": 0.5}
            axes.plot([papers[-1][0]], [papers[-1][1]], mark, **look)
        if up.ours and across.ours:
            x, y = across.ours.value, up.ours.value
            width = {"xerr": error_bars([across.ours]), "yerr": error_bars([up.ours])}
            axes.errorbar([x], [y], color=colour, ls="none", lw=0.7, alpha=0.4, **width)
            axes.plot([x], [y], "x" if up.dead else mark, ms=size, color=colour)
            named.append(labels.Named(x, y, case.label + " (dead)" * up.dead, colour))
            bars.append((across.ours.lowest, y, across.ours.highest, y))
            bars.append((x, up.ours.lowest, x, up.ours.highest))
    axes.set_xlabel("P_leak (hollow: the paper's own)", parse_math=False)
    axes.set_ylabel("utility")
    labels.beside(axes, named, papers, bars)


def _legend(axes: Any, size: float) -> None:
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=size, frameon=False)


def _tsne(
    recipe: Recipe, scale: str, rows: Sequence[Row], settings: Settings, folder: Path
) -> list[Path]:
    """FedHide's supplement: true prototypes, proxies and the lines between them.

    Of each case's first seed.
    """
    sets = {}
    dead = {r.label for r in rows if r.dead}
    for (label, _), setting in settings.items():
        try:
            pairs = prototype_pairs.pairs(setting.runs[0])
        except NotMeasured:
            continue
        sets[label + " (dead run)" * (label in dead)] = pairs
    return prototype_views.draw_tsne(sets, folder, scale) if sets else []


def _sweep(parameter: str, name: str) -> Callable[..., list[Path]]:
    """FedMetric's Figures 2 and 3: utility over a parameter, a line per variant.

    A variant that has no such parameter is a level line.
    """

    def figure(
        recipe: Recipe, scale: str, rows: Sequence[Row], settings: Settings, folder: Path
    ) -> list[Path]:
        from matplotlib.figure import Figure

        by = {r.label: r.ours for r in rows if r.measure == UTILITY and r.ours}
        cases = recipe.of(scale)
        with plots.style():
            drawn = Figure(figsize=(4.6, 3.2), layout="constrained")
            axes = drawn.add_subplot()
            variants = dict.fromkeys(c.params.get("variant", c.defense) for c in cases)
            for i, variant in enumerate(variants):
                mine = [c for c in cases if c.params.get("variant") == variant and c.label in by]
                points = [(c.params.get(parameter), by[c.label]) for c in mine]
                _line(axes, str(variant), points, f"C{i}")
            axes.set_xlabel(name, parse_math=False)
            axes.set_ylabel("utility")
            _legend(axes, 7)
            return plots.save(drawn, folder, scale)

    return figure


def _line(axes: Any, label: str, points: Sequence[tuple[Any, Measurement]], colour: str) -> None:
    for x, m in points:
        if x is None:
            axes.axhline(m.value, ls="--", lw=1, color=colour, label=label)
            axes.axhspan(m.lowest, m.highest, color=colour, alpha=0.1)
    at = [x for x, _ in points if x is not None]
    found = [m for x, m in points if x is not None]
    if at:
        look = {"lw": 1.1, "marker": "o", "ms": 3, "color": colour, "label": label}
        axes.errorbar(at, [m.value for m in found], yerr=error_bars(found), **look)


FIGURES: dict[str, Callable[..., list[Path]]] = {
    "accuracy": _accuracy,
    "identities": _identities,
    "tsne": _tsne,
    "lam": _sweep("lam", "λ, weight of the negative loss"),
    "rounds": flea_figures.rounds,
    "privacy": flea_figures.privacy,
    "weights": flea_figures.weights,
    "sizes": flea_figures.sizes,
    "fractions": fedaa_figures.fractions,
    "loss": fedaa_figures.loss,
    "variance": fedaa_figures.variance,
    "names": fedaa_figures.names,
    "inversion": inversion_figure.draw,
    "scale": _sweep("scale", "s, distance of the shown centre in radii"),
}
