"""Make the excerpts in results/runs as small as the committed tables need them.

    python benchmarks/smaller_excerpts.py [results/runs]

FedHide's keep five messages of each client, the bank of the first and of the last round and the
model: what un-mixing reads, and the mean of five messages. Every other bank follows from the first
and the proxies sent since. The others keep each client's newest message: all that their P_leak and
cosine are made of. Nothing is rounded; a second time changes nothing.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from leakbench.record import excerpts, find
from leakbench.reproduce.excerpt import excerpt_attacks

LONG, SHORT = (50, ("model", "banks")), (10, ())  # rounds, and what else is kept


def main() -> None:
    """Replace every excerpt below the folder by its smaller self."""
    folder = sys.argv[1] if len(sys.argv) > 1 else "results/runs"
    for run in find([folder]):
        rounds, extras = LONG if run.spec["defense"]["name"] == "fedhide" else SHORT
        before = _size(run.path)
        excerpts.write_excerpt(run, run.path, rounds, extras, partial(excerpt_attacks, run))
        print(f"{run.path}: {before / 1e6:.2f} MB before, {_size(run.path) / 1e6:.2f} MB now")


def _size(folder: Path) -> int:
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())


if __name__ == "__main__":
    main()
