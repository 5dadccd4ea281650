"""Which messages of somebody's own loop stay in its record: those that attacks read, as in a run.

Attacks look at a run's stages: its first round, those at a tenth and at half of it, and the last.
How long a loop will be need not be known: until it ends the rounds 1, 2, 4, 8, ... are held of
which one may turn out to be the nearest to a stage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from leakbench.base.errors import UsageError
from leakbench.base.streams import shared
from leakbench.own.arrays import is_whole
from leakbench.own.named import refuse_other_keys, some_of
from leakbench.record import audited
from leakbench.record.policy import Policy

STAGES = ("untrained", "early", "middle", "final")
LIMIT = 256 * 1024**2  # bytes of messages, unless somebody says how many clients
FEWEST = 2  # clients of a round
WITHIN = 16  # a tenth of a loop is no farther from its end, to the nearest power of two


@dataclass(frozen=True)
class KeptMessages:
    """What is kept, by rounds and clients.

    Args:
        stages: of the rounds that are kept; "final" is among them.
        clients: those whose updates are kept wherever they take part.
        many: of how many clients of a round, these among them.
        rounds: how many the loop was said to have; 0 where nobody said.
        model: bytes of the model that is sent.
        update: bytes that are kept of a client and round.
        whole: is every message of every round kept?
    """

    stages: tuple[str, ...]
    clients: tuple[int, ...]
    many: int
    rounds: int
    model: int
    update: int
    whole: bool

    @classmethod
    def of(
        cls,
        keep: Mapping[str, Any] | None,
        rounds: int | None,
        *,
        clients: int,
        model: int,
        update: int,
    ) -> Self:
        """As ``leakbench.observe`` is told it; what it is not told, by size.

        Args:
            keep: of the user.
            rounds: of the loop, if it is known.
            clients: how many there are.
            model: bytes of the model that is sent.
            update: bytes that are kept of a client and round.

        Raises:
            UsageError: something is wrong with it.
        """
        if rounds is not None and (not is_whole(rounds) or rounds < 1):
            raise UsageError(f"rounds = {rounds!r}: expected a whole number from 1 on.")
        if keep is not None and not isinstance(keep, Mapping):
            raise UsageError(
                f"keep is {type(keep).__name__}: expected dict(rounds=[...], clients=...)."
            )
        said = {**(keep or {})}
        refuse_other_keys("keep", said, ("rounds", "clients"))
        whole = said.get("rounds") == "all"
        if whole and "clients" in said:
            raise UsageError(
                "keep has rounds = 'all', which keeps every client: leave clients out."
            )
        stages = STAGES if whole else _stages(said.get("rounds", STAGES))
        announced = 0 if rounds is None else int(rounds)
        made = cls(stages, (), clients, announced, model, update, whole)
        if whole:
            return made
        if "clients" in said:
            named, many = _clients(said["clients"], clients)
        else:
            fitting = (LIMIT // made._most_rounds - model) // max(update, 1)
            named, many = (), min(clients, max(FEWEST, fitting))
        return replace(made, clients=named, many=many)

    @property
    def size(self) -> int:
        """Bytes of all messages that are kept in the end, at most."""
        rounds = max(self.rounds, 1) if self.whole else self._most_rounds
        return rounds * (self.model + self.many * self.update)

    @property
    def _most_rounds(self) -> int:
        return len(self._planned) if self.rounds else len(self.stages)

    @property
    def _planned(self) -> set[int]:
        """Of a loop whose length is known."""
        stages = Policy().stages(self.rounds)
        return {t for stage, t in stages.items() if stage in self.stages}

    def held(self, newest: int) -> set[int]:
        """The rounds whose messages are held while ``newest`` is the newest of the loop."""
        if self.whole:
            return {*range(1, newest + 1)}
        if self.rounds:
            return {t for t in self._planned if t <= newest} | {newest}
        some = {1} if "untrained" in self.stages else set[int]()
        if {"early", "middle"} & {*self.stages}:
            powers = {2**k for k in range(1, newest.bit_length())}
            some |= {t for t in powers if t * WITHIN >= newest}
        return some | {newest}

    def policy(self, rounds: int) -> Policy:
        """What stays of a loop that ended after so many."""
        if self.whole:
            return Policy(name="all")
        held = tuple(sorted(self.held(rounds)))
        every = Policy(audited=self.many, probes=0, clients=self.clients, rounds=held)
        stages = every.stages(rounds)
        left = {stage: t for stage, t in stages.items() if stage in self.stages}
        usual = left == Policy().stages(rounds)
        return every.model_copy(update={"rounds": () if usual else tuple(sorted(left.values()))})

    def senders(self, who: Sequence[int], t: int, seed: int) -> set[int]:
        """Those of the clients ``who`` of round t whose updates are kept."""
        order: list[int] = shared(seed, "audit", round=t).permutation("clients", len(who)).tolist()
        named = [who[j] for j in audited.places(Policy(clients=self.clients, audited=10**6), who)]
        free = [who[j] for j in order if who[j] not in named]
        return {*named, *free[: self.many - len(self.clients)]}

    @property
    def settings(self) -> dict[str, Any]:
        """By which a loop that is gone on with is known; not how long it was said to be."""
        return {
            "rounds": ["all"] if self.whole else [*self.stages],
            "clients": [*self.clients],
            "many": self.many,
        }


def _stages(given: Any) -> tuple[str, ...]:
    stages = some_of("keep has rounds", [given] if isinstance(given, str) else given, STAGES)
    if "final" not in stages:
        raise UsageError(
            "keep has rounds without 'final': expected it among them, for verdicts are on the last"
            " round."
        )
    return stages


def _clients(given: Any, clients: int) -> tuple[tuple[int, ...], int]:
    """The numbers of those that were named, and of how many of a round updates are kept."""
    if is_whole(given):
        if given < 1:
            raise UsageError(f"keep has clients = {given}: expected how many, from 1 on.")
        return (), min(int(given), clients)
    plain = given.tolist() if hasattr(given, "tolist") else given
    if not isinstance(plain, list | tuple | set | frozenset) or not plain:
        raise UsageError(
            f"keep has clients = {given!r}: expected how many of a round, or a list of their"
            " numbers."
        )
    for c in plain:
        if not is_whole(c) or not 0 <= c < clients:
            raise UsageError(
                f"keep has client {c!r}: there are {clients}, numbered from 0 to {clients - 1}."
            )
    named = tuple(sorted({int(c) for c in plain}))
    return named, len(named)
