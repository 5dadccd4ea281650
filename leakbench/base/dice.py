"""The dice that a whole process shares: torch's own, on every device, Python's and NumPy's.

A dropout layer throws them, and gets what depends on whoever threw before. Here they are lent: they
begin at a number, and afterwards they are as they were.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from leakbench.base.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor

BITS = 62  # of a number that they begin at
_HERE = threading.local()  # .apart: beside other threads, which may throw them, too
_LOCK = threading.RLock()
_SPARE: list[Any] = []  # generators that have stood in for NumPy's


class _Before(NamedTuple):
    torch: list[tuple[Any, Tensor]]
    plain: tuple[Any, ...]
    numpy: Any


@contextmanager
def lent(number: int) -> Iterator[None]:
    """They begin at ``number`` (below 2**BITS), and afterwards they are as they were.

    To one thread at a time; in one that is ``apart`` nothing happens.
    """
    if getattr(_HERE, "apart", False):
        yield
        return
    with _LOCK:
        before = _taken()
        try:
            _begin(number)
            yield
        finally:
            _put_back(before)


def thrown(number: int) -> bool:
    """Has anybody thrown them since they were ``lent`` at ``number``? They begin there anew."""
    now = _glance()
    _begin(number)
    return now != _glance()


def state() -> tuple[Any, ...]:
    """How far they are: equal to what it was before if nobody has thrown them since."""
    from numpy.random import mtrand

    numpys = mtrand.get_bit_generator().state["state"]
    return *_torchs(), random.getstate(), numpys["key"].tobytes(), numpys["pos"]


@contextmanager
def untouched(why: str) -> Iterator[None]:
    """Nobody throws them meanwhile.

    Raises:
        RuntimeError: somebody did, saying ``why`` that cannot be.
    """
    with lent(0):
        yield
        if not getattr(_HERE, "apart", False) and thrown(0):
            raise RuntimeError(why)


@contextmanager
def apart() -> Iterator[None]:
    """This thread works beside others, and leaves them alone."""
    before = getattr(_HERE, "apart", False)
    _HERE.apart = True
    try:
        yield
    finally:
        _HERE.apart = before


def _cuda() -> tuple[Any, ...]:
    cuda: Any = torch.cuda
    return tuple(cuda.default_generators) if cuda.is_initialized() else ()


def _taken() -> _Before:
    """NumPy's are exchanged for others until they are put back: a copy is dear."""
    from numpy.random import MT19937, mtrand

    generators = (torch.default_generator, *_cuda())
    with torch._C._DisableFuncTorch():  # else a state is of the derivative that is being taken
        states = [(g, g.get_state()) for g in generators]
    before = _Before(states, random.getstate(), mtrand.get_bit_generator())
    mtrand.set_bit_generator(_SPARE.pop() if _SPARE else MT19937(0))
    return before


def _put_back(before: _Before) -> None:
    from numpy.random import mtrand

    _SPARE.append(mtrand.get_bit_generator())
    mtrand.set_bit_generator(before.numpy)
    random.setstate(before.plain)
    with torch._C._DisableFuncTorch():
        for generator, state in before.torch:
            generator.set_state(state)


def _begin(number: int) -> None:
    import numpy as np

    for g in (torch.default_generator, *_cuda()):
        g.manual_seed(number)
    random.seed(number)
    np.random.seed(number % 2**32)


def _torchs() -> list[bytes]:
    with torch._C._DisableFuncTorch():
        return [g.get_state().numpy().tobytes() for g in (torch.default_generator, *_cuda())]


def _glance() -> tuple[Any, ...]:
    """What tells how far they are; Python's and NumPy's by a throw, which is cheap."""
    import numpy as np

    return *_torchs(), random.random(), np.random.random_sample()
