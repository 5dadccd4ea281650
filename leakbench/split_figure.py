"""A figure of a split: how many examples of each class every client holds, one bubble each."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from leakbench.runs import Run

LARGEST = 90.0  # points squared: the bubble of the largest count


def counts(run: Run) -> Tensor:
    """(C, K) int64: examples of class k that client c holds.

    Raises:
        BrokenFile: the run does not hold who has what, or it was changed.
    """
    tree, _ = run.tree("truth/data.safetensors")
    return counted(tree["y"], tree["rows"], tree["counts"], int(run.meta["facts"]["classes"]))


def counted(y: Tensor, rows: Tensor, held: Tensor, classes: int) -> Tensor:
    """The same of labels y (n,), rows (C, n_max) padded and their counts ``held`` (C,)."""
    return torch.stack([y[r[:n]].bincount(minlength=classes) for r, n in zip(rows, held.tolist(), strict=True)])


def draw(table: Tensor, *, most: int = 100) -> Any:
    """A matplotlib figure of ``table`` (C, K), clients across, classes up, as FLea's Figure 12.

    A bubble's area is proportional to the count, no bubble is none. Above it how many examples each client has. Only the first
    ``most`` clients are shown, as there; the axis says of how many. Save it with ``plots.save`` in ``plots.style()``.
    """
    from matplotlib.figure import Figure

    shown = table[:most].double()
    clients, classes = (t.flatten() for t in torch.meshgrid(torch.arange(shown.shape[0]), torch.arange(shown.shape[1]), indexing="ij"))
    sizes = shown.flatten()
    here = sizes > 0
    figure = Figure(figsize=(min(3 + 0.09 * len(shown), 11), 1.6 + 0.22 * shown.shape[1]), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(1, max(2, shown.shape[1] / 3)))
    above.bar(range(len(shown)), shown.sum(1).tolist(), color="0.6", width=0.8)
    above.set_ylabel("examples")
    area = (sizes[here] / max(float(sizes.max()), 1.0) * LARGEST).tolist()
    below.scatter(clients[here].tolist(), classes[here].tolist(), s=area, color="tab:blue", linewidths=0)
    below.set_yticks(range(shown.shape[1]))
    below.set_ylim(-0.7, shown.shape[1] - 0.3)
    below.set_ylabel("class")
    below.set_xlabel("client" if len(shown) == len(table) else f"client (the first {len(shown)} of {len(table)})")
    return figure
