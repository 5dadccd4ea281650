"""Un-mixing on synthetic banks of up to 8,631 clients: time and success.

python benchmarks/unmixing.py [file.md]      prints the table; with a file it is also written
there, with command and commit
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from attacks._unmixing import Bank, Mixed
from attacks._unmixing_rounds import unmixed
from leakbench import unit
from leakbench.base import provenance

DIM, ROUNDS, SAMPLE, BLOCK = 512, 3, 50, 500
CASES = ((0.1, 10), (0.01, 10))
SIZES = (100, 1000, 8631)
MEANING = (
    "True prototypes are random directions in 512 dimensions, the bank, too; every client mixes"
    f" {ROUNDS} times, in float32, as FedHide does. Then the last messages of {SAMPLE} clients are"
    " solved with the bank before them, each from one message.",
    "",
    "Recovered: cosine to the true prototype above 0.99. Accepted: by the attack's own check. Null:"
    " accepted where the messages are random directions instead. Time: of one client, on one core.",
)


def mixed(w: Tensor, bank: Tensor, alpha: float, k: int) -> Tensor:
    """(clients, dim): what the clients with prototypes ``w`` send after they received ``bank``."""
    out = []
    for rows in torch.arange(len(w)).split(BLOCK):
        near = w[rows] @ bank.T
        near[torch.arange(len(rows)), rows] = -torch.inf
        others = unit(bank[near.topk(k).indices].sum(1))
        out.append(unit(alpha * w[rows] + (1 - alpha) * others))
    return torch.cat(out)


def rows() -> Iterator[str]:
    """A line of the table for each number of clients and setting."""
    for clients in SIZES:
        for alpha, k in CASES:
            rng = torch.Generator().manual_seed(clients)
            w = unit(torch.randn(clients, DIM, generator=rng))
            bank = sent = unit(torch.randn(clients, DIM, generator=rng))
            for _ in range(ROUNDS):
                bank, sent = sent, mixed(w, sent, alpha, k)
            some = torch.randperm(clients, generator=rng)[:SAMPLE].tolist()
            yield _line(w.double(), bank.double(), sent.double(), some, alpha, k)


def _line(w: Tensor, bank: Tensor, sent: Tensor, some: list[int], alpha: float, k: int) -> str:
    known = Bank(bank)
    begun = time.perf_counter()
    found = unmixed({str(c): [Mixed(known, c, sent[c], alpha, k)] for c in some})
    each = (time.perf_counter() - begun) / len(some)
    right = [float(found[str(c)].prototype @ w[c]) > 0.99 for c in some]
    sure = [found[str(c)].newest and found[str(c)].agree for c in some]
    named = [int((w @ found[str(c)].prototype).argmax()) == c for c in some]
    dice = torch.randn(len(some), DIM, generator=torch.Generator().manual_seed(0)).double()
    null = unmixed({str(c): [Mixed(known, c, dice[i], alpha, k)] for i, c in enumerate(some)})
    n, false = len(some), sum(u.newest for u in null.values())
    return (
        f"| {len(w)} | {alpha:g} | {k} | {sum(named)}/{n} | {sum(right)}/{n} | {sum(sure)}/{n} |"
        f" {sum(r and s for r, s in zip(right, sure, strict=True))}/{sum(sure)} | {false}/{n} |"
        f" {each:.3f} |"
    )


def main(out: Path | None) -> None:
    torch.set_num_threads(1)
    lines = [
        "| clients | alpha | k | named | recovered | accepted | of these right | null | seconds |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    print("\n".join(lines))
    for line in rows():
        print(line, flush=True)
        lines.append(line)
    if out:
        commit, dirty = provenance.source()
        made = f"`python benchmarks/unmixing.py {out}`, commit {commit}{' with changes' * dirty}."
        head = ["# Un-mixing on synthetic banks", "", made, "", *MEANING, ""]
        out.write_text("\n".join([*head, *lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
