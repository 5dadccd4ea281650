"""Who listens: the kinds of observer that a report tells apart."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from leakbench.federation.traffic import members

Listener = Literal["server+", "aggregator", "server", "coalition", "client", "outsider"]
# Whose word about a federation counts most comes first.
LISTENERS: tuple[Listener, ...] = (
    *("server+", "aggregator", "server"),
    *("coalition", "client", "outsider"),
)


def listener_of(observers: Collection[str], *, active: bool = False) -> Listener:
    """The kind of who attacks: the strongest, where there are several.

    Args:
        observers: as rows name them: "server", "server+", "client/3", "clients/1,4", ...; none is
            the server, of whom old rows say nothing.
        active: did the server choose what it sent? Then who listens there is of that kind, even
            where the attack reads its messages like any others.
    """
    kinds = {_kind(name, active=active) for name in observers or ("server",)}
    return min(kinds, key=LISTENERS.index)


def weaker(one: Listener, than: Listener) -> bool:
    """Does it see less, or other things, so that its finding nothing says little of the other?"""
    return LISTENERS.index(one) > LISTENERS.index(than)


def _kind(name: str, *, active: bool) -> Listener:
    if clients := members(name):
        return "client" if len(clients) == 1 else "coalition"
    if name in ("aggregator", "outsider"):
        return "aggregator" if name == "aggregator" else "outsider"
    return "server+" if active or name == "server+" else "server"
