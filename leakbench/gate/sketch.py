"""Is what two files hold the same up to rounding? A few numbers of each say so.

Another machine sums in another order: then the guesses of one and the same attack differ in their
last digits, and so do their hashes. A sketch is a few random projections of a file's tensors, small
enough to stand in a baseline; files whose sketches agree hold the same but for rounding.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from pydantic import Field
from safetensors import SafetensorError, safe_open

from leakbench.base.errors import BrokenFile
from leakbench.base.spec import Spec, canonical

PROJECTIONS = 4
# Of the norm of a tensor. Two instruction sets moved what this was tried on by up to 3e-6; what
# decides beside it are the scores, which may differ by SAME_SCORE alone.
TOLERANCE = 1e-4
SAME_SCORE = 1e-5
_LEAST = 1e-6  # root mean square below which a tensor counts as zero
_DIGITS = 9


class Sketch(Spec):
    """What is left of some files: of whole numbers a hash, of real ones projections.

    ``at``: of every tensor, divided by its norm, and of the norms' logarithms, each summed with
    random signs: 2 * PROJECTIONS numbers. ``tensors``: how many there are.
    """

    exact: str = Field(description="SHA-256 of names, shapes, headers and what is not real")
    tensors: int = Field(ge=0)
    at: tuple[float, ...]

    def near(self, other: Sketch) -> bool:
        """Do the two hold the same up to rounding?"""
        if (self.exact, self.tensors, len(self.at)) != (other.exact, other.tensors, len(other.at)):
            return False
        allowed = TOLERANCE * max(self.tensors, 1) ** 0.5
        return bool(np.all(np.abs(np.subtract(self.at, other.at)) <= allowed))


def sketch(paths: Iterable[Path]) -> Sketch:
    """Of safetensors files, which are told apart by their names.

    Raises:
        BrokenFile: one of them cannot be read.
    """
    sha, at, count = hashlib.sha256(), np.zeros((2, PROJECTIONS)), 0
    for path in sorted(paths, key=lambda p: p.name):
        try:
            with safe_open(path, framework="np") as file:
                sha.update(_listed(file.metadata() or {}).encode())
                for name in sorted(file.keys()):
                    own = f"{path.name}|{name}"
                    count += _add(sha, at, own, file.get_tensor(name))
        except (SafetensorError, OSError, TypeError, ValueError) as error:
            raise BrokenFile(f"{path} cannot be read ({error}). Make it again.") from None
    told = tuple(float(f"{x:.{_DIGITS}g}") for x in at.ravel())
    return Sketch(exact=sha.hexdigest(), tensors=count, at=told)


def _listed(header: Mapping[str, str]) -> str:
    """What a header lists; the hash of what the guesses were made on changes with any last digit.

    Raises:
        ValueError: it is no JSON.
    """
    about = json.loads(header.get("leakbench", "{}"))
    return canonical({k: v for k, v in about.items() if isinstance(v, list)})


def _add(sha: hashlib._Hash, at: np.ndarray, own: str, tensor: np.ndarray) -> int:
    """One tensor's part; how many real tensors it is."""
    sha.update(f"{own}|{tensor.dtype}|{tensor.shape}".encode())
    if tensor.dtype.kind != "f":
        sha.update(np.ascontiguousarray(tensor).tobytes())
        return 0
    flat = tensor.ravel().astype(np.float64)
    sane = np.isfinite(flat)
    if not sane.all():  # where it is not a number is told exactly
        sha.update(np.packbits(sane).tobytes())
        flat = np.where(sane, flat, 0.0)
    norm = max(float(np.linalg.norm(flat)), _LEAST * max(flat.size, 1) ** 0.5)
    for k in range(PROJECTIONS):
        signs = _signs(f"{k}|{own}", flat.size + 1)
        at[0, k] += float(signs[1:] @ flat) / norm
        at[1, k] += signs[0] * np.log(norm)
    return 1


def _signs(name: str, count: int) -> np.ndarray:
    """So many signs, the same for ever: those of a hash's endless digest."""
    digest = hashlib.shake_256(name.encode()).digest(count // 8 + 1)
    return np.unpackbits(np.frombuffer(digest, dtype=np.uint8))[:count] * 2.0 - 1.0
