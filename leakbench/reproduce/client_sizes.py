"""FLea's Figure 13: how many examples a client has, with label skew and without."""

from __future__ import annotations

from leakbench.reproduce.recipe import Params, Setup

CLASSES, EXAMPLES = 10, 50_000


def client_sizes(setup: Setup, params: Params, seed: int) -> dict[str, float]:
    """Examples of a client where as many labels as CIFAR-10's are dealt as the tasks deal them.

    Only how many of each class there are matters, 5,000, so no file is read. ``seed``: of the draw.
    """
    from leakbench.base.lazy import torch
    from leakbench.data import splits

    y = torch.arange(EXAMPLES) % CLASSES
    parts = splits.split_rows(
        y,
        clients=int(params["clients"]),
        classes=CLASSES,
        rule=params["split"],
        param=float(params["split_param"]),
        stream=f"reproduce/flea-figure13/{seed}",
    )
    found = torch.tensor([len(p) for p in parts], dtype=torch.float64)
    return {
        "least": float(found.min()),
        "median": float(found.median()),
        "most": float(found.max()),
        "under_ten": float((found < 10).double().mean()),
    }
