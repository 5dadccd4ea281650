"""The figures of the papers from our runs, as SVG and PNG, and their points as CSV."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from leakbench.base import plots
from leakbench.base.errors import NotMeasured
from leakbench.base.files import write_csv
from leakbench.metrics import prototype_pairs
from leakbench.record.columns import Row
from leakbench.record.folders import Run
from leakbench.reproduce import fedaa_figures, flea_figures, labels, prototype_views
from leakbench.reproduce.recipe import Recipe
from leakbench.results import utility
from leakbench.scoring import flags

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

Runs = Mapping[tuple[str, str], Sequence[Run]]


def draw(recipe: Recipe, scale: str, rows: Sequence[Row], runs: Runs, out: Path) -> list[Path]:
    """The recipe's figure below ``out``/<recipe>, if it has one and there is a number to show;
    returns the files written.

    Raises:
        UsageError: the folder cannot be written.
        BrokenFile: an artifact of a run is damaged.
    """
    live = {k: r for k, r in runs.items() if r}
    if not recipe.figure or not (live or (recipe.study and any(r["value"] != "" for r in rows))):
        return []
    return FIGURES[recipe.figure](recipe, scale, rows, live, out / recipe.name)


def _accuracy(
    recipe: Recipe, scale: str, rows: Sequence[Row], runs: Runs, folder: Path
) -> list[Path]:
    """FedHide's Figure 3: utility over rounds for each family beside FedAwS, and utility against
    leakage.
    """
    from matplotlib.figure import Figure

    curves = _curves(runs)
    write_csv(folder / f"{scale}-curves.csv", CURVE, curves)
    with plots.style():
        figure = Figure(figsize=(8.4, 6.2), layout="constrained")
        panels = figure.subplots(2, 2).flatten()
        for axes, family in zip(panels, ("fedgn", "fedcs", "fedhide"), strict=False):
            _over_rounds(
                axes, [c for c in recipe.of(scale) if c.defense in (family, "fedaws")], curves
            )
        _against(panels[3], recipe, rows)
        return [*plots.save(figure, folder, scale), folder / f"{scale}-curves.csv"]


def _curves(runs: Runs) -> list[Row]:
    return [
        {
            "dataset": dataset,
            "label": label,
            "seed": run.seed,
            "round": e.round,
            "value": e.value,
            "low": e.low,
            "high": e.high,
        }
        for (label, dataset), several in runs.items()
        for run in several
        for e in utility.of_run(run).evaluations
    ]


def _over_rounds(axes: Any, cases: Sequence[Any], curves: Sequence[Row]) -> None:
    """One line per case, the mean of its seeds; FedAwS black, a family from dark to light, what is
    ours dotted.
    """
    shown = [c for c in cases if any(r["label"] == c.label for r in curves)]
    for i, case in enumerate(shown):
        mine = [r for r in curves if r["label"] == case.label]
        rounds = sorted({r["round"] for r in mine})
        values = [[r["value"] for r in mine if r["round"] == t] for t in rounds]
        look = {
            "color": FAMILY.get(case.defense, OTHER),
            "ls": ":" if case.ours else "-",
            "alpha": 1 - 0.75 * i / max(len(shown), 1),
        }
        axes.plot(rounds, [sum(v) / len(v) for v in values], lw=1.1, label=case.label, **look)
    axes.set_xlabel("round")
    axes.set_ylabel("utility")
    axes.set_ylim(bottom=0)
    _legend(axes, 6)


def _against(axes: Any, recipe: Recipe, rows: Sequence[Row]) -> None:
    """Leakage across, utility up; intervals as bars, the paper's own points hollow, dead runs as
    crosses.
    """
    by = {(r["label"], r["measure"]): r for r in rows}
    named, papers, bars = [], [], []
    for case in recipe.cases:
        up, across = by.get((case.label, "utility")), by.get((case.label, "p_leak"))
        if up is None or across is None:
            continue
        colour, mark = FAMILY.get(case.defense, OTHER), MARKS.get(case.defense, "P")
        size = 8 if mark == "*" else 5  # a star shows under another point
        if up["claimed"] != "" and across["claimed"] != "":
            papers.append((across["claimed"], up["claimed"]))
            axes.plot(
                [papers[-1][0]],
                [papers[-1][1]],
                mark,
                ms=size,
                color=colour,
                fillstyle="none",
                alpha=0.5,
            )
        if up["value"] != "" and across["value"] != "":
            x, y = across["value"], up["value"]
            axes.errorbar([x], [y], color=colour, ls="none", lw=0.7, alpha=0.4, **_bars(across, up))
            dead = "dead_run" in flags.split(up["flags"])
            axes.plot([x], [y], "x" if dead else mark, ms=size, color=colour)
            named.append(labels.Named(x, y, case.label + (" (dead)" if dead else ""), colour))
            bars += [(across["low"], y, across["high"], y), (x, up["low"], x, up["high"])]
    axes.set_xlabel("P_leak (hollow: the paper's own)", parse_math=False)
    axes.set_ylabel("utility")
    labels.beside(axes, named, papers, bars)


def _bars(across: Row, up: Row) -> dict[str, Any]:
    def ends(r: Row) -> list[list[float]]:
        return [[r["value"] - r["low"]], [r["high"] - r["value"]]]

    return {"xerr": ends(across), "yerr": ends(up)}


def _legend(axes: Any, size: float) -> None:
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=size, frameon=False)


def _tsne(recipe: Recipe, scale: str, rows: Sequence[Row], runs: Runs, folder: Path) -> list[Path]:
    """FedHide's supplement: true prototypes, proxies and the lines between them, of each case's
    first seed.
    """
    sets = {}
    dead = {r["label"] for r in rows if "dead_run" in flags.split(r["flags"])}
    for (label, _), several in runs.items():
        try:
            sets[label + (" (dead run)" if label in dead else "")] = prototype_pairs.pairs(
                several[0]
            )
        except NotMeasured:
            continue
    return prototype_views.draw_tsne(sets, folder, scale) if sets else []


def _sweep(parameter: str, name: str) -> Callable[..., list[Path]]:
    """FedMetric's Figures 2 and 3: utility over a parameter, a line per variant; where it has no
    such parameter a level line.
    """

    def figure(
        recipe: Recipe, scale: str, rows: Sequence[Row], runs: Runs, folder: Path
    ) -> list[Path]:
        from matplotlib.figure import Figure

        by = {r["label"]: r for r in rows if r["measure"] == "utility" and r["value"] != ""}
        with plots.style():
            drawn = Figure(figsize=(4.6, 3.2), layout="constrained")
            axes = drawn.add_subplot()
            for i, variant in enumerate(
                dict.fromkeys(c.params.get("variant", c.defense) for c in recipe.of(scale))
            ):
                points = [
                    (c.params.get(parameter), by[c.label])
                    for c in recipe.of(scale)
                    if c.params.get("variant") == variant and c.label in by
                ]
                _line(axes, str(variant), points, f"C{i}")
            axes.set_xlabel(name, parse_math=False)
            axes.set_ylabel("utility")
            _legend(axes, 7)
            return plots.save(drawn, folder, scale)

    return figure


def _line(axes: Any, label: str, points: Sequence[tuple[Any, Row]], colour: str) -> None:
    for x, row in points:
        if x is None:
            axes.axhline(row["value"], ls="--", lw=1, color=colour, label=label)
            axes.axhspan(row["low"], row["high"], color=colour, alpha=0.1)
    at = [(x, r) for x, r in points if x is not None]
    if at:
        ends = [[r["value"] - r["low"] for _, r in at], [r["high"] - r["value"] for _, r in at]]
        axes.errorbar(
            [x for x, _ in at],
            [r["value"] for _, r in at],
            yerr=ends,
            lw=1.1,
            marker="o",
            ms=3,
            color=colour,
            label=label,
        )


FIGURES: dict[str, Callable[..., list[Path]]] = {
    "accuracy": _accuracy,
    "tsne": _tsne,
    "lam": _sweep("lam", "λ, weight of the negative loss"),
    "rounds": flea_figures.rounds,
    "privacy": flea_figures.privacy,
    "weights": flea_figures.weights,
    "fractions": fedaa_figures.fractions,
    "variance": fedaa_figures.variance,
    "names": fedaa_figures.names,
    "scale": _sweep("scale", "s, distance of the shown centre in radii"),
}
