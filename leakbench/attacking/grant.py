"""Who an attacker is, and what of a source that grants: messages, knowledge, public facts."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from leakbench.attacking import gradients
from leakbench.base.errors import UsageError
from leakbench.base.lazy import torch
from leakbench.base.spec import Spec
from leakbench.federation.defense import Defense
from leakbench.federation.traffic import party
from leakbench.record.knowledge import KNOWLEDGE
from leakbench.record.messages import KINDS, Message
from leakbench.record.source import Source as Source
from leakbench.record.source import covered as covered
from leakbench.record.source import passed

if TYPE_CHECKING:
    from torch import Tensor

Rung = Literal["paper", "transcript", "method", "public"]


def _known(name: str) -> str:
    """The name of a kind of knowledge; as a choice is refused that is none of a Literal's."""
    if name not in KNOWLEDGE:
        *names, last = map(repr, KNOWLEDGE)
        expected = f"Input should be {', '.join(names)} or {last}"
        raise PydanticCustomError("literal_error", "{expected}", {"expected": expected})
    return name


class ThreatModel(Spec):
    """Who the attacker is, what it reads, what it already knows.

    Declared by an attack, enforced by ``View``, printed with every number.
    """

    observer: str = Field("server", pattern=r"^(server|aggregator|outsider|client/\d+)$")
    kinds: tuple[str, ...] = ("model", "update")
    # "last": each sender's newest message of each kind; "audited": the messages of the attacked
    # round and of the one before.
    rounds: Literal["last", "audited", "all"] = "all"
    # By the names in ``leakbench.record.knowledge``.
    knows: tuple[Annotated[str, AfterValidator(_known)], ...] = ()
    rung: Rung = "transcript"


class Grant:
    """All that a threat model grants of a source up to a round; nothing else is shown.

    What it returns are the source's own tensors: whoever shows them copies them.

    Args:
        threat: what was declared.
        source: the run, or messages in memory.
        round: the newest round that has happened for this attacker.
        control: of what would have been sent with nothing defended.
    """

    messages: Sequence[Message]  # in order; updates may be read off others (``Defense.tells``)

    def __init__(self, threat: ThreatModel, source: Source, round: int, *, control: bool) -> None:
        unknown = [k for k in threat.kinds if k not in KINDS]
        if unknown:
            raise UsageError(
                f"the threat model reads messages of kind {unknown[0]!r}, which does not exist."
                f" Known: {', '.join(KINDS)}."
            )
        self.threat, self.source, self.round = threat, source, round
        self._control = control  # no business of an attack
        self._past = self._passed(source.control if control else source.transcript)
        self.messages = self._chosen()

    def _chosen(self) -> Sequence[Message]:
        threat, source = self.threat, self.source
        granted = _of(self._past, threat.kinds)
        tells = source.method.tells if "update" in threat.kinds else ""
        chained: list[Message] | None = None
        if tells and covered(source.sent, tells):
            # Over all that passed: one whose attack reads two rounds has kept what it worked out.
            past = self._passed(source.transcript)
            sent = _of(past, threat.kinds), _of(past, (tells,))
            chained = self._of_its_rounds(gradients.read_chained(*sent, source))
        if chained is not None and not self._control:
            return chained
        seen = self._of_its_rounds(granted)
        if tells:
            told = self._of_its_rounds(_of(self._past, (tells,)))
            seen = gradients.read(seen, told, source)
        return seen if chained is None else _of_the_same(seen, chained)

    def _passed(self, crossed: Sequence[Message]) -> list[Message]:
        """What has crossed by now, to or from the observer."""
        return [m for m in crossed if m.round <= self.round and self._took_part(m)]

    def _took_part(self, m: Message) -> bool:
        """Did the observer send or receive it?"""
        who = self.threat.observer
        if m.receiver == "client/*" and who.startswith("client/"):
            return self._received(m, party(who))
        return who in (m.sender, m.receiver)

    def _received(self, m: Message, client: int) -> bool:
        if m.round == 0:
            return True
        rows = self.source.traffic.get(m.kind, torch.zeros(0, 3))
        return bool(((rows[:, 0] == m.round) & (rows[:, 2] == client)).any())

    def _of_its_rounds(self, seen: list[Message]) -> list[Message]:
        """Those of the rounds that the threat model reads."""
        if self.threat.rounds == "audited":
            return [m for m in seen if m.round in (0, self.round - 1, self.round)]
        if self.threat.rounds == "last":
            newest = self._newest_sent(self.threat.kinds)
            out = {}
            for m in seen:
                if m.probe is None and m.round == newest.get((m.kind, party(m.sender)), m.round):
                    out[m.kind, m.sender, m.receiver] = m  # of a round's phases the last one
            return list(out.values())
        return seen

    def _newest_sent(self, kinds: Sequence[str]) -> dict[tuple[str, int], int]:
        """{(kind, party): the newest round in which it sent one}.

        An older message that was kept is not its newest.
        """
        out: dict[tuple[str, int], int] = {}
        for kind in kinds:
            rows = self.source.traffic.get(kind, torch.zeros(0, 3))
            for t, sender, _ in rows[rows[:, 0] <= self.round].tolist():
                out[kind, sender] = max(t, out.get((kind, sender), t))
        return out

    def traffic(self, kind: str) -> Tensor:
        """(messages, 3) int32: what passed of a declared kind by now; a copy."""
        rows = passed(self.source.traffic, kind, self.threat.observer)
        return rows[rows[:, 0] <= self.round]

    def known(self, name: str) -> Any:
        """Of declared knowledge what the observer may be told.

        Raises:
            UsageError: there is none.
        """
        if name == "method":
            return self.sends_as
        if name == "facts":
            return self.source.facts
        known = self.source.known(name)
        if KNOWLEDGE[name].held == "updates":
            return {place: behind for place, behind in known.items() if self._told(*place)}
        return known

    def _told(self, sender: str, round: int, _phase: int, probe: int | None) -> bool:
        """May the observer be told what is behind this update?"""
        if round > self.round or sender not in self._senders:
            return False
        if self.threat.rounds == "audited":
            return round in (0, self.round - 1, self.round)
        if self.threat.rounds == "last":
            newest = self._newest_sent(("update",)).get(("update", party(sender)))
            return probe is None and round == newest
        return True

    @cached_property
    def _senders(self) -> set[str]:
        """The clients that the observer can be told of: itself, or those it receives from."""
        who, found = self.threat.observer, {m.sender for m in self._past}
        if who.startswith("client/"):
            return {who}
        for kind in self.source.traffic:
            rows = passed(self.source.traffic, kind, who)
            found |= {f"client/{i}" for i in rows[rows[:, 0] <= self.round][:, 1].tolist()}
        return found

    @property
    def last(self) -> int:
        """The run's last round."""
        return self.source.rounds

    @cached_property
    def trains_as(self) -> Defense:
        """The method whose loss made the updates, in the control too."""
        return copy.deepcopy(self.source.method)

    @cached_property
    def sends_as(self) -> Defense:
        """The method that made the messages."""
        return self.trains_as.undefended() if self._control else self.trains_as


def _of(past: Sequence[Message], kinds: Sequence[str]) -> list[Message]:
    return [m for m in past if m.kind in kinds]


def _of_the_same(control: Sequence[Message], seen: Sequence[Message]) -> list[Message]:
    """``control`` without the updates that the attack could not read, so that it picks the same."""
    there = {(m.round, m.sender, m.probe) for m in seen if m.kind == "update"}
    return [m for m in control if m.kind != "update" or (m.round, m.sender, m.probe) in there]
