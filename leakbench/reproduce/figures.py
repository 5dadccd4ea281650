"""The figures of the papers from our runs, as SVG and PNG, and their points as CSV."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from leakbench.base import plots
from leakbench.base.errors import NotMeasured
from leakbench.base.files import read_csv, write_csv
from leakbench.metrics import prototype_pairs
from leakbench.reproduce import (
    diagnostics,
    expected_exposure,
    figure_data,
    labels,
    name_correlations,
    prototype_views,
    write,
)
from leakbench.reproduce.recipe import UTILITY, Case, Figure, Recipe
from leakbench.reproduce.row import Measurement, Row
from leakbench.results.settings import Setting

Settings = Mapping[tuple[str, str], Setting]  # by case's label and data set
OneSeed = Mapping[int, float]  # {round: value}
Line = tuple[str, int, Setting]  # label, place among the panel's lines, what is drawn
CURVE = ("dataset", "label", "seed", "round", "value", "low", "high")
FAMILY = {
    "fedaws": "#1c1b19",
    "fedgn": "#b3390a",
    "fedcs": "#0b5cab",
    "fedhide": "#2f7d4f",
    "fedmetric": "#7a3f9d",
}
GREY = "#67645e"
MARKS = {"fedaws": "*", "fedgn": "o", "fedcs": "s", "fedhide": "^", "fedmetric": "D"}
OUTSIDE = {"loc": "upper left", "bbox_to_anchor": (1, 1)}  # of a legend
GAP, BLOCK = 1, 4  # pixels between images, and more between the columns of two attacks
EMPTY = 0.85  # grey where nothing was rebuilt
MAPPED = 500  # images of a heat map


@dataclass(frozen=True)
class PaperFigure:
    """What a figure is drawn of, and where; ``saved``: the files written so far."""

    recipe: Recipe
    scale: str
    rows: Sequence[Row]
    settings: Settings
    folder: Path
    saved: list[Path] = field(default_factory=list)

    @property
    def cases(self) -> tuple[Case, ...]:
        """Of the recipe at this scale."""
        return tuple(self.recipe.of(self.scale))

    @property
    def sets(self) -> list[str]:
        """The data sets of which there are runs."""
        return list(dict.fromkeys(dataset for _, dataset in self.settings))

    @property
    def shown(self) -> list[str]:
        """The data sets of which there are numbers of ours."""
        return list(dict.fromkeys(r.dataset for r in self.rows if r.ours))

    def of(self, dataset: str) -> list[Row]:
        """The rows of one data set."""
        return [r for r in self.rows if r.dataset == dataset]

    def lines(self, dataset: str) -> list[Line]:
        """What there is of the cases on one data set."""
        named = [
            (c.label, i, self.settings.get((c.label, dataset))) for i, c in enumerate(self.cases)
        ]
        return [(label, place, setting) for label, place, setting in named if setting]

    @contextmanager
    def sheet(
        self, width: float, height: float, rows: int = 1, columns: int = 1, **how: Any
    ) -> Iterator[Any]:
        """A grid of panels, ``width`` and ``height`` inches in all, written when it is drawn.

        Raises:
            UsageError: the folder cannot be written.
        """
        from matplotlib.figure import Figure

        with plots.style():
            figure = Figure(figsize=(width, height), layout="constrained")
            yield figure.subplots(rows, columns, squeeze=False, **how)
            self.saved.extend(plots.save(figure, self.folder, self.scale))


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
    paper = PaperFigure(recipe, scale, rows, settings, out / recipe.name)
    FIGURES[recipe.figure](paper)
    return paper.saved


# What figures have in common -------------------------------------------------------------------
def gained(setting: Setting) -> list[OneSeed]:
    """Each seed's utility over the rounds."""
    out: list[OneSeed] = []
    for seed in setting.evaluated:
        out.append({e.round: e.value for e in seed.evaluations})
    return out


def _error_bars(found: Sequence[Measurement]) -> list[list[float]]:
    """How far below and above each value its interval goes, as matplotlib takes them."""
    below = [m.value - m.lowest for m in found]
    return [below, [m.highest - m.value for m in found]]


def _points(
    axes: Any, at: Sequence[float], found: Sequence[Measurement], label: str, colour: str
) -> None:
    """A line through ``found``, with their intervals."""
    look = {"lw": 1.1, "marker": "o", "ms": 3, "color": colour, "label": label}
    if at:
        axes.errorbar(at, [m.value for m in found], yerr=_error_bars(found), **look)


def _band(axes: Any, seeds: Sequence[OneSeed], place: int, label: str, line: str = "-") -> None:
    """The mean of ``seeds`` over the rounds that all have, from the lowest to the highest a band.

    ``place``: of the line among the panel's; its colour and width.
    """
    if not seeds:
        return
    at = sorted(set.intersection(*map(set, seeds)))
    mean, low, high = [], [], []
    for t in at:
        each = [v[t] for v in seeds]
        mean.append(sum(each) / len(each))
        low.append(min(each))
        high.append(max(each))
    look = {"lw": _wide(place), "ls": line, "marker": "o" if len(at) < 6 else None, "ms": 3}
    axes.plot(at, mean, label=label, color=f"C{place}", **look)
    if len(seeds) > 1:
        axes.fill_between(at, low, high, color=f"C{place}", alpha=0.12, lw=0)


def _wide(place: int) -> float:
    """Later lines are thinner, so that one on top of another leaves both to be seen."""
    return max(0.8, 2.8 - 0.6 * place)


def _titled(
    axes: Any, title: str, across: str, up: str, limits: tuple[float, float] | None = None
) -> None:
    """The panel's title, what its axes are and, where given, the limits of the upright one."""
    axes.set_title(title, fontsize=8.5, parse_math=False)
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    if limits:
        axes.set_ylim(*limits)


def _legend(axes: Any, size: float, **where: Any) -> None:
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=size, frameon=False, **where)


# FedHide ---------------------------------------------------------------------------------------
def _accuracy(paper: PaperFigure) -> None:
    """Figure 3: utility over rounds, and utility against leakage.

    Over rounds each family stands beside FedAwS.
    """
    curves = paper.folder / f"{paper.scale}-curves.csv"
    _write_curves(curves, paper)
    with paper.sheet(8.4, 6.2, 2, 2) as grid:
        *panels, last = grid.flatten()
        for axes, family in zip(panels, ("fedgn", "fedcs", "fedhide"), strict=True):
            cases = [c for c in paper.cases if c.defense in (family, "fedaws")]
            _means(axes, cases, paper.settings)
        _against(last, paper.recipe, paper.rows)
    paper.saved.append(curves)


def _write_curves(path: Path, paper: PaperFigure) -> None:
    """Every evaluation of every run; of rows that were kept, those that are there already."""
    kept = {(r.label, r.dataset) for r in paper.rows if r.ours} - paper.settings.keys()
    before = read_csv(path, CURVE) if kept and path.is_file() else []
    lines: list[dict[str, Any]] = [x for x in before if (x["label"], x["dataset"]) in kept]
    for (label, dataset), setting in paper.settings.items():
        for seed in setting.evaluated:
            about = {"dataset": dataset, "label": label, "seed": seed.run.seed}
            lines += [about | vars(e) for e in seed.evaluations]
    write_csv(path, CURVE, lines)


def _means(axes: Any, cases: Sequence[Case], settings: Settings) -> None:
    """One line per case, the mean of its seeds over the rounds.

    FedAwS is black, a family goes from dark to light, what is ours is dotted.
    """
    found: dict[str, list[OneSeed]] = defaultdict(list)
    for (label, _), setting in settings.items():
        found[label] += gained(setting)
    shown = [c for c in cases if c.label in found]
    for i, case in enumerate(shown):
        by_round: dict[int, list[float]] = defaultdict(list)
        for seed in found[case.label]:
            for t, value in seed.items():
                by_round[t].append(value)
        look = {
            "color": FAMILY.get(case.defense, GREY),
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


def _identities(paper: PaperFigure) -> None:
    """Figure 4: utility against leakage, a panel per data set."""
    with paper.sheet(5.4 * len(paper.shown), 3.6, 1, len(paper.shown)) as (panels,):
        for axes, dataset in zip(panels, paper.shown, strict=True):
            mine = paper.of(dataset)
            _against(axes, paper.recipe, mine)
            axes.set_title(write.title(mine), fontsize=8.5, parse_math=False)
            axes.set_ylabel(next(r.metric for r in mine if r.measure == UTILITY))


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
        colour, mark = FAMILY.get(case.defense, GREY), MARKS.get(case.defense, "P")
        size = 8 if mark == "*" else 5  # a star shows under another point
        if up.claim and across.claim:
            papers.append((across.claim.value, up.claim.value))
            look = {"ms": size, "color": colour, "fillstyle": "none", "alpha": 0.5}
            axes.plot([papers[-1][0]], [papers[-1][1]], mark, **look)
        if up.ours and across.ours:
            x, y = across.ours.value, up.ours.value
            width = {"xerr": _error_bars([across.ours]), "yerr": _error_bars([up.ours])}
            axes.errorbar([x], [y], color=colour, ls="none", lw=0.7, alpha=0.4, **width)
            axes.plot([x], [y], "x" if up.dead else mark, ms=size, color=colour)
            named.append(labels.Named(x, y, case.label + " (dead)" * up.dead, colour))
            bars.append((across.ours.lowest, y, across.ours.highest, y))
            bars.append((x, up.ours.lowest, x, up.ours.highest))
    axes.set_xlabel("P_leak (hollow: the paper's own)", parse_math=False)
    axes.set_ylabel("utility")
    labels.write_labels(axes, named, papers, bars)


def _tsne(paper: PaperFigure) -> None:
    """The supplement: true prototypes, proxies and the lines between them.

    Of each case's first seed.
    """
    sets = {}
    dead = {r.label for r in paper.rows if r.dead}
    for (label, _), setting in paper.settings.items():
        try:
            pairs = prototype_pairs.pairs(setting.runs[0])
        except NotMeasured:
            continue
        sets[label + " (dead run)" * (label in dead)] = pairs
    if sets:
        paper.saved.extend(prototype_views.draw_tsne(sets, paper.folder, paper.scale))


def _inversion(paper: PaperFigure) -> None:
    """Table 2 as it is printed: every rebuilt image, the true ones above them.

    A row for each case, a column for each attack, model and client, of the first seed. The true
    images are the same for all methods: who trains on what is drawn by the seed alone.
    """
    measures = [m for m in paper.recipe.measures if m.metric == "psnr"]
    run = next(iter(paper.settings.values())).runs[0]
    clients, shape = run.spec["record"]["clients"], run.meta["facts"]["shape"]
    true: dict[tuple[str, int], Tensor] = {}
    lines: list[tuple[str, list[Tensor | None]]] = []
    for (label, _), setting in paper.settings.items():
        line: list[Tensor | None] = []
        for m in measures:
            found = figure_data.rebuilt(setting.runs[0], m, paper.recipe.asked(m, paper.scale))
            true |= {(m.key, i): original for i, (original, _) in found.items()}
            line += [found[i][1] if i in found else None for i in clients]
        lines.append((label, line))
    if not true:
        return
    first = [true.get((m.key, i)) for m in measures for i in clients]
    lines.insert(0, ("true image", first))
    mosaic = _mosaic([line for _, line in lines], len(clients), shape)
    height, width = mosaic.shape[:2]
    with paper.sheet(8.4, 7.2 * height / width + 0.5) as ((axes,),):
        axes.imshow(mosaic, interpolation="nearest", vmin=0, vmax=1)
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0, labeltop=True, labelbottom=False)
        tall, wide = shape[1] + GAP, len(clients) * (shape[2] + GAP) + BLOCK
        names = [label for label, _ in lines]
        at = [tall * (k + 0.5) - GAP / 2 for k in range(len(lines))]
        axes.set_yticks(at, names, fontsize=7, parse_math=False)
        heads = [m.short or m.title for m in measures]
        middle = [wide * (k + 0.5) - BLOCK / 2 for k in range(len(measures))]
        axes.set_xticks(middle, heads, fontsize=7, parse_math=False)


def _mosaic(lines: Sequence[Sequence[Tensor | None]], block: int, shape: Sequence[int]) -> Any:
    """(height, width, 3) on [0, 1], white between the images; a wider gap after each ``block``."""
    channels, tall, wide = shape
    columns = len(lines[0])
    width = columns * (wide + GAP) + (columns // block - 1) * BLOCK - GAP
    out = np.ones((len(lines) * (tall + GAP) - GAP, width, 3))
    for i, line in enumerate(lines):
        for j, image in enumerate(line):
            top, left = i * (tall + GAP), j * (wide + GAP) + j // block * BLOCK
            place = out[top : top + tall, left : left + wide]
            if image is None:
                place[:] = EMPTY
                continue
            pixels = image.detach().cpu().double().clamp(0, 1).reshape(channels, tall, wide)
            place[:] = pixels.permute(1, 2, 0).expand(tall, wide, 3).numpy()
    return out


# FedMetric -------------------------------------------------------------------------------------
def _sweep(parameter: str, name: str) -> Callable[[PaperFigure], None]:
    """Figures 2 and 3: utility over a parameter, a line per variant.

    A variant that has no such parameter is a level line.
    """

    def figure(paper: PaperFigure) -> None:
        by = {r.label: r.ours for r in paper.rows if r.measure == UTILITY and r.ours}
        with paper.sheet(4.6, 3.2) as ((axes,),):
            variants = dict.fromkeys(c.params.get("variant", c.defense) for c in paper.cases)
            for i, variant in enumerate(variants):
                mine = [c for c in paper.cases if c.params.get("variant") == variant]
                found = [(c.params.get(parameter), by[c.label]) for c in mine if c.label in by]
                for m in (m for x, m in found if x is None):
                    axes.axhline(m.value, ls="--", lw=1, color=f"C{i}", label=variant)
                    axes.axhspan(m.lowest, m.highest, color=f"C{i}", alpha=0.1)
                moving = [(x, m) for x, m in found if x is not None]
                at, values = [x for x, _ in moving], [m for _, m in moving]
                _points(axes, at, values, str(variant), f"C{i}")
            axes.set_xlabel(name, parse_math=False)
            axes.set_ylabel("utility")
            _legend(axes, 7)

    return figure


# FLea ------------------------------------------------------------------------------------------
def _rounds(paper: PaperFigure) -> None:
    """Accuracy over rounds, one panel per data set."""
    with paper.sheet(6.6, 3.2 * len(paper.sets), len(paper.sets)) as grid:
        for (axes,), dataset in zip(grid, paper.sets, strict=True):
            for label, place, setting in paper.lines(dataset):
                _band(axes, gained(setting), place, label)
            _titled(axes, dataset, "round", "accuracy")
            _legend(axes, 6, **OUTSIDE)


def _sizes(paper: PaperFigure) -> None:
    """Figure 2: best accuracy of every method in each column, with its interval."""
    columns = list(dict.fromkeys(r.dataset for r in paper.rows))
    with paper.sheet(5.4, 3.2) as ((axes,),):
        for place, case in enumerate(paper.cases):
            mine = [r for r in paper.rows if (r.label, r.measure) == (case.label, "best")]
            found = {r.dataset: r.ours for r in mine if r.ours}
            at = [columns.index(c) + 0.04 * place for c in found]
            _points(axes, at, list(found.values()), case.label, f"C{place}")
        _titled(axes, "", "", "best accuracy")
        axes.set_xticks(range(len(columns)), columns, fontsize=7)
        _legend(axes, 7)


def _privacy(paper: PaperFigure) -> None:
    """Figure 9, one row of panels per data set.

    Exposure, correlation and decoder's error over rounds, context against samples.

    Dotted: what is expected of exposure; what random pairings, or a blind guess, have of the
    others.
    """
    sets = paper.sets
    with paper.sheet(12.6, 3.0 * len(sets), len(sets), 4) as grid:
        for panels, dataset in zip(grid, sets, strict=True):
            mine = paper.lines(dataset)
            for line in mine:
                _measured(panels[0], line, "exposure", "exposure")
                _measured(panels[1], line, "distance_correlation", "dcor2_corrected", floor=True)
                _measured(panels[2], line, "decoder", "mse", floor=True, network="relu")
                _against_samples(panels[3], line)
            _expected(panels[0], mine)
            first = f"{paper.rows[0].task if len(sets) == 1 else dataset}: exposure, directed"
            _titled(panels[0], first, "round", "share of other clients", (0, 1.03))
            _titled(panels[1], "inputs and features", "round", "corrected R²", (-0.1, 1.03))
            _titled(panels[2], "decoder with ReLU", "round", "mean squared error")
            across = "samples that the attacker made"
            _titled(panels[3], "context", across, "balanced accuracy", (0.4, 1.03))
            panels[3].set_xscale("log")
            for axes in panels:
                _legend(axes, 6.5)


def _measured(
    axes: Any, line: Line, attack: str, metric: str, *, floor: bool = False, **params: Any
) -> None:
    """Every round at which the attack was scored by the metric, and its blind guess."""
    label, place, setting = line
    found: dict[int, dict[int, float]] = defaultdict(dict)  # by seed and round
    floors: dict[int, float] = {}
    for m in setting.measured:
        asked = (m.attacker.name, m.meaning.name, m.probe) == (attack, metric, False)
        if asked and params.items() <= m.attacker.params.items():
            found[m.run.seed][m.round] = m.value.value
            floors[m.round] = m.floor.value
    _band(axes, list(found.values()), place, label)
    if floor and floors:
        look = {"ls": ":", "lw": _wide(place), "color": f"C{place}"}
        axes.plot(sorted(floors), [floors[t] for t in sorted(floors)], **look)


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
    """The first seed's: what an attacker makes of how many samples, with 95 % intervals."""
    label, place, setting = line
    run = setting.runs[0]
    for attack in run.attacks:
        wanted = attack.name == "context" and attack.meta["params"].get("network") == "relu"
        if not (wanted and attack.done):
            continue
        try:
            points = figure_data.context_curve(run, attack)
        except NotMeasured:
            continue
        x, colour = [p.samples for p in points], f"C{place}"
        look = {"marker": "o", "ms": 3, "lw": _wide(place), "color": colour, "label": label}
        axes.plot(x, [p.value for p in points], **look)
        low, high = [p.low for p in points], [p.high for p in points]
        axes.fill_between(x, low, high, color=colour, alpha=0.1, lw=0)


def _weights(paper: PaperFigure) -> None:
    """Figure 11: best accuracy and correlation over the weights.

    Over lambda1 (lambda2 = 3) and over lambda2 (lambda1 = 1).
    """
    with paper.sheet(7.4, 5.2, 2, 2, sharey="row") as grid:
        sides = (("lam1", "λ1", "lam2"), ("lam2", "λ2", "lam1"))
        for column, (name, sign, other) in enumerate(sides):
            own = [c for c in paper.cases if other not in c.params]
            own.sort(key=lambda c: _weight(c.params, name))
            across = {c.label: _weight(c.params, name) for c in own}  # from left to right
            for axes, measures, up in (
                (grid[0, column], ("best", UTILITY), "accuracy"),
                (grid[1, column], ("flea_correlation", "dcor2_corrected"), "correlation"),
            ):
                for i, m in enumerate(x for x in paper.recipe.measures if x.key in measures):
                    ours = {r.label: r.ours for r in paper.rows if r.measure == m.key and r.ours}
                    at = [across[label] for label in across if label in ours]
                    found = [ours[label] for label in across if label in ours]
                    _points(axes, at, found, m.title, f"C{i}")
                _titled(axes, "", sign, up)
                _legend(axes, 7)


def _weight(params: Mapping[str, Any], name: str) -> float:
    return float(params.get(name, {"lam1": 1.0, "lam2": 3.0}[name]))


# FedAA -----------------------------------------------------------------------------------------
def _by_share(
    seeds: Callable[[Setting], Mapping[str, Sequence[OneSeed]]], up: str = "", scale: str = "linear"
) -> Callable[[PaperFigure], None]:
    """Something over rounds: a row of panels per data set, a panel per C.

    Args:
        seeds: {what is said beside the method's name: each seed's values}.
        up: what they are; "" for what the recipe measures.
        scale: of the upright axis.
    """

    def figure(paper: PaperFigure) -> None:
        from matplotlib.ticker import MaxNLocator

        first = paper.recipe.measures[0]
        what = up or first.short or first.title
        sets = paper.sets
        shares = list(dict.fromkeys(c.params["fraction"] for c in paper.cases))
        size = (1.4 + 3.8 * len(shares), 3.4 * len(sets))
        with paper.sheet(*size, len(sets), len(shares), sharey="row") as grid:
            for panels, dataset in zip(grid, sets, strict=True):
                where = write.title(paper.of(dataset))
                for axes, share in zip(panels, shares, strict=True):
                    cases = [c for c in paper.cases if c.params["fraction"] == share]
                    for place, case in enumerate(cases):
                        setting = paper.settings.get((case.label, dataset))
                        if setting is None:
                            continue
                        name = case.short or case.label
                        for more, found in seeds(setting).items():
                            line = ":" if more else _dash(case)
                            _band(axes, found, place, name + more, line)
                    _titled(axes, f"{where}, C = {share:g}", "round", what)
                    axes.set_yscale(scale)
                    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
                _legend(panels[-1], 7, **OUTSIDE)

    return figure


def _dash(case: Case) -> str:
    """FedAA without some of its parts is dashed: it often lies on FedAA."""
    return "--" if {"identifier", "fine_tune"} & case.params.keys() else "-"


def _losses(setting: Setting) -> Mapping[str, Sequence[OneSeed]]:
    """Figure 4: the global model's loss on the clients' data."""
    return {"": [diagnostics.diagnostic(r, diagnostics.LOSS) for r in setting.runs]}


def _variances(setting: Setting) -> Mapping[str, Sequence[OneSeed]]:
    """Figure 5: variance of the local models.

    A second upload's comes one epoch after an average.
    """
    first = [diagnostics.diagnostic(r, diagnostics.FIRST) for r in setting.runs]
    second = [diagnostics.diagnostic(r, diagnostics.SECOND) for r in setting.runs]
    return {"": first, ", second upload": [v for v in second if v]}


Found = dict[tuple[str, str, str, int], float]  # measure, one set, the other, n


def _names(paper: PaperFigure) -> None:
    """Figure 8, a row of panels per data set.

    Heat maps of the paper's R² and of the corrected one, and both with images over n.

    Dotted: R² of random pairs of the same rows.
    """
    with paper.sheet(12.6, 3.9 * len(paper.shown), len(paper.shown), 3) as grid:
        for panels, dataset in zip(grid, paper.shown, strict=True):
            mine = paper.of(dataset)
            found: Found = {}
            for r in mine:
                if r.ours:
                    x, y, n = (r.params[k] for k in ("x", "y", "n"))
                    found[r.measure, x, y, n] = found[r.measure, y, x, n] = r.ours.value
            heats = (("r2", "R² (Eq. 13)"), ("corrected", "corrected R²"))
            for axes, (key, title) in zip(panels, heats, strict=False):
                _heat(axes, key, found)
                at = f"{write.title(mine)}: {title}, n = {MAPPED}"
                axes.set_title(at, fontsize=8.5, parse_math=False)
            _over_n(panels[2], found)


def _heat(axes: Any, key: str, found: Found) -> None:
    """Every pair of sets at the heat map's n.

    A set with itself is 1 (a constant one: 0 by convention).
    """
    sets = name_correlations.SETS
    table = []
    for x in sets:
        line = [found.get((key, x, y, MAPPED), math.nan) for y in sets]
        line[sets.index(x)] = 0.0 if x == name_correlations.ONE else 1.0
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
    for place, name in enumerate(name_correlations.SETS[1:]):
        at = sorted(
            n for key, x, y, n in found if (key, x, y) == ("r2", name_correlations.RAW, name)
        )
        for key, (line, _) in lines.items():
            values = [found[key, name_correlations.RAW, name, n] for n in at]
            look = {
                "lw": _wide(place),
                "color": "black" if key == "r2_null" else f"C{place}",
                "marker": None if key == "r2_null" else "o",
            }
            axes.plot(at, values, line, ms=3, label=name if key == "r2" else f"_{key}", **look)
    for key, (line, what) in lines.items():
        axes.plot([], [], line, lw=1, color="black" if key == "r2_null" else GREY, label=what)
    _titled(axes, f"with {name_correlations.RAW}", "n, images", "R²", (-0.05, 1.03))
    axes.set_xscale("log")
    axes.set_xticks(at, [f"{n:,}" for n in at])
    axes.minorticks_off()
    _legend(axes, 6.5, **OUTSIDE)


FIGURES: dict[Figure, Callable[[PaperFigure], None]] = {
    "accuracy": _accuracy,
    "identities": _identities,
    "tsne": _tsne,
    "inversion": _inversion,
    "lam": _sweep("lam", "λ, weight of the negative loss"),
    "scale": _sweep("scale", "s, distance of the shown centre in radii"),
    "rounds": _rounds,
    "sizes": _sizes,
    "privacy": _privacy,
    "weights": _weights,
    "fractions": _by_share(lambda setting: {"": gained(setting)}),
    "loss": _by_share(_losses, "loss"),
    "variance": _by_share(_variances, "variance of local models", "log"),
    "names": _names,
}
