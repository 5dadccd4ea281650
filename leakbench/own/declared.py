"""Who observes somebody's own loop, as ``leakbench.observe`` is told it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from leakbench.base.errors import UsageError, suggestion
from leakbench.federation.traffic import members, observer_name
from leakbench.own.named import refuse_other_keys, some_of
from leakbench.record.knowledge import KNOWLEDGE, DeclaredObserver

KINDS = ("model", "update", "sum")  # of messages that such a loop tells
ROUNDS = ("all", "one")
KEYS = ("who", "kinds", "rounds", "knows")
# A user's words for what the table has as one: who knows the loss knows the method.
ALSO = {"loss": "method", "optimizer": "method"}
_CLIENTS = re.compile(r"client/(0|[1-9]\d{0,8})|clients/(0|[1-9]\d{0,8})(,(0|[1-9]\d{0,8}))+")


def declared_observer(told: Any, clients: int) -> DeclaredObserver | None:
    """Who it is; None where it is a server that receives every message and may know all.

    Args:
        told: "server"; "sum", a server that receives what clients send summed alone; "client/3",
            another client; "clients/1,4", several that tell each other; "outsider", who reads no
            message; or dict(who=, kinds=, rounds=, knows=) with one of these, the
            kinds of messages, "all" rounds or "one", and names of what is known
            (docs/threat-models.md).
        clients: how many there are.

    Raises:
        UsageError: it is none of these.
    """
    said = {"who": told} if isinstance(told, str) else told
    if not isinstance(said, Mapping):
        raise UsageError(
            f"observer is {type(told).__name__}: expected 'server', 'sum', 'client/3', 'outsider',"
            " or dict(who=..., kinds=..., rounds=..., knows=...)."
        )
    refuse_other_keys("observer", said, KEYS)
    who, usual = _who(said.get("who", "server"), clients)
    kinds = some_of("observer has kinds", said.get("kinds", usual), KINDS)
    if "update" in kinds:  # who receives each can add them up
        kinds = (*kinds, *(kind for kind in ("sum",) if kind not in kinds))
    beyond = [kind for kind in kinds if kind not in usual]
    if beyond:
        raise UsageError(
            f"observer has kinds with {beyond[0]!r}, which {said['who']} does not receive: expected"
            f" {', '.join(usual) or 'none'}."
        )
    rounds = said.get("rounds", "all")
    if rounds not in ROUNDS:
        raise UsageError(f"observer has rounds = {rounds!r}: expected 'all' or 'one'.")
    names = (*KNOWLEDGE, *ALSO)
    knows = some_of("observer has knows", said.get("knows", tuple(KNOWLEDGE)), names)
    told = {ALSO.get(k, k) for k in knows}
    known = tuple(name for name in KNOWLEDGE if name in told)
    found = DeclaredObserver(who, kinds, "one" if rounds == "one" else "all", known)
    whole = DeclaredObserver("server", KINDS, "all", tuple(KNOWLEDGE))
    return None if found == whole else found


def _who(given: Any, clients: int) -> tuple[str, tuple[str, ...]]:
    """The party, and what it receives of a loop's messages."""
    summed = ("server", ("model", "sum"))
    alone = {"server": ("server", KINDS), "sum": summed, "outsider": (given, ())}
    if isinstance(given, str) and given in alone:
        return alone[given]
    if not isinstance(given, str) or not _CLIENTS.fullmatch(given):
        raise UsageError(
            f"observer = {given!r}: expected 'server', 'sum', 'client/3' or 'outsider'."
            f"{suggestion(str(given), alone)}"
        )
    try:
        observer_name(given)
    except ValueError as error:
        raise UsageError(f"observer = {given!r}: {error}.") from None
    if members(given)[-1] >= clients:
        raise UsageError(f"observer = {given!r}: the {clients} clients are 0 to {clients - 1}.")
    return given, ("model",)
