"""Which messages of a run are kept: the recording policies `standard` and `all`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from leakbench.base.spec import Spec
from leakbench.record.messages import LARGE

FIRST = 3  # rounds in which a small kind is sent that are kept, whenever they are
UPLINK_LIMIT, BROADCAST_LIMIT = 64 * 1024, 1024 * 1024  # bytes of a small kind's message
GOLDEN = (5**0.5 - 1) / 2
POOLED = 1000  # rounds of covered updates that are kept for who adds them up, at most


class Policy(Spec):
    """What is kept. Audited are rounds 0, 1, 10 %, 50 %, the last round R, and R + 1."""

    name: Literal["standard", "all"] = "standard"
    last: int = Field(
        200,
        ge=1,
        description=(
            "messages of each client (uplinks) and rounds (broadcasts) kept at the end of the run"
        ),
    )
    decade: int = Field(
        20,
        ge=1,
        le=1000,
        description="log-spaced rounds per decade in which all small kinds are kept",
    )
    spaced: int = Field(
        10,
        ge=0,
        le=10_000,
        description="evenly spaced rounds in which large payloads of small kinds are kept",
    )
    audited: int = Field(
        5, ge=0, description="clients of an audited round whose single updates are kept"
    )
    probes: int = Field(
        16, ge=0, le=16, description="single-image updates of each audited client and round"
    )
    clients: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        (),
        description=(
            "clients that are audited wherever they take part; what `audited` leaves beside them is"
            " drawn"
        ),
    )
    rounds: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        (),
        description=(
            "rounds that are audited beside the last, of a loop whose end was not known: a stage is"
            " the nearest of them"
        ),
    )

    @model_validator(mode="after")
    def _chosen(self) -> Self:
        """Each chosen client is one, and there is room for all of them."""
        twice = sorted({i for i in self.clients if self.clients.count(i) > 1})
        if twice:
            raise ValueError(f"clients names {_listed(twice)} more than once; name each once")
        if self.clients and self.name == "all":
            raise ValueError("clients chooses among what `all` keeps anyway; leave clients out")
        if len(self.clients) > self.audited:
            raise ValueError(
                f"clients names {len(self.clients)} of which audited = {self.audited} are kept; set"
                f" audited = {len(self.clients)}, or more"
            )
        return self

    @model_serializer(mode="wrap")
    def _plain(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without clients and rounds that nobody chose: such a run is called as it always was."""
        told: dict[str, Any] = dump(self)
        return {k: v for k, v in told.items() if k not in ("clients", "rounds") or v}

    def stages(self, rounds: int) -> dict[str, int]:
        """{stage: round}; of two in one round the earlier, but the last is always `final`."""
        early, middle = max(1, round(rounds / 10)), max(1, round(rounds / 2))
        out: dict[str, int] = {}
        for stage, wanted in (("untrained", 1), ("early", early), ("middle", middle)):
            t = self._nearest(wanted)
            if t is not None and t != rounds and t not in out.values():
                out[stage] = t
        return {**out, "final": rounds}

    def _nearest(self, t: int) -> int | None:
        """Of the rounds that were chosen the one that stands for t; none if it is far from all.

        Nothing stands for the first, which alone begins with the untrained model.
        """
        if not self.rounds or t in self.rounds:
            return t
        near = min(self.rounds, key=lambda chosen: (abs(chosen - t), chosen))
        return near if t > 1 and t <= 2 * near <= 4 * t else None

    def audits(self, t: int, rounds: int) -> bool:
        """Are models, single updates and probes of round t kept?"""
        return self.name == "all" or t in (0, rounds + 1, *self.stages(rounds).values())

    def keeps_last_layers(self, t: int, rounds: int, turns: int) -> bool:
        """Are the last layers of round t's model and updates kept, whole ones or not?

        In audited rounds, and in the last ``turns``: as many as a round robin takes until everybody
        had a turn. Where clients are drawn at random about two thirds have one.
        """
        if self.name == "all" or not self.audited:
            return False  # whole ones are, or none
        return self.audits(t, rounds) or rounds - turns < t <= rounds

    def pools(self, t: int, rounds: int, most: int) -> bool:
        """Are round t's model and the last layers of its covered updates kept, to be added up?

        Of all rounds, or where only ``most`` can be kept, of as many at uneven distances: at even
        ones a round robin would show the same clients each time.
        """
        if self.name == "all" or not self.audited:
            return False
        return t in _uneven(rounds, min(most, POOLED))

    def surveys(self, t: int, rounds: int) -> bool:
        """Are all small kinds of round t kept, and everybody's secrets (for scoring)?"""
        return self.audits(t, rounds) or t in _log_spaced(self.decade)

    def keeps(
        self,
        kind: str,
        size: int,
        t: int,
        rounds: int,
        *,
        uplink: bool,
        fraction: float,
        times: int = FIRST + 1,
    ) -> bool:
        """Is a message of ``kind`` with ``size`` bytes kept, sent in round t of ``rounds``?

        ``times``: in how many rounds this kind was sent, this one included. The first few are kept:
        what is sent seldom would else fall between the rounds that are.
        """
        if self.audits(t, rounds):
            return True
        if kind in LARGE:
            return False
        # The naive attacker reads the message before the audited update.
        if self.audits(t + 1, rounds):
            return True
        tail = round(self.last / fraction) if uplink else self.last
        small = size <= (UPLINK_LIMIT if uplink else BROADCAST_LIMIT)
        if small and (t > rounds - tail or times <= FIRST):
            return True
        if size > UPLINK_LIMIT:
            return t in _evenly_spaced(rounds, self.spaced)
        return self.surveys(t, rounds)


def _listed(clients: Sequence[int]) -> str:
    return ", ".join(map(str, clients))


@lru_cache(maxsize=16)
def _log_spaced(decade: int) -> frozenset[int]:
    """The rounds of seven decades, up to the largest number of rounds."""
    return frozenset(round(10 ** (i / decade)) for i in range(decade * 7))


@lru_cache(maxsize=16)
def _uneven(rounds: int, count: int) -> frozenset[int]:
    """``count`` of the rounds 1 to ``rounds``, as multiples of the golden ratio fall among them."""
    found: set[int] = set()
    multiple = 0
    while len(found) < min(count, rounds):
        multiple += 1
        found.add(1 + int(rounds * (multiple * GOLDEN % 1)))
    return frozenset(found)


@lru_cache(maxsize=16)
def _evenly_spaced(rounds: int, count: int) -> frozenset[int]:
    return frozenset(round(rounds * (i + 1) / count) for i in range(count))
