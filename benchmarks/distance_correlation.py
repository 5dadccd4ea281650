"""Ours and the dcor package's distance correlation side by side, each call in turn; then ours alone
at sizes that dcor cannot do.

python benchmarks/distance_correlation.py [--most 100] [--large 1000,10000] [--repeats 15]
[--permutations 0]

dcor 0.7 beside array-api-compat 1.16 takes n * n * d numbers (2 GB at n = 300, d = 3072), so the
first table stops at n = 100. Times are the least of the repeats, in processor time. MiB is what the
peak rose by above the inputs, measured in a process of its own. Where the first touch of memory is
dear (some virtual machines), set MALLOC_MMAP_THRESHOLD_ and MALLOC_TRIM_THRESHOLD_ to 1000000000,
or page faults are what is timed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

import torch

sys.path.pop(0)  # this folder: its names would hide those of packages
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from leakbench.statistics.distance_correlation import correlations, permuted

ROWS, SENT = 3072, 512  # a 32 x 32 colour image, an embedding


def pair(n):
    dice = torch.Generator().manual_seed(n)
    x = torch.empty(n, ROWS, dtype=torch.float64).normal_(generator=dice)
    z = torch.empty(n, SENT, dtype=torch.float64).normal_(generator=dice)
    return x, z


def seconds(f):
    start = time.process_time()
    f()
    return time.process_time() - start


def small(sizes, repeats):
    import dcor

    print("| n | ours ms | dcor ms | dcor / ours | largest difference |")
    print("|---|---|---|---|---|")
    for n in sizes:
        x, z = pair(n)
        a, b = x.numpy(), z.numpy()

        def theirs(a=a, b=b):
            return float(dcor.distance_correlation(a, b)), float(
                dcor.u_distance_correlation_sqr(a, b)
            )

        ours, other = correlations(x, z), theirs()
        apart = max(abs(ours["dcor"] - other[0]), abs(ours["dcor2_corrected"] - other[1]))
        times = [
            (seconds(lambda x=x, z=z: correlations(x, z)), seconds(theirs)) for _ in range(repeats)
        ]
        least, other = (min(column) for column in zip(*times, strict=True))
        print(
            f"| {n} | {1e3 * least:.2f} | {1e3 * other:.2f} | {other / least:.1f} | {apart:.0e} |"
        )


def one(n, permutations):
    """In a process of its own."""

    # Not getrusage, which begins at what the process that started this one held; not VmHWM, which
    # swapping moves.
    def peak():
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return int(next(line for line in lines if line.startswith("VmPeak")).split()[1]) / 1024

    x, z = pair(n)
    correlations(x[:300], z[:300])  # what the libraries take once
    # Or the peak of the imports would hide what comes after.
    ballast = torch.ones(2**29, dtype=torch.uint8)
    before = peak()
    took = seconds(lambda: correlations(x, z))
    rose = peak() - before
    dice = torch.Generator().manual_seed(0)
    null = (
        seconds(lambda: permuted(x, z, generator=dice, permutations=permutations))
        if permutations
        else float("nan")
    )
    del ballast
    print(f"| {n} | {took:.1f} | {rose:.0f} | {null:.1f} | {peak() - before:.0f} |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--most", type=int, default=100)
    parser.add_argument("--large", default="1000,10000")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--permutations", type=int, default=0)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one(options.one, options.permutations)
        return
    print(
        f"x (n, {ROWS}), z (n, {SENT}), float64, {torch.get_num_threads()} threads, torch"
        f" {torch.__version__}\n"
    )
    small([n for n in (20, 50, 100, 200, 300) if n <= options.most], options.repeats)
    print(f"\n| n | ours s | MiB | {options.permutations} permutations s | MiB |")
    print("|---|---|---|---|---|", flush=True)
    for n in options.large.split(","):
        subprocess.run(
            [sys.executable, __file__, "--one", n, "--permutations", str(options.permutations)],
            check=True,
        )


if __name__ == "__main__":
    main()
