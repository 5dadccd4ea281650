"""Binary error-correcting codes: primitive narrow-sense BCH codes, their sizes and encoder."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from leakbench.base import UsageError, torch

if TYPE_CHECKING:
    from torch import Tensor


@lru_cache
def distances(length: int) -> dict[int, int]:
    """The BCH codes of ``length`` 2^m - 1: {message bits: least distance of two codewords}.

    Fewest errors corrected first. The BCH bound: a code whose generator has the roots alpha^1 ..
    alpha^(d - 1) has distance d at least. Roots come in cyclotomic cosets i, 2i, 4i, ... modulo the
    length.
    """
    out: dict[int, int] = {}
    roots: set[int] = set()
    for i in range(1, length):
        if i in roots:
            continue
        if roots:
            out[length - len(roots)] = i
        while i not in roots:
            roots.add(i)
            i = 2 * i % length
    return {**out, 1: length}  # all roots but 1: the repetition code


@lru_cache
def generator(length: int, message: int) -> Tensor:
    """(message, length) float64 of 0 and 1: a codeword is message @ generator, modulo 2.

    It begins with the message.

    Raises:
        UsageError: the package galois is not installed.
    """
    try:
        import galois
    except ImportError as error:
        raise UsageError(
            "FedUV's codewords need the package galois: pip install 'leakbench[codes]'."
        ) from error
    # Its compiled mode spends five seconds on compiling for a tenth of a second of work. It also
    # sets the number of threads of the whole process.
    mode, threads = galois.GF2.ufunc_mode, torch.get_num_threads()
    galois.GF2.compile("python-calculate")
    try:
        field = galois.GF(length + 1, compile="python-calculate")
        code = galois.BCH(length, message, extension_field=field)
        return torch.tensor(np.asarray(code.G, dtype=np.float64))
    finally:
        galois.GF2.compile(mode)
        torch.set_num_threads(threads)
