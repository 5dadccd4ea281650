"""What an attack is given, and nothing else.

The transcript through the eyes of a declared observer, up to a round. What a view hands out are
copies, held against what they are copies of when the attack is done: one that writes in place
(``g /= g.norm()``) so spoils nothing for its floor, its control and its later stages, and is told.
Versions of tensors would be cheaper to compare, but neither a write through ``.data`` or numpy nor
``payload.pop(name)`` raises one. A copy is made when a payload is first read, and lasts as long as
the view: a transcript may be 2 GiB, of which an attack reads a part at a time.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from operator import is_
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from leakbench.attacking import gradients, handed_on
from leakbench.base.errors import MethodError, ThreatViolation, UsageError
from leakbench.base.lazy import torch
from leakbench.base.spec import Spec
from leakbench.base.tree import Tree, tmap
from leakbench.federation.defense import Defense
from leakbench.federation.parties import Facts
from leakbench.federation.task_data import Examples
from leakbench.federation.traffic import OBSERVER, members, observer_name, party
from leakbench.federation.trained_models import TrainedModels
from leakbench.record import candidates
from leakbench.record.knowledge import KNOWLEDGE, passed
from leakbench.record.knowledge import Source as Source
from leakbench.record.knowledge import covered as covered
from leakbench.record.messages import KINDS, Message

if TYPE_CHECKING:
    from torch import Tensor, nn

    from leakbench.federation.task_data import TaskData

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

    # "server+": a server that also chose what it sent (a wrapper on its downlinks).
    observer: Annotated[str, AfterValidator(observer_name)] = Field("server", pattern=OBSERVER)
    kinds: tuple[str, ...] = ("model", "update")
    # "last": each sender's newest message of each kind; "audited": the messages of the attacked
    # round and of the one before.
    rounds: Literal["last", "audited", "all"] = "all"
    # By the names in ``leakbench.record.knowledge``.
    knows: tuple[Annotated[str, AfterValidator(_known)], ...] = ()
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
        self._source, self._lent = recording, _Lent()
        self._control = control  # no business of an attack
        self._reached: set[tuple[Any, ...]] = set()  # the names of the messages handed out
        self._tell: Callable[[float], None] = lambda _: None
        # The clients that observe, and what they are told of others; both () where none do.
        self.observers = members(threat.observer)
        self._past = self._passed(recording.control if control else recording.transcript)
        self._hold(self._chosen())

    def _hold(self, seen: Sequence[Message]) -> None:
        self._seen = seen
        # By kind and round, and by kind over all rounds (None).
        self._places: dict[tuple[str, int | None], list[Message]] = {}
        for m in seen:
            for place in ((m.kind, m.round), (m.kind, None)):
                self._places.setdefault(place, []).append(m)

    def covers(self, kind: str) -> bool:
        """Does a wrapper change what clients send of ``kind``? That is no secret."""
        return not self._control and covered(self._source.sent, kind)

    def _chosen(self) -> Sequence[Message]:
        threat, source = self.threat, self._source
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
        granted = sorted([*granted, *self._handed_on()], key=lambda m: (m.round, m.phase))
        seen = self._of_its_rounds(granted)
        if tells:
            told = self._of_its_rounds(_of(self._past, (tells,)))
            seen = gradients.read_gradients(seen, told, source)
        return seen if chained is None else _of_the_same(seen, chained)

    def _handed_on(self) -> list[Message]:
        """What clients that observe are told of others, of the rounds until now; else nothing.

        In the control rows are those that would have been sent with nothing hidden; models are what
        they were.
        """
        if not self.observers:
            return []
        kinds, source = self.threat.kinds, self._source
        # A round is handed on in the next.
        seen = self._passed(source.transcript, upto=self.round + 1)
        found = handed_on.rows_of_others(seen, source.transcript, self.observers, self.round)
        if self._control:
            bare = {m.name: m for m in source.control}
            found = [bare.get(m.name, m) for m in found]
        if {"update", "sum"} & {*kinds}:
            found += handed_on.updates_of_others(seen, source, self.observers, self.round)
        return _of(found, kinds)

    def _passed(self, crossed: Sequence[Message], upto: int | None = None) -> list[Message]:
        """What has crossed by now, or in all rounds ``upto`` one, to or from the observer."""
        last = self.round if upto is None else upto
        past = [m for m in crossed if m.round <= last and self._took_part(m)]
        who = self._source.declared
        if who is None:
            return past
        first, last = (self.round, self.round) if who.rounds == "one" else (0, last)
        return [m for m in past if m.kind in who.kinds and first <= m.round <= last]

    def _took_part(self, m: Message) -> bool:
        """Did the observer, or one of its clients, send or receive it?"""
        if m.receiver == "client/*" and self.observers:
            return self._received(m)
        names = {f"client/{i}" for i in self.observers} or {self.threat.observer.removesuffix("+")}
        return bool(names & {m.sender, m.receiver})

    def _received(self, m: Message) -> bool:
        if m.round == 0:
            return True
        rows = self._source.traffic.get(m.kind, torch.zeros(0, 3))
        to = rows[rows[:, 0] == m.round][:, 2].tolist()
        return any(i in to for i in self.observers)

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
            rows = self._source.traffic.get(kind, torch.zeros(0, 3))
            for t, sender, _ in rows[rows[:, 0] <= self.round].tolist():
                out[kind, sender] = max(t, out.get((kind, sender), t))
        return out

    def same_as(self, other: View) -> bool:
        """Would an attack see the very same through ``other``?

        So it is with a control where nothing was defended.
        """
        method, mine, others = self._source.method, self._seen, other._seen
        same = len(mine) == len(others) and all(map(is_, mine, others))
        return same and method.undefended() == method

    def messages(
        self,
        kind: str,
        *,
        sender: str | None = None,
        to: str | None = None,
        round: int | None = None,
        phase: int | None = None,
        probe: bool = False,
        last_layer: bool = False,
    ) -> list[Message]:
        """Messages of one kind, oldest first; ``to`` a client: those that it received.

        Updates may have been read off other messages that tell them (``Defense.tells``). With
        ``probe`` the single-image updates instead of the real ones. With ``last_layer`` also
        the updates of which only the last layer's part was kept: in an audited round those of all
        its clients that were not audited.

        Raises:
            ThreatViolation: the kind is not declared.
        """
        self._declared(kind, "messages are")

        def wanted(m: Message) -> bool:
            return (
                (m.probe is not None) == probe
                and (last_layer or not m.part)
                and sender in (None, m.sender)
                and (to is None or m.receiver in (to, "client/*"))
                and phase in (None, m.phase)
            )

        found = [m for m in self._places.get((kind, round), []) if wanted(m)]
        self._reached |= {m.name for m in found}
        return [self._lent.message(m) for m in found]

    def of_others(self, messages: Sequence[Message]) -> list[Message]:
        """Those of ``messages`` that clients sent who do not observe."""
        names = {f"client/{i}" for i in self.others}
        return [m for m in messages if m.sender in names]

    def traffic(self, kind: str) -> Tensor:
        """(messages, 3) int32 round, sender, receiver of what the observer saw pass of this kind.

        Of all of it, kept or not.

        Raises:
            ThreatViolation: the kind is not declared.
        """
        self._declared(kind, "traffic is")
        rows = passed(self._source.traffic, kind, self.threat.observer)
        return rows[rows[:, 0] <= self.round]

    def _declared(self, kind: str, what: str) -> None:
        if kind not in self.threat.kinds:
            raise ThreatViolation(
                f"{kind!r} {what} not among the declared kinds {list(self.threat.kinds)};"
                " declare the kind in the threat model."
            )

    def know(self, name: str) -> Any:
        """Side knowledge, of a name in ``leakbench.record.knowledge``.

        ``labels`` {(sender, round, phase, probe): (B,)}, as all that is known of updates of clients
        whose messages the observer sees, and of rounds that the threat model grants; ``sizes``, how
        many labels these are; ``aux_data`` examples, ``method``, ``facts``; ``gallery``, all
        training images, each once, nameless and in an order that tells nothing (tasks with
        captions); ``attributes``, examples with the attribute of each.

        Raises:
            ThreatViolation: it is not declared.
        """
        if name not in self.threat.knows:
            raise ThreatViolation(
                f"{name!r} is not in the declared knowledge {list(self.threat.knows)}; declare it"
                " in the threat model."
            )
        return self._lent.known(name, self._known(name))

    def _known(self, name: str) -> Any:
        """Of declared knowledge what the observer may be told: not yet a copy."""
        if name == "method":
            return self._sends_as
        if name == "facts":
            return self._source.facts
        known = self._source.known(name)
        if name == "aux_data" and "candidates" in self.threat.knows:
            return candidates.without(known, self._source.known("candidates"))
        if KNOWLEDGE[name].held in ("updates", "counts"):
            return {place: behind for place, behind in known.items() if self._told(*place)}
        return known

    def _told(self, sender: str, round: int, _phase: int, probe: int | None) -> bool:
        """May the observer be told what is behind this update?"""
        if round > self.round or sender not in self._senders:
            return False
        who = self._source.declared
        if who is not None and who.rounds == "one" and round < self.round:
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
        if self.observers:
            return {f"client/{i}" for i in self.observers}
        for kind in self._source.traffic:
            rows = passed(self._source.traffic, kind, who)
            found |= {f"client/{i}" for i in rows[rows[:, 0] <= self.round][:, 1].tolist()}
        return found

    @property
    def others(self) -> list[int]:
        """The clients that do not observe: of whom a guess can be."""
        return [i for i in range(self._source.facts.clients) if i not in self.observers]

    def _exists(self, unit: str, probe: int | None = None) -> bool:
        """Is there a client of that name, and did it, as far as is seen, send this probe?"""
        names = {f"client/{i}" for i in self.others}
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
        return self.know("method")

    @property
    def facts(self) -> Facts:
        """Public facts of the task (knows "facts")."""
        return self.know("facts")

    @property
    def module(self) -> nn.Module:
        """The public architecture (knows "method"), without trained numbers."""
        self.know("method")
        return self._source.module()

    @property
    def recipe(self) -> str:
        """A digest of how the federation trained, of any data and dice (knows "method")."""
        self.know("method")
        return self._source.recipe

    def train(
        self, data: TaskData, seed: int, tell: Callable[[float], None] = lambda _: None
    ) -> TrainedModels:
        """What a federation like the attacked one makes of other data (knows "method").

        Of all its rounds. ``seed`` draws from a domain of its own, so that none of them is the
        run's. ``tell``: is told how much is done, in [0, 1].

        Raises:
            UsageError: how it trained is not known, or the data are none of the task.
        """
        self.know("method")
        watch = TrainedModels()
        # Of fused rounds there are no single updates.
        own = int.from_bytes(hashlib.sha256(f"shadow/{seed}".encode()).digest()[:7], "big")
        fed = self._source.federation(data, own, watch, "parallel")
        fed.begin()
        while fed.t < self.last:
            fed.step()
            tell(fed.t / self.last)
        return watch

    @property
    def modes(self) -> bool | Mapping[str, bool]:
        """In which mode the network is while a client trains (knows "method"), see ``Source``."""
        self.know("method")
        return self._source.modes

    @property
    def last(self) -> int:
        """The run's last round; what a method does after it is one round more."""
        return self._source.rounds

    @property
    def dtype(self) -> torch.dtype:
        """Of the messages' tensors."""
        return self._source.dtype

    @property
    def products(self) -> torch.dtype:
        """In which local training multiplied: gradients are as precise as that."""
        return self._source.products

    @property
    def device(self) -> str:
        """Where the messages' tensors lie."""
        return self._source.device

    def loss_method(self) -> Defense:
        """The method whose loss made the updates (knows "method").

        In the control too: only uplinks are undefended there.
        """
        self.know("method")
        return self._trains_as

    @cached_property
    def _trains_as(self) -> Defense:
        return copy.deepcopy(self._source.method)

    @cached_property
    def _sends_as(self) -> Defense:
        return self._trains_as.undefended() if self._control else self._trains_as


def _of(past: Sequence[Message], kinds: Sequence[str]) -> list[Message]:
    return [m for m in past if m.kind in kinds]


def _of_the_same(control: Sequence[Message], seen: Sequence[Message]) -> list[Message]:
    """``control`` without the updates that the attack could not read, so that it picks the same."""
    there = {(m.round, m.sender, m.probe) for m in seen if m.kind == "update"}
    return [m for m in control if m.kind != "update" or (m.round, m.sender, m.probe) in there]


class _Lent:
    """The copies that one view has handed out."""

    def __init__(self) -> None:
        self._tensors: list[tuple[str, Tree, Tree]] = []  # what it is, the copy, what is kept
        self._messages: dict[int, Message] = {}
        self._known: dict[str, Any] = {}

    def tensors(self, what: str, kept: Tree) -> Tree:
        """A copy of a tensor, or of a dict of them, of the attack's own."""
        own = tmap(torch.Tensor.clone, kept)
        self._tensors.append((what, own, kept))
        return own

    def message(self, kept: Message) -> Message:
        """The message with a payload of its own, the same one each time."""
        if id(kept) not in self._messages:
            what = f"the {kept.kind} of {kept.sender} in round {kept.round}"
            self._messages[id(kept)] = _LentMessage.of(kept, lambda p: self.tensors(what, p))
        return self._messages[id(kept)]

    def known(self, name: str, kept: Any) -> Any:
        """Knowledge of that name: of tensors the same copy each time.

        Of numbers a new one; facts, and a method that is the view's own, as they are.
        """
        if isinstance(kept, dict) and not all(map(torch.is_tensor, kept.values())):
            return dict(kept)
        if name not in self._known:
            self._known[name] = self._own(f"the {name}", kept)
        return self._known[name]

    def _own(self, what: str, kept: Any) -> Any:
        if isinstance(kept, Examples):
            return replace(Examples.of(self.tensors(what, kept.tree)), dtype=kept.dtype)
        return self.tensors(what, kept) if isinstance(kept, dict) else kept

    def check(self, who: str) -> None:
        """Nothing that was handed out has been written to.

        Raises:
            MethodError: naming the attack ``who`` and what it wrote into.
        """
        for what, own, kept in self._tensors:
            if not _same(own, kept):
                raise MethodError(
                    f"{who} wrote into {what}, which it was given; assign a new tensor instead"
                    " (g = g / g.norm(), not g /= g.norm())."
                )


class _LentMessage(Message):
    """A message whose payload is copied when it is first read."""

    _copied: Callable[[], Tree]

    @classmethod
    def of(cls, kept: Message, copied: Callable[[Tree], Tree]) -> Message:
        """``kept`` with ``copied`` of its payload."""
        made = object.__new__(cls)
        about = {k: v for k, v in vars(kept).items() if k != "payload"}
        vars(made).update(about, _copied=lambda: copied(kept.payload))
        return made

    def __getattr__(self, name: str) -> Any:
        if name != "payload":
            raise AttributeError(name)
        vars(self)["payload"] = payload = self._copied()
        return payload


def _same(own: Any, kept: Tree) -> bool:
    """Byte for byte: what is not finite is equal to itself, too."""
    if isinstance(kept, dict):
        if not isinstance(own, dict) or own.keys() != kept.keys():
            return False
        return all(_same(own[k], kept[k]) for k in kept)
    if not isinstance(own, torch.Tensor) or (own.shape, own.dtype) != (kept.shape, kept.dtype):
        return False
    own = own.detach().to(kept.device)
    return torch.equal(own, kept) or torch.equal(_bytes(own), _bytes(kept))


def _bytes(t: Tensor) -> Tensor:
    return t.contiguous().reshape(-1).view(torch.uint8)
