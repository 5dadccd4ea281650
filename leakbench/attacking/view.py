"""What an attack is given, and nothing else.

The transcript through the eyes of a declared observer, up to a round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Self

from leakbench.attacking.grant import Grant, ThreatModel
from leakbench.attacking.loan import Lent
from leakbench.base.errors import ThreatViolation
from leakbench.federation.defense import Defense
from leakbench.federation.parties import Facts
from leakbench.record.messages import Message
from leakbench.record.source import Source

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn


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
        self._show(Grant(threat, recording, round, control=control))

    @classmethod
    def _granted(cls, grant: Grant) -> Self:
        """The view of what was granted elsewhere."""
        made = cls.__new__(cls)
        made._show(grant)
        return made

    def _show(self, grant: Grant) -> None:
        self.threat, self.round = grant.threat, grant.round
        self._grant, self._lent = grant, Lent()
        self._reached: set[tuple[Any, ...]] = set()  # the names of the messages handed out
        self._tell: Callable[[float], None] = lambda _: None

    def same_as(self, other: View) -> bool:
        """Would an attack see the very same through ``other``?

        So it is with a control where nothing was defended.
        """
        method = self._grant.source.method
        mine, others = self._grant.messages, other._grant.messages
        return (
            method.undefended() == method
            and len(mine) == len(others)
            and all(a is b for a, b in zip(mine, others, strict=True))
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

        found = [m for m in self._grant.messages if wanted(m)]
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
        return self._grant.traffic(kind)

    def know(self, name: str) -> Any:
        """Side knowledge, of a name in ``leakbench.record.knowledge``.

        ``labels`` {(sender, round, phase, probe): (B,)}, as all that is known of updates of clients
        whose messages the observer sees, and of rounds that the threat model grants; ``sizes``, how
        many labels these are; ``aux_data`` examples, ``method``, ``facts``; ``gallery``, all
        training images, each once, nameless and in an order that tells nothing (tasks with
        captions).

        Raises:
            ThreatViolation: it is not declared.
        """
        if name not in self.threat.knows:
            raise ThreatViolation(
                f"{name!r} is not in the declared knowledge {list(self.threat.knows)}; declare it"
                " in the threat model."
            )
        return self._lent.known(name, self._grant.known(name))

    def _exists(self, unit: str, probe: int | None = None) -> bool:
        """Is there a client of that name, and did it, as far as is seen, send this probe?"""
        names = {f"client/{i}" for i in range(self._grant.source.facts.clients)}
        if probe is None:
            return unit in names
        return (unit, self.round, probe) in {
            (m.sender, m.round, m.probe) for m in self._grant.messages
        }

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
        return self._grant.source.module()

    @property
    def modes(self) -> bool | Mapping[str, bool]:
        """In which mode the network is while a client trains (knows "method"), see ``Source``."""
        self.know("method")
        return self._grant.source.modes

    @property
    def last(self) -> int:
        """The run's last round; what a method does after it is one round more."""
        return self._grant.last

    @property
    def dtype(self) -> torch.dtype:
        """Of the messages' tensors."""
        return self._grant.source.dtype

    @property
    def products(self) -> torch.dtype:
        """In which local training multiplied: gradients are as precise as that."""
        return self._grant.source.products

    @property
    def device(self) -> str:
        """Where the messages' tensors lie."""
        return self._grant.source.device

    def loss_method(self) -> Defense:
        """The method whose loss made the updates (knows "method").

        In the control too: only uplinks are undefended there.
        """
        self.know("method")
        return self._grant.trains_as
