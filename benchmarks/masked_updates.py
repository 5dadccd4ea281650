"""What a part of an update tells: single images behind updates that `top_k` and `soteria` cut.

Once by the attack as it is, which leaves out what was not sent, and once with the zeros taken for
data, as an attacker does who does not know of the mask. Untrained nets, labels given, two images
of two clients for each seed.

python benchmarks/masked_updates.py results/masked-updates.md
"""

from __future__ import annotations

import math
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from leakbench import api
from leakbench.attacking import View
from leakbench.base import provenance, registry
from leakbench.base.files import read_tree
from leakbench.record import Message, Recording
from leakbench.record.folders import load
from leakbench.record.messages import round_file

SEEDS = (0, 1)
NETS: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("digits", {"model": "mlp", "width": 64}),
    ("digits", {"model": "lenet"}),
)
CUTS: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("top_k", {"share": 0.05}),
    ("top_k", {"share": 0.05, "choose": "random"}),
    ("soteria", {"share": 0.6}),
    ("soteria", {"share": 0.9}),
)
HOW = {"attacker": "naive", "targets": 2, "at": ["untrained"], "steps": 300}


def cases() -> Iterator[tuple[str, Mapping[str, Any], str, Mapping[str, Any]]]:
    """Task, its parameters, wrapper, its parameters."""
    for task, net in NETS:
        for cover, params in CUTS:
            yield task, net, cover, params
    yield "digits", {"model": "mlp", "width": 64}, "top_k", {"share": 0.1}
    yield "digits", {"model": "mlp", "width": 64}, "top_k", {"share": 0.02}


def found(recording: Recording) -> list[float]:
    """The PSNR of each guess, in dB."""
    attack = registry.load_plugin("attacks", "gradient_inversion").build(HOW, "attack")
    t = min(recording.stages.values())
    guesses = attack.run(View(attack.threat, recording, t), torch.Generator().manual_seed(0))
    truth = read_tree(recording.run.path / "truth" / round_file(t))[0]["client"]
    out = []
    for g in guesses:
        phases = truth[g.unit.split("/")[1]].values()
        x = next(p for p in phases if "probe" in p)["probe"][str(g.probe)]["x"]
        error = float((g.tensors["x"].clamp(0, 1) - x).double().square().mean())
        out.append(-10 * math.log10(max(error, 1e-20)))
    return out


def as_data(recording: Recording) -> Recording:
    """The same messages, of which nobody says that their zeros were not sent."""
    bare: list[Message] = [replace(m, sparse=False) for m in recording.transcript]
    vars(recording)["transcript"] = bare
    return recording


def line(task: str, net: Mapping[str, Any], cover: str, params: Mapping[str, Any]) -> str:
    """A row of the table."""
    known, unknown = [], []
    for seed in SEEDS:
        with tempfile.TemporaryDirectory() as folder:
            how = {"rounds": 2, "wrappers": [(cover, params)], "seed": seed, "device": "cpu"}
            run = api.train("fedavg", task=task, task_params=net, out=Path(folder), **how)
            known += found(Recording(load(run.path)))
            unknown += found(as_data(Recording(load(run.path))))
    said = ", ".join(f"{k} {v}" for k, v in params.items())
    cells = [task, str(net["model"]), f"`{cover}` {said}", *map(spread, (known, unknown))]
    print(*cells, file=sys.stderr, flush=True)
    return f"| {' | '.join(cells)} |"


def spread(values: Sequence[float]) -> str:
    """The median, and the least and the most."""
    return f"{statistics.median(values):.0f} ({min(values):.0f} to {max(values):.0f})"


HEAD = """# What a part of an update tells

`python benchmarks/masked_updates.py results/masked-updates.md`

PSNR in dB of single images behind updates of one step of SGD, untrained nets, labels given;
the median, the least and the most of two images for each of seeds 0 and 1. *Left out*: the
attack as it is, which does not match what was not sent. *Taken for data*: the same attack
that takes the zeros for numbers, as it would of a wrapper that did not say `masks`.

| task | net | what is sent | left out | taken for data |
|---|---|---|---|---|
"""


def main() -> None:
    """Measure, and write the page that the command line names."""
    rows = [line(*case) for case in cases()]
    commit, dirty = provenance.source()
    state = f"commit {commit}{' with changes' if dirty else ''}"
    text = HEAD.replace(".md`\n", f".md`, {state}.\n", 1) + "\n".join(rows) + "\n"
    Path(sys.argv[1]).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
