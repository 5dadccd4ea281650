"""What the names of the labels that a client holds tell about it, for each way to split digits:
nothing else is read, nothing trained.

FedAA shares these names and calls them non-sensitive (Section 3.2). Per split: how much of the
client's labels the names give (`label_overlap`, names taken evenly, beside the blind guess, all
classes alike), how many clients are told apart by their names alone (nobody else has this very
set), and among how many clients one still hides on average.

python benchmarks/shared_labels.py [file.md]      prints the table; with a file it is also written
there, with command and commit
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from leakbench.base import provenance, registry

SPLITS = (("class", 1), ("shards", 1), ("dir", 0.1), ("dir", 0.5), ("qua", 3), ("iid", 1))
CLIENTS = (10, 50)
MEANING = (
    (
        "Means over clients, who name the classes that they hold and no more. `label_overlap`:"
        " share of a client's labels that are right if"
    ),
    (
        "its names are taken evenly; floor: all ten classes evenly. Told apart: share of clients"
        " whose set of names nobody else has. Remain:"
    ),
    (
        "clients among whom the names leave one, itself included. The data are dealt by the task,"
        " so there is one draw, no interval."
    ),
)


@dataclass(frozen=True)
class Told:
    """Means over the clients of a split.

    ``overlap``, ``floor``: as in `label_overlap`, 0 to 1. ``names``: how many a client has.
    ``unique``: share of the clients whose set nobody else has. ``remain``: clients among whom the
    names leave one, itself included.
    """

    overlap: float
    floor: float
    names: float
    unique: float
    remain: float


def told(held: Iterable[Tensor], classes: int) -> Told:
    """Of clients with labels ``held``, each (n,) int64."""
    shares = [y.bincount(minlength=classes).double() / len(y) for y in held]
    names = [(s > 0).double() for s in shares]
    sets = Counter(tuple(n.tolist()) for n in names)
    same = [sets[tuple(n.tolist())] for n in names]

    def mean(values: Iterable[float]) -> float:
        return sum(values) / len(shares)

    return Told(
        overlap=mean(
            float(torch.minimum(s, n / n.sum()).sum()) for s, n in zip(shares, names, strict=True)
        ),
        floor=mean(float(s.clamp(max=1 / classes).sum()) for s in shares),
        names=mean(float(n.sum()) for n in names),
        unique=mean(float(k == 1) for k in same),
        remain=mean(float(k) for k in same),
    )


def of_split(split: str, param: float, clients: int) -> Told:
    """The labels that the clients of `digits` hold under a split."""
    task = registry.load_plugin("tasks", "digits").build(
        {"split": split, "split_param": param, "clients": clients}, "task digits"
    )
    data = task.load()
    return told(
        (data.train.y[rows[:n]] for rows, n in zip(data.rows, data.counts.tolist(), strict=True)),
        task.classes,
    )


def table() -> list[str]:
    """Markdown lines."""
    lines = [
        (
            "| split | clients | names of a client | label_overlap of the names | floor | told"
            " apart by names | clients that remain |"
        ),
        "|---|---|---|---|---|---|---|",
    ]
    for split, param in SPLITS:
        for clients in CLIENTS:
            if split == "class" and clients != CLIENTS[0]:
                continue
            found = of_split(split, param, clients)
            name = split if split in ("class", "iid") else f"{split} {param:g}"
            numbers = (
                f"{found.names:.1f} | {found.overlap:.2f} | {found.floor:.2f} | {found.unique:.2f}"
                f" | {found.remain:.1f}"
            )
            lines.append(f"| {name} | {clients} | {numbers} |")
    return lines


def main(out: Path | None) -> None:
    lines = table()
    print("\n".join(lines))
    if out:
        commit, dirty = provenance.source()
        made = (
            f"`python benchmarks/shared_labels.py {out}`, commit"
            f" {commit}{' with changes' if dirty else ''}."
        )
        out.write_text(
            "\n".join(
                ["# What label names alone tell, on digits", "", made, "", *MEANING, "", *lines, ""]
            ),
            encoding="utf-8",
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
