"""What is rebuilt of updates that clients made with the optimizers people train with.

python benchmarks/optimizers.py [file.md]

Images are CIFAR-100's where LEAKBENCH_DATA holds them, else scikit-learn's digits; nets are
untrained, labels given, and torch's own optimizers make the updates. One search of each update,
`auto` of `gradient_inversion`. Rows are printed as they are done.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from inversion import How, matched, pictures
from torch import Tensor
from torch.nn import functional as F

from attacks import _updates
from attacks._inversion import check, engines
from attacks._inversion.victims import Victim
from attacks.gradient_inversion import GradientInversion
from leakbench.attacking import View
from leakbench.attacking.transcript import Transcript
from leakbench.base.streams import Rng
from leakbench.models.networks import MODELS, initialise
from leakbench.statistics.intervals import pool

NETS = (("lenet", 12), ("cnn", 8))
BATCHES = {1: 2, 4: 1}  # images of a step: updates of a seed
STEPS = (1, 2)
SEEDS = range(3)
BUDGET = 200
OTHERS = 99  # images of the same class, among which one is to be told


@dataclass(frozen=True)
class Trained:
    """An optimizer, as torch and as the declared method have it."""

    name: str
    torch: type[torch.optim.Optimizer]
    how: dict[str, float]  # of torch's
    fields: dict[str, object]  # of `fedavg_optim`


OPTIMIZERS = (
    Trained("SGD", torch.optim.SGD, {"lr": 0.1}, {"lr": 0.1}),
    Trained(
        "momentum .9", torch.optim.SGD, {"lr": 0.05, "momentum": 0.9}, {"lr": 0.05, "momentum": 0.9}
    ),
    Trained("Adam", torch.optim.Adam, {"lr": 1e-3}, {"lr": 1e-3, "optimizer": "adam"}),
    Trained(
        "AdamW",
        torch.optim.AdamW,
        {"lr": 1e-3, "weight_decay": 0.01},
        {"lr": 1e-3, "optimizer": "adam", "weight_decay": 0.01, "decoupled": True},
    ),
)


def victims(
    net: tuple[str, int], batch: int, steps: int, seed: int, by: Trained
) -> tuple[list[Victim], list[Tensor], list[Tensor]]:
    """Updates of ``steps`` local steps, the images behind each, and their labels."""
    x, y, many = pictures(seed)
    model = MODELS[net[0]](tuple(x.shape[1:]), many, net[1])
    model.load_state_dict(initialise(model, Rng(seed, "x", torch.tensor(0), torch.float32)))
    before = {k: v.clone() for k, v in model.state_dict().items()}
    fields = {**by.fields, "steps": steps, "epochs": 0, "batch": batch}
    said = Transcript(model, shape=tuple(x.shape[1:]), method="fedavg_optim", **fields)
    images, labels = [], []
    for v in range(BATCHES[batch]):
        part = slice(v * batch * steps, (v + 1) * batch * steps)
        model.load_state_dict(before)
        optimizer = by.torch(model.parameters(), **by.how)
        for rows, classes in zip(x[part].split(batch), y[part].split(batch), strict=True):
            optimizer.zero_grad()
            F.cross_entropy(model(rows), classes).backward()
            optimizer.step()
        moved = {k: p.detach() - before[k] for k, p in model.named_parameters()}
        said.add("update", moved, sender=f"client/{v}", labels=y[part])
        images.append(x[part])
        labels.append(y[part])
    view = View(GradientInversion(message="update", local_steps=max(STEPS)).threat, said, 1)
    behind = _updates.shortest(view, probe=False, most=max(STEPS))
    made = [Victim(view, b, b.labels, {}, (), i) for i, b in enumerate(behind)]
    return made, images, labels


def told(found: Tensor, true: Tensor, y: Tensor, seed: int) -> list[float]:
    """1 for each image that is nearer to what was found than ``OTHERS`` of its class."""
    from scipy.optimize import linear_sum_assignment

    x, labels, _ = pictures(seed)
    made = found.clamp(0, 1).float()
    table = (made[:, None] - true[None]).square().flatten(2).mean(2)
    rows, columns = linear_sum_assignment(table.nan_to_num(nan=1e9).numpy())
    out = []
    for i, j in zip(rows, columns, strict=True):
        alike = x[labels == y[j]]
        apart = (alike - made[i]).square().flatten(1).mean(1)
        own = (alike - true[j]).square().flatten(1).mean(1) == 0
        others = apart[~own].sort().values[:OTHERS]
        out.append(float(float(table[i, j]) < float(others.min())))
    return out


def row(net: tuple[str, int], batch: int, steps: int, by: Trained) -> str:
    """A line of the table."""
    levels, named, begun = {}, {}, time.process_time()
    for seed in SEEDS:
        some, images, labels = victims(net, batch, steps, seed, by)
        found = engines.search(some, How(BUDGET), "auto", torch.Generator().manual_seed(0))
        psnr: list[float] = []
        right: list[float] = []
        for victim, candidates, true, y in zip(some, found, images, labels, strict=True):
            best = check.judge(victim, candidates, How(BUDGET)).best.x
            psnr += matched(best, true)
            right += told(best, true, y, seed)
        levels[seed], named[seed] = psnr, right
    spent = (time.process_time() - begun) / len(SEEDS) / BATCHES[batch]
    cells = [_pooled(levels, batch * steps, share=False), _pooled(named, batch * steps, share=True)]
    title = f"{net[0]} | {batch} | {steps} | {by.name}"
    count = sum(map(len, levels.values()))
    return f"| {title} | {count} | {' | '.join(cells)} | {spent:.0f} |"


def _pooled(found: dict[int, list[float]], together: int, *, share: bool) -> str:
    runs = {}
    for seed, values in found.items():
        images = [f"{seed}/{i}" for i in range(len(values))]
        updates = [f"{seed}/{i // together}" for i in range(len(values))]
        runs[seed] = (values, images, updates)
    low, high = (0.0, 1.0) if share else (-math.inf, math.inf)
    e = pool(runs, share=share, low=low, high=high, unit="image")
    digits = 2 if share else 1
    return f"{e.value:.{digits}f} [{e.low:.{digits}f}, {e.high:.{digits}f}]"


def main(words: Sequence[str]) -> int:
    """Print the table, and write it to a file where one is named."""
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    many = pictures(0)[2]
    lines = [
        "# Images behind the optimizers people train with",
        "",
        f"Made by `python benchmarks/optimizers.py`: {'CIFAR-100' if many == 100 else 'digits'},",
        f"untrained nets, labels given, torch {torch.__version__}'s own optimizers; one search",
        f"(`auto`, {BUDGET} steps) of each update. PSNR in dB and the share of images told from",
        f"{OTHERS} others of their class, over {len(SEEDS)} seeds of images and weights with 95 %",
        "intervals; last: processor seconds of an update.",
        "",
        "| net | batch | steps | optimizer | images | PSNR | told | s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    print(*lines, sep="\n", flush=True)
    for net in NETS:
        for batch in BATCHES:
            for steps in STEPS:
                for by in OPTIMIZERS:
                    lines.append(row(net, batch, steps, by))
                    print(lines[-1], flush=True)
    if words:
        Path(words[0]).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
