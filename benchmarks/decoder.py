"""Our decoder's training against a plain training loop, side by side in one run: seconds of each,
the median of the paired ratios, and what both err on the same held-out examples.

    python benchmarks/decoder.py [pairs] [network]

The plain loop is what FLea's released code does: a DataLoader that shuffles, the network of Table 5
on features as they are, Adam, the mean squared error, and the held-out error after every epoch.
Both train as many epochs, in one thread. Ours scales features, keeps the best epoch and
mixes the class mean in; "relu" and "conv" train the networks before them, too.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from attacks import _decoders
from attacks._decoder_nets import table5
from attacks._decoders import Known
from leakbench.models import harnet

EXAMPLES, CLASSES = 600, 6
HOW = {"epochs": 5, "steps": 0, "lr": 0.001, "batch": 32, "held_out": 0.15}


def examples() -> Known:
    """Smooth windows (n, 1, 128, 3), and what an untrained HARNet's second layer makes of them."""
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(EXAMPLES, 1, 128, 3, generator=rng).cumsum(2) / 8
    net = harnet.harnet((1, 128, 3), CLASSES, 64).eval()
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.randn(p.shape, generator=rng) / max(p[0].numel(), 1) ** 0.5)
        features = net(x, stop="layer2")
    return Known(features, x, torch.arange(EXAMPLES) % CLASSES)


def plain(known: Known) -> float:
    """The held-out error of a plain loop, of its last epoch."""
    order = torch.randperm(EXAMPLES, generator=torch.Generator().manual_seed(1))
    back = round(HOW["held_out"] * EXAMPLES)
    held, seen = known.some(order[:back]), known.some(order[back:])
    sides = (known.features.shape[1:], known.x.shape[1:])
    net = table5(*sides, torch.Generator().manual_seed(2), relu=False)
    pairs, rng = TensorDataset(seen.features, seen.x), torch.Generator().manual_seed(3)
    loader = DataLoader(pairs, int(HOW["batch"]), shuffle=True, generator=rng)
    optimizer, error = torch.optim.Adam(net.parameters(), lr=HOW["lr"]), nn.MSELoss()
    for _ in range(int(HOW["epochs"])):
        for f, x in loader:
            optimizer.zero_grad()
            error(net(f), x).backward()
            optimizer.step()
        with torch.no_grad():
            last = error(net(held.features), held.x)
    return float(last)


def ours(known: Known, network: str) -> float:
    """The held-out error of our decoder."""
    how = SimpleNamespace(network=network, **HOW)
    decoder = _decoders.train(known, CLASSES, how, torch.Generator().manual_seed(1))
    return float(decoder.errors[0])


def timed(train: Callable[[], float]) -> tuple[float, float]:
    """What was trained errs so much, and took so many seconds of the processor."""
    begun = time.process_time()
    error = train()
    return error, time.process_time() - begun


def main(pairs: int, network: str) -> None:
    torch.set_num_threads(1)
    known = examples()
    both = []
    for _ in range(pairs):
        theirs = timed(partial(plain, known))
        both.append((theirs, timed(partial(ours, known, network))))
    ratio = statistics.median(a[1] / b[1] for a, b in both)
    print("| loop | seconds | held-out error |\n|---|---|---|")
    for name, at in (("plain", 0), (f"ours, {network}", 1)):
        seconds = statistics.median(pair[at][1] for pair in both)
        print(f"| {name} | {seconds:.2f} | {both[0][at][0]:.4f} |")
    print(f"plain / ours, of time: {ratio:.2f}")


if __name__ == "__main__":
    asked = sys.argv[1:]
    main(int(asked[0]) if asked else 5, asked[1] if len(asked) > 1 else "linear")
