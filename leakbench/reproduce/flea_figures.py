"""FLea's figures from our runs.

Accuracy over rounds (Table 1's runs), over local sizes (Figure 2), the privacy study (Figure 9),
the weights (Figure 11).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leakbench.base import plots
from leakbench.base.errors import NotMeasured
from leakbench.reproduce import context_curve, expected_exposure
from leakbench.reproduce.panels import Settings, band, error_bars, gained, titled, wide
from leakbench.reproduce.recipe import UTILITY, Recipe
from leakbench.reproduce.row import Row
from leakbench.results.settings import Setting

GREY = "#67645e"
Params = Mapping[str, Any]
Line = tuple[str, int, Setting]  # label, place among the panel's lines, what is drawn


def rounds(
    recipe: Recipe, scale: str, rows: Sequence[Row], settings: Settings, folder: Path
) -> list[Path]:
    """Accuracy over rounds, one panel per data set.

    A line is the seeds' mean, with a band from the lowest to the highest seed.
    """
    from matplotlib.figure import Figure

    sets = list(dict.fromkeys(dataset for _, dataset in settings))
    with plots.style():
        figure = Figure(figsize=(6.6, 3.2 * len(sets)), layout="constrained")
        panels = figure.subplots(len(sets), 1, squeeze=False).flatten()
        for axes, dataset in zip(panels, sets, strict=True):
            for label, place, setting in _lines(recipe, scale, settings, dataset):
                band(axes, gained(setting), place, label)
            titled(axes, dataset, "round", "accuracy")
            axes.legend(fontsize=6, frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
        return plots.save(figure, folder, scale)


def sizes(
    recipe: Recipe, scale: str, rows: Sequence[Row], settings: Settings, folder: Path
) -> list[Path]:
    """Figure 2: best accuracy of every method in each column, with its interval."""
    from matplotlib.figure import Figure

    columns = list(dict.fromkeys(r.dataset for r in rows))
    with plots.style():
        figure = Figure(figsize=(5.4, 3.2), layout="constrained")
        axes = figure.subplots()
        for place, case in enumerate(recipe.of(scale)):
            mine = [r for r in rows if (r.label, r.measure) == (case.label, "best")]
            found = {r.dataset: r.ours for r in mine if r.ours}
            at = [columns.index(c) + 0.04 * place for c in found]
            values = list(found.values())
            look: Any = {"marker": "o", "ms": 3, "lw": 1.1, "color": f"C{place}"}
            if at:
                up, bars = [m.value for m in values], error_bars(values)
                axes.errorbar(at, up, yerr=bars, label=case.label, **look)
        titled(axes, "", "", "best accuracy")
        axes.set_xticks(range(len(columns)), columns, fontsize=7)
        axes.legend(fontsize=7, frameon=False)
        return plots.save(figure, folder, scale)


def _lines(recipe: Recipe, scale: str, settings: Settings, dataset: str) -> list[Line]:
    """What there is of the recipe's cases on one data set."""
    cases = enumerate(recipe.of(scale))
    found = [(c.label, i, settings.get((c.label, dataset))) for i, c in cases]
    return [(label, place, setting) for label, place, setting in found if setting]


def privacy(
    recipe: Recipe, scale: str, rows: Sequence[Row], settings: Settings, folder: Path
) -> list[Path]:
    """Figure 9, one row of panels per data set.

    Exposure, correlation and decoder's error over rounds, context against samples.

    Dotted: what is expected of exposure; what random pairings, or a blind guess, have of the
    others.
    """
    from matplotlib.figure import Figure

    sets = list(dict.fromkeys(dataset for _, dataset in settings))
    with plots.style():
        figure = Figure(figsize=(12.6, 3.0 * len(sets)), layout="constrained")
        for panels, dataset in zip(figure.subplots(len(sets), 4, squeeze=False), sets, strict=True):
            mine = _lines(recipe, scale, settings, dataset)
            for line in mine:
                _over_rounds(panels[0], line, "exposure", "exposure")
                _over_rounds(panels[1], line, "distance_correlation", "dcor2_corrected", floor=True)
                _over_rounds(panels[2], line, "decoder", "mse", {"network": "relu"}, floor=True)
                _against_samples(panels[3], line)
            _expected(panels[0], mine)
            title = rows[0].task if len(sets) == 1 else dataset
            first = f"{title}: exposure, directed"
            titled(panels[0], first, "round", "share of other clients", (0, 1.03))
            titled(panels[1], "inputs and features", "round", "corrected R²", (-0.1, 1.03))
            titled(panels[2], "decoder with ReLU", "round", "mean squared error")
            across = "samples that the attacker made"
            titled(panels[3], "context", across, "balanced accuracy", (0.4, 1.03))
            panels[3].set_xscale("log")
            for axes in panels:
                if axes.get_legend_handles_labels()[0]:
                    axes.legend(fontsize=6.5, frameon=False)
        return plots.save(figure, folder, scale)


def weights(
    recipe: Recipe, scale: str, rows: Sequence[Row], settings: Settings, folder: Path
) -> list[Path]:
    """Figure 11: best accuracy and correlation over the weights.

    Over lambda1 (lambda2 = 3) and over lambda2 (lambda1 = 1).
    """
    from matplotlib.figure import Figure

    with plots.style():
        figure = Figure(figsize=(7.4, 5.2), layout="constrained")
        grid = figure.subplots(2, 2, sharey="row")
        sides = (("lam1", "λ1", "lam2"), ("lam2", "λ2", "lam1"))
        for column, (name, sign, other) in enumerate(sides):
            own = [c for c in recipe.of(scale) if other not in c.params]
            own.sort(key=lambda c: _weight(c.params, name))
            across = {c.label: _weight(c.params, name) for c in own}  # from left to right
            for axes, measures, up in (
                (grid[0, column], ("best", UTILITY), "accuracy"),
                (grid[1, column], ("flea_correlation", "dcor2_corrected"), "correlation"),
            ):
                for i, m in enumerate(x for x in recipe.measures if x.key in measures):
                    ours = {r.label: r.ours for r in rows if r.measure == m.key and r.ours}
                    shown = [label for label in across if label in ours]
                    found = [ours[label] for label in shown]
                    look = {"marker": "o", "ms": 3, "lw": 1.1, "color": f"C{i}", "label": m.title}
                    if found:
                        at, values = [across[label] for label in shown], [o.value for o in found]
                        axes.errorbar(at, values, yerr=error_bars(found), **look)
                titled(axes, "", sign, up)
                axes.legend(fontsize=7, frameon=False)
        return plots.save(figure, folder, scale)


def _weight(params: Mapping[str, Any], name: str) -> float:
    return float(params.get(name, {"lam1": 1.0, "lam2": 3.0}[name]))


def _over_rounds(
    axes: Any,
    line: Line,
    attack: str,
    metric: str,
    params: Params | None = None,
    *,
    floor: bool = False,
) -> None:
    """Every round at which the attack was scored by the metric, and its blind guess."""
    label, place, setting = line
    found: dict[int, dict[int, float]] = defaultdict(dict)  # by seed and round
    blind: dict[int, dict[int, float]] = defaultdict(dict)
    for m in setting.measured:
        asked = (m.attacker.name, m.meaning.name, m.probe) == (attack, metric, False)
        if asked and _has(m.attacker.params, params):
            found[m.run.seed][m.round] = m.value.value
            blind[m.run.seed][m.round] = m.floor.value
    band(axes, list(found.values()), place, label)
    floors = {t: value for rounds in blind.values() for t, value in rounds.items()}
    if floor and floors:
        look = {"ls": ":", "lw": wide(place), "color": f"C{place}"}
        axes.plot(sorted(floors), [floors[t] for t in sorted(floors)], **look)


def _has(params: Params, wanted: Params | None) -> bool:
    return all(params.get(k) == v for k, v in (wanted or {}).items())


def _expected(axes: Any, mine: Sequence[Line]) -> None:
    """The closed form for FLea's buffer at the runs' number of clients.

    The buffer holds the last round's features.
    """
    run = next((s.one for _, _, s in mine if s.family == "flea"), None)
    if run is None:
        return
    clients, last = int(run.meta["facts"]["clients"]), int(run.spec["rounds"])
    chosen = max(1, round(run.spec["defense"]["params"]["fraction"] * clients))
    at = range(1, last + 1)
    values = [expected_exposure.expected(clients, chosen, t) for t in at]
    axes.plot(at, values, ls=":", lw=1, color=GREY, label="FLea, expected")


def _against_samples(axes: Any, line: Line) -> None:
    """The first seed's: what an attacker makes of how many samples."""
    label, place, setting = line
    run = setting.runs[0]
    for folder in run.attacks:
        wanted = folder.name == "context" and _has(folder.meta["params"], {"network": "relu"})
        if not (wanted and folder.done):
            continue
        try:
            points = context_curve.curve(run, folder.path)
        except NotMeasured:
            continue
        context_curve.plot(axes, points, label, place, width=wide(place), alpha=0.1)
