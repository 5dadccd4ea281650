"""What a user names of things that are known: keys of a dict, some of a list."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from leakbench.base.errors import UsageError, suggestion


def refuse_other_keys(whose: str, said: Iterable[Any], known: Sequence[str]) -> None:
    """Raise UsageError where one of the keys ``said`` is not ``known``; ``whose`` they are."""
    for key in said:
        if key not in known:
            raise UsageError(
                f"{whose} has {key!r}: expected {', '.join(known)}.{suggestion(str(key), known)}"
            )


def some_of(whose: str, given: Any, known: Sequence[str]) -> tuple[str, ...]:
    """Those of ``known`` that were given, in their order.

    Args:
        whose: what is told so, as "keep has rounds".
        given: by the user, a list.
        known: what there is.

    Raises:
        UsageError: it is no list, or one is not known.
    """
    if not isinstance(given, list | tuple | set | frozenset):
        raise UsageError(f"{whose} = {given!r}: expected some of {', '.join(known)}.")
    for name in given:
        if name not in known:
            raise UsageError(
                f"{whose} with {name!r}: expected some of {', '.join(known)}."
                f"{suggestion(str(name), known)}"
            )
    return tuple(name for name in known if name in given)
