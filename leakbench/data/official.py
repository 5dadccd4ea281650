"""Which data are the official ones: every file of a set is known by its size and its digest.

MD5s of CIFAR's Python files are torchvision's; those of its binary files and of MNIST's unpacked
ones are of files that torchvision's or their authors' checksums vouch for (CIFAR-100's binary ones:
made of the Python ones). Of UCI HAR's signals the numbers are known, rounded to float32, and the
size of the text.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


# Of files that are many and small: of all names and contents, in the names' order.
TOGETHER = {"fsdd": "8fed8b0b058a7efa7544bbb3e8e98607ecdcbd47a2f0ea31139cab18a6b679c9"}
DIGITS = "87ff0c9e40dc7e2c0e34e7257799c2e3f3aec1a016363bb11cad869ec428a826"


def unlike(name: str, paths: Iterable[Path]) -> str:
    """Which of the set's files is not the official one and why, a clause; empty where all are.

    A file is read once in a process, unless its size or time changes.
    """
    for path in paths:
        known = _known()[name].get(path.name.removesuffix(".gz"))
        if known is None:
            return f"{path} is no file of the official {name}"
        about = path.stat()
        if path.suffix != ".gz" and about.st_size != known["size"]:
            return f"{path} has {about.st_size} bytes, the official one {known['size']}"
        how = "md5" if "md5" in known else "float32"
        if _digest(path, how, about.st_size, about.st_mtime_ns) != known[how]:
            return f"{path} is not, byte for byte, the official one"
    return ""


def unlike_together(name: str, paths: Iterable[Path]) -> str:
    """That the set's files are, as a whole, not the official ones, a clause; empty where they are.

    No single file is named: one digest is known of all.
    """
    listed = sorted(paths, key=lambda p: p.name)
    if together(listed) == TOGETHER[name]:
        return ""
    return f"the {len(listed)} files in {listed[0].parent} are not those of the official {name}"


def together(paths: Iterable[Path]) -> str:
    """SHA-256 of the names and contents of files, in this order."""
    sha = hashlib.sha256()
    for path in paths:
        content = path.read_bytes()
        sha.update(f"{path.name} {len(content)}\n".encode())
        sha.update(content)
    return sha.hexdigest()


def unlike_digits(images: Tensor, classes: Tensor) -> str:
    """The same of scikit-learn's digits, images (n, 8, 8) from 0 to 16 and classes (n,)."""
    sha = hashlib.sha256()
    for tensor in (images, classes):
        sha.update(tensor.byte().contiguous().numpy().tobytes())
    if sha.hexdigest() == DIGITS and bool((images == images.byte()).all()):
        return ""
    return "the digits of this scikit-learn are not those that leakbench knows"


@lru_cache(maxsize=1)
def _known() -> dict[str, Any]:
    path = files("leakbench") / "data_files" / "official.json"
    return dict(json.loads(path.read_text(encoding="utf-8")))


@lru_cache(maxsize=256)
def _digest(path: Path, how: str, _size: int, _changed: int) -> str:
    """Of the content, unpacked; or of the numbers that a text file holds."""
    if how == "float32":
        import numpy as np

        try:
            numbers = np.loadtxt(path, ndmin=2, comments=None, encoding="utf-8-sig")
        except ValueError:  # who reads it says what is wrong with it
            return ""
        return hashlib.sha256(numbers.astype(np.float32).tobytes()).hexdigest()
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
