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

_HELD: dict[str, tuple[Tensor, ...]] = {}
_NUMBERS: WeakKeyDictionary[type, int] = WeakKeyDictionary()
_COUNT = count()


def once(key: str, make: Callable[[], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """What ``make`` makes, or made before of the same ``key``, which says all that decides it.

    Nobody may write into it. Under "" nothing is kept. Where all is too much, that goes first which
    was asked for longest ago.
    """
    if not key:
        return make()
    found = _HELD.pop(key, None) or make()
    _HELD[key] = found
    while sum(t.nbytes for held in _HELD.values() for t in held) > MOST:
        del _HELD[next(iter(_HELD))]
    return found


def forget() -> None:
    """All that was kept."""
    _HELD.clear()


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
