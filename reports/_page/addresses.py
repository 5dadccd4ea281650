"""What stands behind # in a link: the same for the same name in every report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import sha256

from leakbench.base import slug


def addresses(kind: str, names: Sequence[Sequence[str]]) -> list[str]:
    """An address for each, of its kind and the parts of its name: "setting-digits-fedgn-0.1".

    Where two names differ by signs alone, a digest of each is added.
    """
    plain = [f"{kind}-{slug(' '.join(parts))}" for parts in names]
    count = Counter(plain)
    return [
        f"{one}-{_digest(parts)}" if count[one] > 1 else one
        for one, parts in zip(plain, names, strict=True)
    ]


def _digest(parts: Sequence[str]) -> str:
    return sha256("\n".join(parts).encode()).hexdigest()[:6]
