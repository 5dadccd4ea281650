"""Engine fused against the plain loop, side by side in one run: median time of a round, and the
median of the paired ratios.

python benchmarks/engines.py [pairs]
"""

from __future__ import annotations

import statistics
import sys
import time

import torch

from leakbench.federation.federation import Federation
from leakbench.record.runspec import make_spec, parts

CASES = (
    ("fedgn", "digits", {}),
    ("fedgn", "digit-pairs", {}),
    ("fedavg", "digits", {}),
    ("fedavg", "digit-pairs", {"fraction": 1.0}),
)


def seconds(fed: Federation, rounds: int) -> float:
    begun = time.perf_counter()
    for _ in range(rounds):
        fed.step()
    return (time.perf_counter() - begun) / rounds


def main(pairs: int) -> None:
    torch.set_num_threads(1)
    print(
        "| method, task | clients a round | loop, ms | fused, ms | loop / fused"
        " |\n|---|---|---|---|---|"
    )
    for defense, task, params in CASES:
        made = parts(make_spec(defense, task=task, params=params))
        feds = {
            e: Federation(made.method, made.task, made.task.load(), engine=e)
            for e in ("loop", "fused")
        }
        for fed in feds.values():
            fed.begin()
            fed.step()
        both = []
        for _ in range(pairs):
            both.append({e: seconds(fed, 5) for e, fed in feds.items()})
        ms = {}
        for e in feds:
            ms[e] = 1e3 * statistics.median(b[e] for b in both)
        ratio = statistics.median(b["loop"] / b["fused"] for b in both)
        print(
            f"| {defense}, {task} | {len(feds['loop'].chosen)} | {ms['loop']:.1f} |"
            f" {ms['fused']:.1f} | {ratio:.1f} |"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
