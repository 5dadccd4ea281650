"""How often the interval of the equal error rate holds the true one, by simulation.

People are drawn from a population: an embedding's centre is normal, its images scatter about it, by
an amount of each person's own; cosine of two embeddings. The true EER is that of many people drawn
anew. `python benchmarks/eer_coverage.py results/eer-coverage.md` writes the table (about 10 minutes
on one core); beside the jackknife over people stands what it would be if pairs were independent.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from leakbench.base.streams import shared
from leakbench.federation.task_data import Examples, TaskData
from leakbench.federation.utility import METRICS
from leakbench.utilities.eer import equal_error, similarity

REPETITIONS, PEOPLE = 1000, (10, 20, 40)
POPULATION, DRAWS = 4000, 25  # people behind the true EER, and how often
EER = METRICS["eer"]


@dataclass(frozen=True)
class Population:
    """Who is drawn."""

    name: str
    dim: int
    between: float  # deviation of centres
    uneven: float  # of the logarithm of a person's scatter, about 0
    images: int = 8
    paired: int = 0  # pairs kept of each kind and image, drawn; 0: all


POPULATIONS = (
    Population("even scatter", 16, 0.8, 0.0),
    Population("uneven scatter", 16, 0.8, 0.3),
    Population("easy", 16, 1.5, 0.3),
    Population("hard, very uneven", 32, 0.5, 0.5),
    Population("few dimensions", 4, 2.0, 0.3),
    Population("listed pairs, 4 of each kind an image", 16, 0.8, 0.3, paired=4),
)


def drawn(p: Population, people, images, rng):
    centres = p.between * rng.normal("centres", people, 1, p.dim)
    scatter = (p.uneven * rng.normal("scatter", people, 1, 1)).exp()
    found = centres + scatter * rng.normal("images", people, images, p.dim)
    return torch.nn.functional.normalize(found, dim=-1)


def true_eer(p: Population) -> float:
    alike, same = [], []
    for draw in range(DRAWS):
        found = drawn(p, POPULATION, 2, shared(draw, f"truth/{p.name}"))
        alike.append((found[:, 0] * found[:, 1]).sum(-1))
        others = [(found[:, 0] * found[:, 1].roll(k, 0)).sum(-1) for k in range(1, 11)]
        alike += others
        same += [torch.full((POPULATION,), k == 0) for k in range(11)]
    score, kind = torch.cat(alike), torch.cat(same)
    order = score.argsort(descending=True)
    return equal_error(score[order], kind[order])


def pairs_of(p: Population, y, rng):
    every = torch.combinations(torch.arange(len(y)))
    same = y[every[:, 0]] == y[every[:, 1]]
    if p.paired:
        kept = []
        for kind in (same, ~same):
            rows = kind.nonzero().flatten()
            order = rng.permutation(f"pairs/{len(rows)}", len(rows))
            kept.append(rows[order[: p.paired * len(y)]])
        chosen = torch.cat(kept)
        every, same = every[chosen], same[chosen]
    return torch.cat([every, same.long()[:, None]], 1)


def naive(found, pairs) -> tuple[float, float]:
    """The interval as if all pairs were independent: binomial at the threshold, both kinds."""
    alike, same = similarity(found, pairs), pairs[:, 2] == 1
    order = alike.argsort(descending=True)
    e = equal_error(alike[order], same[order])
    n = min(int(same.sum()), int((~same).sum()))
    half = 1.96 * (e * (1 - e) / n) ** 0.5
    return e - half, e + half


def measured(p: Population, people: int, true: float) -> str:
    y = torch.arange(people).repeat_interleave(p.images)
    examples = Examples(torch.zeros(len(y), 1), y)
    rows, counts = torch.zeros(2, 1, dtype=torch.int64), torch.ones(2, dtype=torch.int64)
    held = independent = width = 0.0
    for repetition in range(REPETITIONS):
        rng = shared(repetition, f"{p.name}/{people}")
        found, pairs = drawn(p, people, p.images, rng).flatten(0, 1), pairs_of(p, y, rng)
        data = TaskData(examples, examples, examples, rows, counts, torch.arange(2), pairs=pairs)
        e = EER.estimate(EER.scores(found, data, None).tolist())
        held += e.low <= true <= e.high
        width += (e.high - e.low) / REPETITIONS
        low, high = naive(found, pairs)
        independent += low <= true <= high
    return (
        f"| {p.name} | {true:.3f} | {people} | {100 * held / REPETITIONS:.1f} | {width:.3f} |"
        f" {100 * independent / REPETITIONS:.1f} |"
    )


def main() -> None:
    torch.set_num_threads(1)
    began = time.time()
    lines = [
        "# The interval of the equal error rate, simulated",
        "",
        f"`python benchmarks/eer_coverage.py`: {REPETITIONS} draws of people from each population,",
        "8 images each (seeded; a share of 95 % has a standard error of"
        f" {100 * (0.95 * 0.05 / REPETITIONS) ** 0.5:.1f} points). *Holds*: how often the 95 %"
        " interval,",
        "Student over the people's jackknifed scores, holds the population's EER. *Independent*:"
        " what a binomial",
        "interval that takes every pair for an independent draw would hold.",
        "",
        "| population | EER | people | holds, % | mean width | independent, % |",
        "|---|---|---|---|---|---|",
    ]
    for p in POPULATIONS:
        true = true_eer(p)
        for people in PEOPLE:
            lines.append(measured(p, people, true))
            print(lines[-1], f"{time.time() - began:.0f} s", flush=True)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
