"""What the contenders of ``peers.py`` share: data, batches, network, and the word to begin a round.

Nothing of leakbench is in here. A contender is a process. It reads the setting from a file, waits
for the word, runs one round, says that it is done, and after the last round writes its weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from multiprocessing.connection import Client, Connection
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

WIDTH = 8  # channels of the first convolution: 278,218 weights on CIFAR-10


@dataclass(frozen=True)
class Setting:
    """The same for every contender."""

    x: Tensor  # (n, C, H, W) uint8, 0 to 255 for 0 to 1, or floats
    y: Tensor  # (n,)
    x_test: Tensor
    y_test: Tensor
    chosen: Tensor  # (rounds, M) clients
    rows: Tensor  # (rounds, M, steps, batch) rows of x
    start: list[Tensor]  # the network's first weights, in order
    lr: float
    threads: int

    @property
    def rounds(self) -> int:
        return len(self.chosen)

    @property
    def dtype(self) -> torch.dtype:
        return self.start[0].dtype

    def network(self) -> nn.Sequential:
        """The network with its first weights."""
        net = network(tuple(self.x.shape[1:]), len(self.start[-1])).to(self.dtype)
        put(net, self.start)
        return net

    def client(self, t: int, j: int) -> tuple[Tensor, Tensor]:
        """The batches of round t's j-th client, x (steps, batch, ...), y (steps, batch)."""
        rows = self.rows[t, j]
        return self.floats(self.x[rows]), self.y[rows]

    def floats(self, x: Tensor) -> Tensor:
        return x.to(self.dtype) / 255 if x.dtype == torch.uint8 else x.to(self.dtype)


def network(shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """Two convolutions of 5x5, two hidden layers, a head; as leakbench's ``cnn`` has them."""
    channels, height, breadth = shape
    flat = 4 * WIDTH * (height // 4) * (breadth // 4)
    layers = [
        *(nn.Conv2d(channels, WIDTH, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(WIDTH, 4 * WIDTH, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(flat, 16 * WIDTH), nn.ReLU()),
        *(nn.Linear(16 * WIDTH, 8 * WIDTH), nn.ReLU(), nn.Linear(8 * WIDTH, classes)),
    ]
    return nn.Sequential(*layers)


def put(net: nn.Module, weights: list[Tensor]) -> None:
    """Write ``weights`` into the network."""
    with torch.no_grad():
        for parameter, value in zip(net.parameters(), weights, strict=True):
            parameter.copy_(value)


def sgd(net: nn.Module, x: Tensor, y: Tensor, lr: float) -> None:
    """One client's local training, as anybody would write it."""
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    for xs, ys in zip(x, y, strict=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(xs), ys).backward()
        optimizer.step()


def write(path: Path, setting: Setting) -> None:
    names = ("x", "y", "x_test", "y_test", "chosen", "rows")
    tensors = {k: getattr(setting, k).contiguous() for k in names}
    tensors |= {f"start/{i}": v.contiguous() for i, v in enumerate(setting.start)}
    more = {"lr": torch.tensor(setting.lr, dtype=torch.float64)}
    save_file({**tensors, **more, "threads": torch.tensor(setting.threads)}, path)


@lru_cache(maxsize=1)
def read(path: str) -> Setting:
    found = load_file(path)
    many = sum(k.startswith("start/") for k in found)
    start = [found.pop(f"start/{i}") for i in range(many)]
    lr, threads = float(found.pop("lr")), int(found.pop("threads"))
    return Setting(**found, start=start, lr=lr, threads=threads)


class Desk:
    """A contender's line to ``peers.py``: argv[1] is the folder of the setting, argv[2] a name."""

    def __init__(self, folder: str, name: str, versions: str) -> None:
        self.folder, self.name = Path(folder), name
        self.line: Connection = Client(str(self.folder / f"{name}.line"), "AF_UNIX")
        self.line.send_bytes(versions.encode())

    def wait(self) -> None:
        """Until it is this one's turn."""
        self.line.recv_bytes()

    def done(self) -> None:
        self.line.send_bytes(b"done")

    def end(self, weights: list[Tensor]) -> None:
        """After the last round."""
        kept = {str(i): v.detach().contiguous() for i, v in enumerate(weights)}
        save_file(kept, self.folder / f"{self.name}.safetensors")
        self.done()
