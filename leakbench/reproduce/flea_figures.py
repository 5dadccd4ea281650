"""FLea's figures from our runs: accuracy over rounds (Table 1's runs), the privacy study (Figure
9), the weights (Figure 11).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leakbench.base import plots
from leakbench.base.errors import NotMeasured
from leakbench.record.columns import RESULTS, Row
from leakbench.record.folders import AttackFolder, Run
from leakbench.reproduce import context_curve, expected_exposure
from leakbench.reproduce.panels import band, titled, wide
from leakbench.reproduce.recipe import UTILITY, Recipe
from leakbench.results import utility

Runs = Mapping[tuple[str, str], Sequence[Run]]
GREY = "#67645e"


def rounds(recipe: Recipe, scale: str, rows: Sequence[Row], runs: Runs, folder: Path) -> list[Path]:
    """Accuracy over rounds, one panel per data set: the seeds' mean, and a band from the lowest to
    the highest seed.
    """
    from matplotlib.figure import Figure

    sets = list(dict.fromkeys(dataset for _, dataset in runs))
    with plots.style():
        figure = Figure(figsize=(5.4, 3.2 * len(sets)), layout="constrained")
        for axes, dataset in zip(
            figure.subplots(len(sets), 1, squeeze=False).flatten(), sets, strict=True
        ):
            for i, case in enumerate(recipe.of(scale)):
                values = [
                    {e.round: e.value for e in utility.of_run(run).evaluations}
                    for run in runs.get((case.label, dataset), ())
                ]
                band(axes, values, i, case.label)
            titled(axes, dataset, "round", "accuracy")
            axes.legend(fontsize=7, frameon=False)
        return plots.save(figure, folder, scale)


def privacy(
    recipe: Recipe, scale: str, rows: Sequence[Row], runs: Runs, folder: Path
) -> list[Path]:
    """Figure 9, one row of panels per data set: exposure, correlation and decoder's error over
    rounds, context against samples.

    Dotted: what is expected of exposure; what random pairings, or a blind guess, have of the
    others.
    """
    from matplotlib.figure import Figure

    sets = list(dict.fromkeys(dataset for _, dataset in runs))
    with plots.style():
        figure = Figure(figsize=(12.6, 3.0 * len(sets)), layout="constrained")
        for panels, dataset in zip(figure.subplots(len(sets), 4, squeeze=False), sets, strict=True):
            mine = [
                (c.label, i, list(runs[c.label, dataset]))
                for i, c in enumerate(recipe.of(scale))
                if (c.label, dataset) in runs
            ]
            for label, place, several in mine:
                _over_rounds(panels[0], several, "exposure", "exposure", {}, place, label)
                _over_rounds(
                    panels[1],
                    several,
                    "distance_correlation",
                    "dcor2_corrected",
                    {},
                    place,
                    label,
                    floor=True,
                )
                _over_rounds(
                    panels[2],
                    several,
                    "decoder",
                    "mse",
                    {"network": "relu"},
                    place,
                    label,
                    floor=True,
                )
                _against_samples(panels[3], several, place, label)
            _expected(panels[0], mine)
            title = rows[0]["task"] if len(sets) == 1 else dataset
            titled(
                panels[0],
                f"{title}: exposure, directed",
                "round",
                "share of other clients",
                (0, 1.03),
            )
            titled(panels[1], "inputs and features", "round", "corrected R²", (-0.1, 1.03))
            titled(panels[2], "decoder with ReLU", "round", "mean squared error")
            titled(
                panels[3],
                "context",
                "samples that the attacker made",
                "balanced accuracy",
                (0.4, 1.03),
            )
            panels[3].set_xscale("log")
            for axes in panels:
                if axes.get_legend_handles_labels()[0]:
                    axes.legend(fontsize=6.5, frameon=False)
        return plots.save(figure, folder, scale)


def weights(
    recipe: Recipe, scale: str, rows: Sequence[Row], runs: Runs, folder: Path
) -> list[Path]:
    """Figure 11: best accuracy and correlation over lambda1 (lambda2 = 3) and over lambda2 (lambda1
    = 1).
    """
    from matplotlib.figure import Figure

    by = {(r["label"], r["measure"]): r for r in rows if r["value"] != ""}
    with plots.style():
        figure = Figure(figsize=(7.4, 5.2), layout="constrained")
        grid = figure.subplots(2, 2, sharey="row")
        for column, (name, sign, other) in enumerate(
            (("lam1", "λ1", "lam2"), ("lam2", "λ2", "lam1"))
        ):
            cases = sorted(
                (c for c in recipe.of(scale) if other not in c.params),
                key=lambda c: _weight(c.params, name),
            )
            for axes, measures in zip(
                grid[:, column],
                (("best", UTILITY), ("flea_correlation", "dcor2_corrected")),
                strict=True,
            ):
                for i, m in enumerate(measures):
                    at = [
                        (_weight(c.params, name), by[c.label, m])
                        for c in cases
                        if (c.label, m) in by
                    ]
                    ends = [
                        [r["value"] - r["low"] for _, r in at],
                        [r["high"] - r["value"] for _, r in at],
                    ]
                    title = next(x.title for x in recipe.measures if x.key == m)
                    if at:
                        axes.errorbar(
                            [x for x, _ in at],
                            [r["value"] for _, r in at],
                            yerr=ends,
                            marker="o",
                            ms=3,
                            lw=1.1,
                            color=f"C{i}",
                            label=title,
                        )
                titled(axes, "", sign, "accuracy" if "best" in measures else "correlation")
                axes.legend(fontsize=7, frameon=False)
        return plots.save(figure, folder, scale)


def _weight(params: Mapping[str, Any], name: str) -> float:
    return float(params.get(name, {"lam1": 1.0, "lam2": 3.0}[name]))


def _over_rounds(
    axes: Any,
    several: Sequence[Run],
    attack: str,
    metric: str,
    params: Mapping[str, Any],
    place: int,
    label: str,
    *,
    floor: bool = False,
) -> None:
    found = [{r["round"]: r for r in _rows(run, attack, metric, params)} for run in several]
    band(axes, [{t: r["value"] for t, r in one.items()} for one in found if one], place, label)
    blind = {t: r["floor"] for one in found for t, r in one.items()} if floor else {}
    if blind:
        axes.plot(
            sorted(blind),
            [blind[t] for t in sorted(blind)],
            ls=":",
            lw=wide(place),
            color=f"C{place}",
        )


def _rows(run: Run, attack: str, metric: str, params: Mapping[str, Any]) -> list[Row]:
    """Every round at which an attack on ``run`` was scored by ``metric``."""
    return [
        r
        for a in _attacks(run, attack, params)
        for r in a.table("results.csv", RESULTS)
        if r["metric"] == metric and not r["probe"]
    ]


def _attacks(run: Run, attack: str, params: Mapping[str, Any]) -> list[AttackFolder]:
    own = [a for a in run.attacks if a.done and a.name == attack]
    return [a for a in own if all(a.meta["params"].get(k) == v for k, v in params.items())]


def _expected(axes: Any, mine: Sequence[tuple[str, int, Sequence[Run]]]) -> None:
    """The closed form for FLea's buffer, which holds the last round's features, at the runs' number
    of clients.
    """
    run = next(
        (several[0] for _, _, several in mine if several[0].spec["defense"]["name"] == "flea"), None
    )
    if run is None:
        return
    clients, last = int(run.meta["facts"]["clients"]), int(run.spec["rounds"])
    chosen = max(1, round(run.spec["defense"]["params"]["fraction"] * clients))
    at = range(1, last + 1)
    axes.plot(
        at,
        [expected_exposure.expected(clients, chosen, t) for t in at],
        ls=":",
        lw=1,
        color=GREY,
        label="FLea, expected",
    )


def _against_samples(axes: Any, several: Sequence[Run], place: int, label: str) -> None:
    """The first seed's: what an attacker makes of how many samples."""
    for folder in _attacks(several[0], "context", {"network": "relu"}):
        try:
            points = context_curve.curve(several[0], folder.path)
        except NotMeasured:
            continue
        axes.plot(
            [p.samples for p in points],
            [p.value for p in points],
            marker="o",
            ms=3,
            lw=wide(place),
            color=f"C{place}",
            label=label,
        )
        axes.fill_between(
            [p.samples for p in points],
            [p.low for p in points],
            [p.high for p in points],
            color=f"C{place}",
            alpha=0.1,
            lw=0,
        )
