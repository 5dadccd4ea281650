"""What stands behind # in a link to a part of a page: the same for the same name everywhere."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256

from leakbench.base.spec import canonical


def addresses(names: Sequence[Sequence[str]]) -> list[str]:
    """An address for each name, of its parts: "digits-fedgn-sigma-0.1".

    Where two names differ by signs alone, a digest of each is added, as it is to a name that is
    another's address.
    """
    plain = ["-".join(map(slug, parts)) for parts in names]
    count = Counter(plain)
    longer = [f"{one}-{_digest(parts)}" for one, parts in zip(plain, names, strict=True)]
    taken = {*longer}
    both = zip(plain, longer, strict=True)
    return [long if count[one] > 1 or one in taken else one for one, long in both]


def slug(text: str) -> str:
    """In small letters, digits, dots and hyphens; a letter beyond ASCII by its name."""
    spelt = [c if c.isascii() else f" {unicodedata.name(c, 'x').split()[-1]} " for c in text]
    return re.sub(r"[^a-z0-9.]+", "-", "".join(spelt).lower()).strip("-")


def _digest(parts: Sequence[str]) -> str:
    return sha256(canonical([*parts]).encode()).hexdigest()[:6]
