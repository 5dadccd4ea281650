"""Finds MNIST, CIFAR-10 and CIFAR-100 in the data folder, or has torchvision fetch them there."""

from __future__ import annotations

import socket
import sys
import tempfile
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from leakbench.base import terminal
from leakbench.base.data_folder import data_folder
from leakbench.base.errors import BrokenFile, UsageError
from leakbench.data import image_files as files
from leakbench.data import official
from leakbench.data.image_files import Labelled, Reader


@dataclass(frozen=True)
class Layout:
    """A folder with the files of the training and of the test set, and what reads them."""

    folder: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    read: Reader

    def paths(self, root: Path, names: tuple[str, ...]) -> list[Path]:
        """Each file; where only the same packed by gzip is there, that one."""
        out = []
        for plain in (root / self.folder / n for n in names):
            packed = plain.with_name(f"{plain.name}.gz")
            out.append(packed if packed.is_file() and not plain.is_file() else plain)
        return out

    def missing(self, root: Path) -> list[Path]:
        """The files that are not there."""
        return [p for p in self.paths(root, self.train + self.test) if not p.is_file()]


_IDX = ("images-idx3-ubyte", "labels-idx1-ubyte")
_TRAIN, _TEST = tuple(f"train-{n}" for n in _IDX), tuple(f"t10k-{n}" for n in _IDX)
_BATCHES = tuple(f"data_batch_{i}" for i in range(1, 6))
_BINS = tuple(f"{b}.bin" for b in _BATCHES)

# Set -> its layouts; the first is the one in which torchvision fetches it.
LAYOUTS: dict[str, tuple[Layout, ...]] = {
    "mnist": (Layout("MNIST/raw", _TRAIN, _TEST, files.mnist),),
    "cifar10": (
        Layout("cifar-10-batches-py", _BATCHES, ("test_batch",), files.cifar_python("labels", 10)),
        Layout("cifar-10-batches-bin", _BINS, ("test_batch.bin",), files.cifar_binary(1, 10)),
    ),
    "cifar100": (
        Layout("cifar-100-python", ("train",), ("test",), files.cifar_python("fine_labels", 100)),
        Layout("cifar-100-binary", ("train.bin",), ("test.bin",), files.cifar_binary(2, 100)),
    ),
}
SILENCE = 30.0  # seconds in which a server must say something
TORCHVISION = {"mnist": "MNIST", "cifar10": "CIFAR10", "cifar100": "CIFAR100"}


def found(name: str) -> Path | None:
    """The folder that holds all files of the set ``name``, or None; nothing is fetched."""
    layout = _layout(name)
    return data_folder() / layout.folder if layout else None


def unofficial(name: str) -> str:
    """Which file of the set that is there is not the official one, a clause; empty where all are.

    Raises:
        UsageError: the set is nowhere.
    """
    layout, root = _layout(name), data_folder()
    if layout is None:
        raise UsageError(f"{name} is not in {root}: put {layouts(name)} there.")
    return official.unlike(name, layout.paths(root, layout.train + layout.test))


def layouts(name: str) -> str:
    """The official folders that may hold the set ``name``, in words."""
    return " or ".join(f"{x.folder}/" for x in LAYOUTS[name])


def load_images(name: str) -> tuple[Labelled, Labelled]:
    """The official training and test set of ``name``.

    Images (n, C, H, W) uint8 and classes (n,) int64 of each. Where the set is nowhere, torchvision
    fetches it, and a line on stderr says so.

    Raises:
        BrokenFile: a file is missing beside others, cut, or not what its name says.
        UsageError: the set is nowhere and cannot be fetched.
    """
    layout, root = _layout(name) or _fetched(name), data_folder()
    train = layout.read(layout.paths(root, layout.train))
    return train, layout.read(layout.paths(root, layout.test))


def _layout(name: str) -> Layout | None:
    return next((x for x in LAYOUTS[name] if not x.missing(data_folder())), None)


def _fetched(name: str) -> Layout:
    """Torchvision's download, moved to its place whole: several processes may want it at once."""
    root = data_folder()
    for layout in LAYOUTS[name]:
        lacking = layout.missing(root)
        if len(lacking) < len(layout.train + layout.test):
            raise BrokenFile(
                f"{lacking[0]} is missing beside the other files of {name}. Put it there too."
            )
    layout = LAYOUTS[name][0]
    terminal.say(f"{name} is not in {root}: torchvision fetches it")
    try:
        root.mkdir(parents=True, exist_ok=True)
        with (
            tempfile.TemporaryDirectory(dir=root, prefix=".fetch-") as fresh,
            redirect_stdout(sys.stderr),
        ):
            _download(name, fresh)
            (root / layout.folder).parent.mkdir(parents=True, exist_ok=True)
            (Path(fresh) / layout.folder).rename(root / layout.folder)
    except Exception as error:  # torchvision and the network raise nearly anything
        if layout.missing(root):  # else another process was first
            why = f"{type(error).__name__}: {error}".splitlines()[0].rstrip(".")
            raise UsageError(
                f"{name} is not in {root} ({layouts(name)} with the official files) and could not"
                f" be fetched there ({why}): put it there, or set LEAKBENCH_DATA to the folder that"
                " has it."
            ) from None
    return layout


def _download(name: str, folder: str) -> None:
    """Torchvision's download, which by itself would wait for a silent server for ever."""
    from torchvision import datasets

    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(SILENCE)
    try:
        getattr(datasets, TORCHVISION[name])(folder, download=True)
    finally:
        socket.setdefaulttimeout(before)
