"""How often do the intervals of leakbench hold the true value? By simulation; the gate: gate.py.

    python benchmarks/interval_coverage.py > table.md

Prints a Markdown table. The worst case of each group is the lowest of many noisy numbers, so it is
simulated again, with fresh draws and four times as many repeats, and that second number is shown.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from itertools import product

import numpy as np

from leakbench.statistics.intervals import Estimate, estimate, pool

Draw = Callable[[np.random.Generator], tuple[Estimate, float]]


def logistic(x):
    return 1 / (1 + np.exp(-x))


def spread_mean(centre: float, sd: float) -> float:
    """Mean of logistic(centre + sd z), z normal."""
    z, w = np.polynomial.hermite_e.hermegauss(61)
    return float((w * logistic(centre + sd * z)).sum() / w.sum())


def share(n: int, p: float, seeds: int, spread: float, same_units: bool) -> Draw:
    """Clients leak or not; seeds differ by ``spread`` on the logit scale, the same clients by 0.5
    in every seed.
    """
    centre = math.log(p / (1 - p))
    own = 0.5 if same_units else 0.0
    whole = spread_mean(centre, math.hypot(spread, own))

    def draw(rng: np.random.Generator) -> tuple[Estimate, float]:
        clients, runs = own * rng.standard_normal(n), spread * rng.standard_normal(seeds)
        chance = logistic(centre + runs[:, None] + clients[None, :])
        scores = (rng.random((seeds, n)) < chance).astype(float)
        # With fewer than three seeds the interval speaks of these runs.
        truth = whole if seeds > 2 else sum(spread_mean(centre + r, own) for r in runs) / seeds
        names = [f"client/{i}" for i in range(n)]
        runs_of = {k: (scores[k].tolist(), names, names) for k in range(seeds)}
        return pool(runs_of, share=True, low=0.0, high=1.0, unit="client"), truth

    return draw


def mean(clusters: int, size: int, skew: float, seeds: int, spread: float) -> Draw:
    """Gamma scores of a given skew and variance 1; images of one client share a third of it, seeds
    differ by ``spread``.
    """
    inner = 1 / 3 if size > 1 else 0.0

    def gamma(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        if skew == 0:
            return rng.standard_normal(shape)
        k = 4 / skew**2
        return (rng.gamma(k, size=shape) - k) / math.sqrt(k)

    def draw(rng: np.random.Generator) -> tuple[Estimate, float]:
        runs = {}
        shift = spread * rng.standard_normal(seeds)
        for s in range(seeds):
            scores = (
                math.sqrt(inner) * gamma(rng, (clusters, 1))
                + math.sqrt(1 - inner) * gamma(rng, (clusters, size))
                + shift[s]
            )
            names = [f"client/{s}-{i}/{j}" for i, j in product(range(clusters), range(size))]
            owners = [f"client/{s}-{i}" for i, _ in product(range(clusters), range(size))]
            runs[s] = (scores.ravel().tolist(), names, owners if size > 1 else names)
        truth = 0.0 if seeds > 1 else float(shift[0])
        return pool(runs, share=False, low=-math.inf, high=math.inf, unit="image"), truth

    return draw


def clustered_share(clusters: int, size: int, p: float, within: float) -> Draw:
    """Images of one client are recognised or not; clients differ by ``within`` on the logit scale.
    One seed.
    """
    centre = math.log(p / (1 - p))
    truth = spread_mean(centre, within)

    def draw(rng: np.random.Generator) -> tuple[Estimate, float]:
        chance = logistic(centre + within * rng.standard_normal((clusters, 1)))
        scores = (rng.random((clusters, size)) < chance).astype(float)
        owners = [f"client/{i}" for i, _ in product(range(clusters), range(size))]
        return (
            estimate(scores.ravel().tolist(), owners, share=True, low=0.0, high=1.0, unit="image"),
            truth,
        )

    return draw


def coverage(draw: Draw, repeats: int, seed: int) -> tuple[float, float]:
    """(share of intervals that hold the truth, their mean width)."""
    rng = np.random.default_rng(seed)
    held, width = 0, 0.0
    for _ in range(repeats):
        e, truth = draw(rng)
        held += e.low <= truth <= e.high
        width += e.high - e.low
    return held / repeats, width / repeats


def groups() -> Iterator[tuple[str, list[tuple[str, Draw]]]]:
    sizes, shares = (10, 50, 100), (0.02, 0.1, 0.5)
    for spread in (0.0, 0.3, 0.8):
        for seeds in (1, 2, 3, 5):
            if seeds == 1 and spread:
                continue  # it speaks of that run alone: as without spread
            cells = [
                (
                    f"n = {n}, p = {p}{', same clients' if same else ''}",
                    share(n, p, seeds, spread, same),
                )
                for n, p, same in product(sizes, shares, (False, True))
            ]
            yield f"share, {seeds} seed{'s' * (seeds > 1)}, seeds differ by {spread}", cells
    cells = [
        (f"{g} clients of {m}, p = {p}", clustered_share(g, m, p, 0.8))
        for g, m, p in product((5, 10, 20), (4,), (0.1, 0.5))
    ]
    yield "share, images of one client, 1 seed", cells
    for skew in (0, 1, 2):
        for few, name in ((True, "n < 50"), (False, "n from 50 on")):
            count = (10, 20) if few else (50, 100)
            cells = [
                (f"n = {n}, {k} seed{'s' * (k > 1)}, seeds differ by {s}", mean(n, 1, skew, k, s))
                for n, (k, s) in product(count, ((1, 0.0), (3, 0.0), (3, 0.3), (5, 0.3)))
            ]
            yield f"mean, skew {skew}, {name}", cells
        cells = [
            (f"{g} clients of 4, {k} seed{'s' * (k > 1)}", mean(g, 4, skew, k, 0.0))
            for g, k in product((5, 10, 20), (1, 3))
        ]
        yield f"mean, skew {skew}, images of one client", cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--repeats",
        type=int,
        default=600,
        help="of each cell; the worst again with four times as many",
    )
    args = parser.parse_args()
    start = time.perf_counter()
    print(
        "| intervals of | coverage: median | worst | mean width there | worst case"
        " |\n|---|---|---|---|---|"
    )
    for name, cells in groups():
        found = sorted((coverage(draw, args.repeats, i)[0], i) for i, (_, draw) in enumerate(cells))
        case, draw = cells[found[0][1]]
        worst, width = coverage(draw, 4 * args.repeats, 1000 + found[0][1])
        print(
            f"| {name} | {found[len(found) // 2][0]:.1%} | {worst:.1%} | {width:.2f} | {case} |",
            flush=True,
        )
    print(f"\n{args.repeats} repeats a cell, {time.perf_counter() - start:.0f} s on one thread.")


if __name__ == "__main__":
    main()
