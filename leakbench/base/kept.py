"""What was worked out once, for whoever asks the same again: other signals, a control, a metric."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from itertools import count
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from leakbench.base.lazy import torch
from leakbench.base.tree import flat

if TYPE_CHECKING:
    from torch import Tensor

MOST = 2**29  # bytes that are held, at most


class _Held:
    """Where all is too much, that goes first which was asked for longest ago."""

    def __init__(self) -> None:
        self.of: dict[str, tuple[Tensor, ...]] = {}
        self._bytes = 0  # of all of it

    def put(self, key: str, made: tuple[Tensor, ...]) -> None:
        """As the newest."""
        self.take(key)
        self.of[key] = made
        self._bytes += _bytes_of(made)
        while self._bytes > MOST:
            self.take(next(iter(self.of)))

    def take(self, key: str) -> None:
        """Away with it, if it is held."""
        self._bytes -= _bytes_of(self.of.pop(key, ()))


def _bytes_of(made: tuple[Tensor, ...]) -> int:
    return sum(t.nbytes for t in made)


_HELD = _Held()
_NUMBERS: WeakKeyDictionary[type, int] = WeakKeyDictionary()
_COUNT = count()


def once(key: str, make: Callable[[], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """What ``make`` makes, or made before of the same ``key``, which says all that decides it.

    Nobody may write into it. Under "" nothing is kept.
    """
    if not key:
        return make()
    found = _HELD.of.get(key) or make()
    _HELD.put(key, found)
    return found


def forget() -> None:
    """All that was kept."""
    for key in [*_HELD.of]:
        _HELD.take(key)


def code_of(*things: object) -> str:
    """Names the classes of things, in this process: one of the same name is of other code."""
    return ",".join(str(_NUMBERS.setdefault(type(t), next(_COUNT))) for t in things)


def digest(*parts: str | Tensor | Mapping[str, object]) -> str:
    """SHA-256 of texts, and of the names, types, shapes and numbers of tensors."""
    whole = hashlib.sha256()
    for part in parts:
        if isinstance(part, str):
            whole.update(f"{len(part)} {part} ".encode())
            continue
        tensors = flat(dict(part)) if isinstance(part, Mapping) else {"": part}
        for name, t in sorted(tensors.items()):
            whole.update(f"{name} {t.dtype} {tuple(t.shape)} ".encode())
            plain = t.detach().cpu().contiguous()
            if t.dtype == torch.bfloat16:  # of which numpy knows nothing
                plain = plain.view(torch.int16)
            whole.update(plain.numpy().tobytes())
    return whole.hexdigest()
