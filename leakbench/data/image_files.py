"""The official file formats of MNIST, CIFAR-10 and CIFAR-100: bytes in, tensors out.

MNIST's is idx, CIFAR's are pickled Python dicts or binary rows. A file may hold fewer rows than the
official one, and may be packed by gzip; anything else that is not as its format says is a
BrokenFile.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from io import BufferedIOBase
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from leakbench.base.errors import BrokenFile
from leakbench.base.lazy import torch
from leakbench.data import array_pickles

if TYPE_CHECKING:
    from torch import Tensor

# images (n, C, H, W) uint8, classes (n,) int64
Labelled: TypeAlias = "tuple[Tensor, Tensor]"
Reader: TypeAlias = "Callable[[list[Path]], Labelled]"

LARGEST = 2**29  # bytes, three times what the largest official file unpacks to


def cifar_python(key: str, classes: int) -> Reader:
    """Reader of CIFAR's "Python version": dicts with `data` (n, 3072) and classes ``key``."""

    def one(path: Path) -> Labelled:
        try:
            held = array_pickles.read_pickle(_bytes(path))
            lacking = [name for name in ("data", key) if name not in held]
            if lacking:
                raise ValueError(f"it has no {lacking[0]!r}")
            pixels = array_pickles.array(held["data"])
            labels = array_pickles.array(held[key]).reshape(-1)
        except BrokenFile:
            raise
        except Exception as error:  # a cut pickle raises nearly anything
            raise _broken(path, str(error) or type(error).__name__) from None
        return _checked(path, pixels, labels, (3, 32, 32), classes)

    return lambda paths: _joined([one(p) for p in paths])


def cifar_binary(labels: int, classes: int) -> Reader:
    """Reader of CIFAR's "binary version".

    Rows of ``labels`` bytes, the class the last of them, and 3,072 bytes of image.
    """

    def one(path: Path) -> Labelled:
        raw, row = _bytes(path), labels + 3072
        if len(raw) % row:
            raise _broken(path, f"{len(raw)} bytes are no whole number of rows of {row}")
        rows = np.frombuffer(raw, np.uint8).reshape(-1, row)
        return _checked(path, rows[:, labels:], rows[:, labels - 1], (3, 32, 32), classes)

    return lambda paths: _joined([one(p) for p in paths])


def mnist(paths: list[Path]) -> Labelled:
    """MNIST's two idx files, images and labels."""
    images, labels = paths
    return _checked(images, _idx(images, (28, 28)), _idx(labels, ()).reshape(-1), (1, 28, 28), 10)


def _idx(path: Path, sides: tuple[int, ...]) -> NDArray[np.uint8]:
    """An idx file of bytes as rows, (n, prod(sides))."""
    raw, start = _bytes(path), 8 + 4 * len(sides)
    head = [int.from_bytes(raw[i : i + 4], "big") for i in range(0, start, 4)]
    if head[0] != 0x801 + len(sides) or tuple(head[2:]) != sides:
        raise _broken(path, f"no idx file of bytes in {len(sides) + 1} dimensions")
    if len(raw) - start != head[1] * prod(sides):
        raise _broken(path, f"{len(raw)} bytes where {start + head[1] * prod(sides)} were promised")
    return np.frombuffer(raw, np.uint8, offset=start).reshape(-1, prod(sides))


def _open(path: Path) -> BufferedIOBase:
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


def _bytes(path: Path) -> bytes:
    try:
        with _open(path) as file:
            found = file.read(LARGEST + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise _broken(path, str(error)) from None
    if len(found) > LARGEST:
        raise _broken(path, f"it holds more than {LARGEST >> 20} MiB")
    return found


def _broken(path: Path, why: str) -> BrokenFile:
    return BrokenFile(f"{path} is damaged or not what its name says ({why}). Fetch it again.")


def _checked(
    path: Path, pixels: NDArray[Any], labels: NDArray[Any], shape: tuple[int, ...], classes: int
) -> Labelled:
    """The rows of one file as tensors, once they can be images and classes."""
    if pixels.dtype != np.uint8 or pixels.ndim != 2 or pixels.shape[1] != prod(shape):
        raise _broken(path, f"images of {prod(shape)} bytes were expected")
    if len(labels) != len(pixels) or not len(labels):
        raise _broken(path, f"{len(pixels)} images and {len(labels)} classes")
    if labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= classes:
        raise _broken(path, f"classes must be whole numbers from 0 to {classes - 1}")
    pixels = np.require(pixels, requirements=["C", "W"])  # a copy only where it must be one
    return torch.from_numpy(pixels).view(-1, *shape), torch.from_numpy(labels.astype(np.int64))


def _joined(parts: list[Labelled]) -> Labelled:
    if len(parts) == 1:
        return parts[0]
    return torch.cat([x for x, _ in parts]), torch.cat([y for _, y in parts])
