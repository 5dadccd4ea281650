"""What is publicly known of a run before it is attacked: all that an attack's hooks are given."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leakbench.base.lazy import torch
from leakbench.federation.defense import Defense
from leakbench.federation.network import reaches, thrower
from leakbench.federation.parties import Facts
from leakbench.federation.traffic import members, party
from leakbench.record.knowledge import Knowledge, Source, chosen, passed, recurring

if TYPE_CHECKING:
    from torch import Tensor, nn

    from leakbench.attacking.view import ThreatModel


def undeclared(source: Source, threat: ThreatModel) -> str:
    """Why who is declared to observe ``source`` does not attack so; empty where it may."""
    if source.declared is None:
        return ""
    there = {line["kind"] for line in source.sent}
    kinds = [kind for kind in threat.kinds if kind in there]
    return source.declared.lacks(threat.observer.removesuffix("+"), kinds, threat.knows)


@dataclass(frozen=True)
class Outline:
    """What ``obstacle``, ``attacks``, ``stages_of`` and ``seconds`` of an attack can ask.

    No message, no control, no label, no seed and no path: only what fits and how long it takes can
    be told from it (and where labels are granted, whose are always the same). Everything it returns
    is the asker's own to change. The network and its inputs lie on the processor, wherever the
    messages do: a GPU would tell the same.
    """

    _source: Source
    _threat: ThreatModel

    @property
    def rounds(self) -> int:
        """The last round."""
        return self._source.rounds

    @property
    def stages(self) -> dict[str, int]:
        """{stage: round} of the rounds that can be attacked."""
        return dict(self._source.stages)

    @property
    def observers(self) -> tuple[int, ...]:
        """The clients that observe; () where none do."""
        return members(self._threat.observer)

    @property
    def audited(self) -> int:
        """Clients of an audited round whose updates were kept, at most."""
        return self._source.audited

    @property
    def pooled(self) -> int:
        """Of how many rounds covered updates were kept for who adds them up."""
        return self._source.pooled

    @property
    def method(self) -> Defense:
        """The defense with its public parameters."""
        return copy.deepcopy(self._source.method)

    @property
    def facts(self) -> Facts:
        """Public facts of the task."""
        return self._source.facts

    @property
    def sent(self) -> list[dict[str, Any]]:
        """Who sent what to whom: kind, sender, receiver, rounds, messages, bytes."""
        return [dict(line) for line in self._source.sent]

    @property
    def updates(self) -> int:
        """How many whole updates of clients were kept, without probes."""
        kept = (m for m in self._source.transcript if m.kind == "update" and not m.part)
        return sum(m.probe is None for m in kept)

    @property
    def trainable(self) -> bool:
        """Is it known how the whole federation trained, so that others like it can be?"""
        return self._source.trainable

    @property
    def partial(self) -> bool:
        """Is less there than was sent, even of the traffic?"""
        return self._source.partial

    @property
    def auxiliary(self) -> int:
        """How many auxiliary examples there are; 0 where the attack is granted none."""
        granted = "aux_data" in self._threat.knows and self.holds("aux_data")
        return len(self._source.known("aux_data")) if granted else 0

    @property
    def shown(self) -> int:
        """How many of the task's classes have auxiliary examples; 0 where none are granted."""
        if not self.auxiliary:
            return 0
        y = self._source.known("aux_data").y
        return int((y[y < self.facts.classes].bincount() > 0).sum())

    @property
    def probes(self) -> bool:
        """Were single-image updates kept? Where labels and sizes are unknown, nobody can tell."""
        counted = self._counted
        if counted is None or not self._source.holds(counted.name):
            return True
        return any(probe is not None for *_, probe in self._source.known(counted.name))

    @property
    def behind(self) -> list[tuple[int, int, int]]:
        """(round, phase, examples) of every kept update that is no probe.

        Of one example or more, from round 1 to the last; empty where neither labels nor sizes are
        granted.
        """
        counted, who, out = self._counted, self.observers, []
        if counted is None or counted.examples is None:
            return []
        for (sender, t, phase, probe), behind in self._source.known(counted.name).items():
            its_own = not who or party(sender) in who
            if its_own and probe is None and 0 < t <= self.rounds:
                out.append((t, phase, counted.examples(behind)))
        return out

    @property
    def recurring(self) -> list[tuple[int, int, int]]:
        """Those of ``behind`` whose labels say that their sender trained on the same examples.

        In all of its kept updates; empty where labels are not granted.
        """
        if "labels" not in self._threat.knows or not self._source.holds("labels"):
            return []
        known, who = self._source.known("labels"), self.observers
        same = recurring(known)
        out = []
        for (sender, t, phase, probe), y in known.items():
            its_own = not who or party(sender) in who
            if its_own and probe is None and (sender, phase) in same and 0 < t <= self.rounds:
                out.append((t, phase, len(y)))
        return out

    @property
    def _counted(self) -> Knowledge | None:
        """What is granted that tells how many examples are behind an update: labels, or sizes."""
        found = [row for row in chosen(self._threat.knows) if row.examples is not None]
        return found[-1] if found else None

    def traffic(self, kind: str) -> Tensor:
        """(messages, 3) int32 round, sender, receiver of what the observer sees pass of a kind.

        Of all rounds; empty where the threat model does not declare the kind.
        """
        wanted = kind if kind in self._threat.kinds else ""
        return passed(self._source.traffic, wanted, self._threat.observer)

    def blank(self) -> Tensor:
        """An input of zeros, (1, ...), as the network takes it: to count what a pass costs."""
        return torch.zeros(1, *self.facts.shape, dtype=self._source.dtype)

    def module(self) -> nn.Module:
        """The public architecture, one's own to change; its numbers say nothing."""
        return self._source.module().to("cpu")

    def thrower(self) -> str | None:
        """The layer that throws dice (dropout) while a client trains; None if none does.

        Or that remembers something in a plain attribute. "" is the network itself. How dice fell,
        or what is remembered, no message tells.
        """
        return thrower(self.module(), self._some(), self._source.modes)

    def unreached(self) -> str:
        """Why nothing can be solved for through the network; empty where a gradient passes."""
        if reaches(self.module(), self._some()):
            return ""
        return (
            "no gradient passes from what the network gives to its inputs (it looks them up, as"
            " nn.Embedding does, or detaches features), so they cannot be solved for"
        )

    def _some(self) -> Tensor:
        """Two inputs, thrown; they are the same at every call."""
        x = torch.rand(2, *self.facts.shape, generator=torch.Generator().manual_seed(0))
        return x.to(self.blank())

    def holds(self, name: str) -> bool:
        """Is there knowledge of that name?"""
        return self._source.holds(name)

    def lacks(self, kinds: Sequence[str], knows: Sequence[str]) -> str:
        """Why what an attack reads is not all there, though it was sent; empty where it is."""
        return self._source.lacks(kinds, knows)
