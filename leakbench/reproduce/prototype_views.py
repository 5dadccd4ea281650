"""What only methods that share prototypes have to show.

It is true prototypes beside what stood for them outside.

Cosines of true and proxy (FedHide, Table 3), FedMetric's ratio of spheres (Section 3.2), and t-SNE
of both (FedHide, supplement). They read the truth, as scoring does; no attack sees them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from leakbench.base.errors import NotMeasured
from leakbench.base.files import write_csv
from leakbench.metrics.prototype_pairs import PrototypePairs, newest, pairs, tsne_positions
from leakbench.record.folders import Run
from leakbench.scoring.truth import Truth

COORDINATES = ("set", "client", "what", "x", "y")


@dataclass(frozen=True)
class MeanAndStd:
    """Mean and standard deviation over ``n`` clients.

    The deviation has n - 1 in its denominator; it is 0 for a single client.
    """

    mean: float
    std: float
    n: int


def true_proxy_cosine(run: Run, round: int | None = None) -> MeanAndStd:
    """Cosine of true and proxy at ``round``, over the clients (FedHide, Table 3).

    The paper names its second row STD and does not say over what; this is over the clients'
    prototypes of one run.

    Raises:
        NotMeasured: as for ``pairs``.
        BrokenFile: as for ``pairs``.
    """
    return spread(pairs(run, round).cosines().tolist())


def spread(values: Sequence[float]) -> MeanAndStd:
    """Mean and standard deviation of ``values``, at least one."""
    n, mean = len(values), math.fsum(values) / len(values)
    if n == 1:
        return MeanAndStd(mean, 0.0, n)
    squares = math.fsum((v - mean) ** 2 for v in values)
    return MeanAndStd(mean, math.sqrt(squares / (n - 1)), n)


def log10_sphere_ratio(radius: float, distance: float, dim: int) -> float:
    """Base-10 logarithm of ``sphere_ratio``.

    It is finite where the ratio itself is too small for a float.

    Raises:
        ValueError: radius or distance is negative, both are 0, or dim is below 1.
    """
    if not (radius >= 0 and distance >= 0 and radius + distance > 0 and dim >= 1):
        raise ValueError(
            "a ratio of spheres needs radius, distance >= 0, not both 0, and dim >= 1; got"
            f" {radius}, {distance}, {dim}"
        )
    return -dim * math.log1p(distance / radius) / math.log(10) if radius > 0 else -math.inf


def sphere_ratio(radius: float, distance: float, dim: int) -> float:
    """(R / (R + D))^d: volume of a client's sphere over that of the proxy sphere it shows.

    It is of FedMetric, Section 3.2.

    The paper reads it as the probability that private information is exposed. It is no measurement
    of leakage: it is that probability for somebody who guesses uniformly in the ball around the
    proxy centre A. What is sent says more. With D = s R the margin is M = (1 + s) R, and s is
    public, so D = s M / (1 + s) is known: the true centre lies on a *known* sphere around A. And
    where A is drawn afresh in each round, the mean of several A points to the centre.

    Args:
        radius: R, of the client's own sphere.
        distance: D, from the true to the proxy centre.
        dim: d, width of the embedding.

    Raises:
        ValueError: as for ``log10_sphere_ratio``.
    """
    return 10 ** log10_sphere_ratio(radius, distance, dim)


def log10_sphere_ratios(run: Run) -> Tensor:
    """(clients,) float64 base-10 logarithms of ``sphere_ratio``.

    From each client's true radius and the margin it sent.

    Raises:
        NotMeasured: the method has no `secrets["radius"]`, or sent no margin (kind `statistics`).
        BrokenFile: as for ``pairs``.
    """
    t = int(run.spec["rounds"])
    margins = newest(run, "statistics", t)
    everyone = Truth(run).round(t).get("everyone", {}) if margins else {}
    if "radius" not in everyone:
        raise NotMeasured(
            f"{run.id}: there is no radius and no margin; the ratio of spheres is FedMetric's."
        )
    dim = int(run.meta["facts"]["dim"])
    radii = {c: float(everyone["radius"][c]) for c in sorted(margins)}
    # A margin is R + D rounded to the run's precision: at D = 0 it may fall below R by that.
    found = [log10_sphere_ratio(r, max(float(margins[c]) - r, 0.0), dim) for c, r in radii.items()]
    return torch.tensor(found, dtype=torch.float64)


def tsne(found: PrototypePairs) -> tuple[Tensor, Tensor]:
    """Places in the plane of the true prototypes and of the proxies, (n, 2) float64 each.

    It is t-SNE by cosine of both together.

    scikit-learn's, as in FedHide's supplement, which gives no other parameter. Started at random
    places (a start from principal components has none where all prototypes are one), perplexity 30
    or a third of the points where they are few.
    """
    at = tsne_positions(torch.cat([found.true, found.proxy]))
    return at[: len(found.clients)], at[len(found.clients) :]


def draw_tsne(sets: Mapping[str, PrototypePairs], folder: Path, stem: str) -> list[Path]:
    """``stem``.svg, .png and .csv: a panel per set.

    True prototypes are circles, proxies squares, with a dashed line between a pair.

    Returns their paths; the CSV has the columns of ``COORDINATES``.

    Raises:
        UsageError: the folder cannot be written.
    """
    from matplotlib.figure import Figure

    from leakbench.base import plots

    across = min(3, len(sets))
    down = -(-len(sets) // across)
    rows: list[dict[str, Any]] = []
    with plots.style():
        figure = Figure(figsize=(2.6 * across, 2.7 * down + 0.3), layout="constrained")
        grid = figure.subplots(down, across, squeeze=False).flatten()
        for axes in grid:
            axes.set_axis_off()
        for axes, (title, found) in zip(grid, sets.items(), strict=False):
            true, proxy = tsne(found)
            ends = torch.stack([true, proxy]).permute(2, 0, 1)
            axes.plot(*ends.numpy(), ls="--", lw=0.4, color="#8c887f", zorder=1)
            circles = {"ms": 2.6, "color": "#b3390a", "zorder": 3}
            axes.plot(*true.T.numpy(), "o", label="true prototype", **circles)
            squares = {"ms": 2.4, "color": "#2f7d4f", "zorder": 2}
            axes.plot(*proxy.T.numpy(), "s", label="proxy", **squares)
            axes.set_title(title, fontsize=8, parse_math=False)
            for what, positions in (("true", true), ("proxy", proxy)):
                for c, (x, y) in zip(found.clients, positions, strict=True):
                    about = {"set": title, "client": int(c), "what": what}
                    rows.append({**about, "x": float(x), "y": float(y)})
        handles, names = grid[0].get_legend_handles_labels()
        where = "outside lower center"
        figure.legend(handles, names, loc=where, ncols=2, fontsize=7, frameon=False)
        paths = plots.save(figure, folder, stem)
    write_csv(folder / f"{stem}.csv", COORDINATES, rows)
    return [*paths, folder / f"{stem}.csv"]
