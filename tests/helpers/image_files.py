"""Tiny image sets in the official layouts of MNIST, CIFAR-10 and CIFAR-100, written to a folder for
LEAKBENCH_DATA.
"""

from __future__ import annotations

import gzip
import pickle  # noqa: TID251 - CIFAR's own format
import struct
from pathlib import Path

import numpy as np

SHAPES = {"mnist": (1, 28, 28), "cifar10": (3, 32, 32), "cifar100": (3, 32, 32)}
CLASSES = {"mnist": 10, "cifar10": 10, "cifar100": 100}


def rows(name: str, each: int, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """``each`` random images of every class in a mixed order: (n, C, H, W) uint8 and (n,) int64.

    Images of a class share a random picture, so that there is something to learn.
    """
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(CLASSES[name]).repeat(each))
    pictures = np.random.default_rng(99).integers(0, 128, (CLASSES[name], *SHAPES[name]))
    return (pictures[labels] + rng.integers(0, 128, (len(labels), *SHAPES[name]))).astype(
        np.uint8
    ), labels


def write(
    name: str,
    folder: Path,
    *,
    train: int = 6,
    test: int = 4,
    layout: str = "python",
    protocol: int = 2,
) -> Path:
    """Write ``train`` and ``test`` images of each class; returns the folder that the files are in.

    ``layout``: "python" or "binary" (CIFAR), or for MNIST "python" (plain idx files) and "binary"
    (the same, packed by gzip).
    """
    parts = {"train": rows(name, train, seed=1), "test": rows(name, test, seed=2)}
    if name == "mnist":
        return _mnist(folder, parts, packed=layout == "binary")
    return (_cifar_python if layout == "python" else _cifar_binary)(name, folder, parts, protocol)


def _mnist(folder: Path, parts: dict, *, packed: bool) -> Path:
    place = folder / "MNIST" / "raw"
    place.mkdir(parents=True)
    for part, prefix in (("train", "train"), ("test", "t10k")):
        x, y = parts[part]
        for kind, head, body in (
            ("images-idx3", struct.pack(">4I", 0x803, len(y), 28, 28), x),
            ("labels-idx1", struct.pack(">2I", 0x801, len(y)), y.astype(np.uint8)),
        ):
            path = place / f"{prefix}-{kind}-ubyte{'.gz' if packed else ''}"
            content = head + body.tobytes()
            path.write_bytes(gzip.compress(content) if packed else content)
    return place


def _files(name: str, parts: dict) -> dict:
    """File name -> its rows: CIFAR-10's training set is spread over five files."""
    if name == "cifar100":
        return parts
    x, y = parts["train"]
    batches = zip(np.array_split(x, 5), np.array_split(y, 5), strict=True)
    return {f"data_batch_{i}": batch for i, batch in enumerate(batches, 1)} | {
        "test_batch": parts["test"]
    }


def _cifar_python(name: str, folder: Path, parts: dict, protocol: int) -> Path:
    place = folder / {"cifar10": "cifar-10-batches-py", "cifar100": "cifar-100-python"}[name]
    place.mkdir(parents=True)
    for file, (x, y) in _files(name, parts).items():
        held = {"data": x.reshape(len(x), -1), "filenames": [f"{i}.png" for i in range(len(y))]}
        held |= (
            {"labels": y.tolist()}
            if name == "cifar10"
            else {"fine_labels": y.tolist(), "coarse_labels": (y // 5).tolist()}
        )
        (place / file).write_bytes(pickle.dumps(held, protocol))
    return place


def _cifar_binary(name: str, folder: Path, parts: dict, protocol: int) -> Path:
    place = folder / {"cifar10": "cifar-10-batches-bin", "cifar100": "cifar-100-binary"}[name]
    place.mkdir(parents=True)
    for file, (x, y) in _files(name, parts).items():
        labels = y[:, None] if name == "cifar10" else np.stack([y // 5, y], 1)
        (place / f"{file}.bin").write_bytes(
            np.concatenate([labels, x.reshape(len(x), -1)], 1).astype(np.uint8).tobytes()
        )
    return place
