"""What an attack is given, and nothing else.

The transcript through the eyes of a declared observer, up to a round.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from leakbench.attacking import gradients
from leakbench.attacking.loan import Lent
from leakbench.attacking.source import Source, covered, passed
from leakbench.base.errors import ThreatViolation, UsageError
from leakbench.base.lazy import torch
from leakbench.base.spec import Spec
from leakbench.federation.defense import Defense
from leakbench.federation.parties import Facts
from leakbench.federation.traffic import party
from leakbench.record.messages import KINDS, Message

if TYPE_CHECKING:
    from torch import Tensor, nn

Rung = Literal["paper", "transcript", "method", "public"]
Knowledge = Literal[
    "method",
    "facts",
    "sizes",
    "labels",
    "aux_data",
    "true_prototypes",
    "norm_statistics",
    "gallery",
]


class ThreatModel(Spec):
    """Who the attacker is, what it reads, what it already knows.

    Declared by an attack, enforced by ``View``, printed with every number.
    """

    observer: str = Field("server", pattern=r"^(server|aggregator|outsider|client/\d+)$")
    kinds: tuple[str, ...] = ("model", "update")
    # "last": each sender's newest message of each kind; "audited": the messages of the attacked
    # round and of the one before.
    rounds: Literal["last", "audited", "all"] = "all"
    knows: tuple[Knowledge, ...] = ()
    rung: Rung = "transcript"


class View:
    """The only thing an attack is given.

    Everything undeclared raises ``ThreatViolation`` and names itself. Whatever it hands out is a
    copy, not to be written to: an attack that did is refused when it is done.

    Args:
        threat: what was declared.
        recording: the run, or messages in memory.
        round: the newest round that has happened for this attacker.
        control: look at what would have been sent with nothing defended.
    """

    def __init__(
        self, threat: ThreatModel, recording: Source, round: int, *, control: bool = False
    ) -> None:
        unknown = [k for k in threat.kinds if k not in KINDS]
        if unknown:
            raise UsageError(
                f"the threat model reads messages of kind {unknown[0]!r}, which does not exist."
                f" Known: {', '.join(KINDS)}."
            )
        self.threat, self.round = threat, round
        self._recording, self._lent = recording, Lent()
        self._control = control  # no business of an attack
        self._reached: set[tuple[Any, ...]] = set()  # the names of the messages handed out
        self._tell: Callable[[float], None] = lambda _: None
        crossed = recording.control if control else recording.transcript
        self._past = self._passed(crossed)
        granted = self._read(self._past, threat.kinds)
        tells = recording.method.tells if "update" in threat.kinds else ""
        chained: list[Message] | None = None
        if tells and covered(recording.sent, tells):
            # Over all that passed: one whose attack reads two rounds has kept what it worked out.
            past = self._passed(recording.transcript)
            sent = self._read(past, threat.kinds), self._read(past, (tells,))
            chained = self._granted(gradients.read_chained(*sent, recording))
        if chained is not None and not control:
            self._seen = chained
            return
        self._seen = self._granted(granted)
        if tells:
            told = self._granted(self._read(self._past, (tells,)))
            self._seen = gradients.read(self._seen, told, recording)
        if chained is not None:
            self._seen = _of_the_same(self._seen, chained)

    def _passed(self, crossed: Sequence[Message]) -> list[Message]:
        """What has crossed by now, to or from the observer."""
        return [m for m in crossed if m.round <= self.round and self._took_part(m)]

    def _read(self, past: Sequence[Message], kinds: Sequence[str]) -> list[Message]:
        return [m for m in past if m.kind in kinds]

    def _took_part(self, m: Message) -> bool:
        """Did the observer send or receive it?"""
        who = self.threat.observer
        if m.receiver == "client/*" and who.startswith("client/"):
            return self._received(m, party(who))
        return who in (m.sender, m.receiver)

    def _received(self, m: Message, client: int) -> bool:
        if m.round == 0:
            return True
        rows = self._recording.traffic.get(m.kind, torch.zeros(0, 3))
        return bool(((rows[:, 0] == m.round) & (rows[:, 2] == client)).any())

    def _granted(self, seen: list[Message]) -> list[Message]:
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
            rows = self._recording.traffic.get(kind, torch.zeros(0, 3))
            for t, sender, _ in rows[rows[:, 0] <= self.round].tolist():
                out[kind, sender] = max(t, out.get((kind, sender), t))
        return out

    def same_as(self, other: View) -> bool:
        """Would an attack see the very same through ``other``?

        So it is with a control where nothing was defended.
        """
        undefended = self._recording.method.undefended() == self._recording.method
        return (
            undefended
            and len(self._seen) == len(other._seen)
            and all(a is b for a, b in zip(self._seen, other._seen, strict=True))
        )

    def messages(
        self,
        kind: str,
        *,
        sender: str | None = None,
        round: int | None = None,
        phase: int | None = None,
        probe: bool = False,
        last_layer: bool = False,
    ) -> list[Message]:
        """Messages of one kind, oldest first.

        Updates may have been read off other messages that tell them (``Defense.tells``). With
        ``probe`` the single-image updates instead of the real ones. With ``last_layer`` also
        the updates of which only the last layer's part was kept: in an audited round those of all
        its clients that were not audited.

        Raises:
            ThreatViolation: the kind is not declared.
        """
        if kind not in self.threat.kinds:
            raise ThreatViolation(
                f"{kind!r} messages are not among the declared kinds {list(self.threat.kinds)};"
                " declare the kind in the threat model."
            )

        def wanted(m: Message) -> bool:
            return (
                m.kind == kind
                and (m.probe is not None) == probe
                and (last_layer or not m.part)
                and sender in (None, m.sender)
                and round in (None, m.round)
                and phase in (None, m.phase)
            )

        found = [m for m in self._seen if wanted(m)]
        self._reached |= {m.name for m in found}
        return [self._lent.message(m) for m in found]

    def traffic(self, kind: str) -> Tensor:
        """(messages, 3) int32 round, sender, receiver of what the observer saw pass of this kind.

        Of all of it, kept or not.

        Raises:
            ThreatViolation: the kind is not declared.
        """
        if kind not in self.threat.kinds:
            raise ThreatViolation(
                f"{kind!r} traffic is not among the declared kinds {list(self.threat.kinds)};"
                " declare the kind in the threat model."
            )
        rows = passed(self._recording.traffic, kind, self.threat.observer)
        return rows[rows[:, 0] <= self.round]

    def know(self, name: Knowledge) -> Any:
        """Side knowledge.

        ``labels`` {(sender, round, phase, probe): (B,)} of clients whose messages the observer
        sees, and of rounds that the threat model grants; ``sizes`` of the same updates, how many
        labels these are; ``aux_data`` examples, ``method``, ``facts``; ``gallery``, all training
        images, each once, nameless and in an order that tells nothing (tasks with captions).

        Raises:
            ThreatViolation: it is not declared.
        """
        if name not in self.threat.knows:
            raise ThreatViolation(
                f"{name!r} is not in the declared knowledge {list(self.threat.knows)}; declare it"
                " in the threat model."
            )
        if name == "method":
            return self._sends_as
        if name == "facts":
            return self._recording.facts
        known = self._recording.known(name)
        if name == "aux_data":
            return self._lent.examples(known)
        if name == "gallery":
            return self._lent.examples(known, "the gallery")
        if name == "sizes":
            return {k: n for k, n in known.items() if self._labelled(*k)}
        return self._lent.labels({k: y for k, y in known.items() if self._labelled(*k)})

    def _labelled(self, sender: str, round: int, _phase: int, probe: int | None) -> bool:
        """May the observer be told the labels behind this update?"""
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
        for kind in self._recording.traffic:
            rows = passed(self._recording.traffic, kind, who)
            found |= {f"client/{i}" for i in rows[rows[:, 0] <= self.round][:, 1].tolist()}
        return found

    def _exists(self, unit: str, probe: int | None = None) -> bool:
        """Is there a client of that name, and did it, as far as is seen, send this probe?"""
        names = {f"client/{i}" for i in range(self._recording.facts.clients)}
        if probe is None:
            return unit in names
        return (unit, self.round, probe) in {(m.sender, m.round, m.probe) for m in self._seen}

    def progress(self, share: float) -> None:
        """Say how much of the attack is done, in [0, 1]; a bar may move by it."""
        self._tell(min(max(share, 0.0), 1.0))

    def _unwritten(self, who: str) -> None:
        """Nothing that was handed out has been written to.

        Raises:
            MethodError: naming the attack ``who`` and what it wrote into.
        """
        self._lent.check(who)

    @property
    def method(self) -> Defense:
        """The defense with its public parameters (knows "method")."""
        method: Defense = self.know("method")
        return method

    @property
    def facts(self) -> Facts:
        """Public facts of the task (knows "facts")."""
        facts: Facts = self.know("facts")
        return facts

    @property
    def module(self) -> nn.Module:
        """The public architecture (knows "method"), without trained numbers."""
        self.know("method")
        return self._recording.module()

    @property
    def modes(self) -> bool | Mapping[str, bool]:
        """In which mode the network is while a client trains (knows "method"), see ``Source``."""
        self.know("method")
        return self._recording.modes

    @property
    def last(self) -> int:
        """The run's last round; what a method does after it is one round more."""
        return self._recording.rounds

    @property
    def dtype(self) -> torch.dtype:
        """Of the messages' tensors."""
        return self._recording.dtype

    @property
    def products(self) -> torch.dtype:
        """In which local training multiplied: gradients are as precise as that."""
        return self._recording.products

    @property
    def device(self) -> str:
        """Where the messages' tensors lie."""
        return self._recording.device

    def loss_method(self) -> Defense:
        """The method whose loss made the updates (knows "method").

        In the control too: only uplinks are undefended there.
        """
        self.know("method")
        return self._trains_as

    @cached_property
    def _trains_as(self) -> Defense:
        return copy.deepcopy(self._recording.method)

    @cached_property
    def _sends_as(self) -> Defense:
        return self._trains_as.undefended() if self._control else self._trains_as


def _of_the_same(control: Sequence[Message], seen: Sequence[Message]) -> list[Message]:
    """``control`` without the updates that the attack could not read, so that it picks the same."""
    there = {(m.round, m.sender, m.probe) for m in seen if m.kind == "update"}
    return [m for m in control if m.kind != "update" or (m.round, m.sender, m.probe) in there]
