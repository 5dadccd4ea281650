"""What a view grants, as a folder of files: the messages it shows, what is known, and no more.

An attack that runs in a process of its own (``isolated``) is given such a folder in a run's place.
It does not say whether the messages are those that were sent or those of the control.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from leakbench.attacking.view import ThreatModel, View
from leakbench.base import registry
from leakbench.base.errors import UsageError
from leakbench.base.files import read_json, read_tree, write_json, write_tree
from leakbench.base.tree import flat, tmap
from leakbench.data.log_mel import LogMel
from leakbench.federation.defense import Defense
from leakbench.federation.input_range import InputRange
from leakbench.federation.network import built
from leakbench.federation.parties import Facts
from leakbench.federation.precision import kept, products
from leakbench.federation.task_data import Examples
from leakbench.record.messages import Message, read_messages, write_messages
from leakbench.record.runspec import RunSpec

MESSAGES = "messages.safetensors"  # of all rounds


def write(view: View, spec: RunSpec, folder: Path) -> None:
    """Everything that ``view`` grants, and nothing else; ``spec``: of the run, for the names."""
    knows = view.threat.knows
    write_messages(folder / MESSAGES, view._seen)
    seen = {kind: view.traffic(kind) for kind in view.threat.kinds}
    write_tree(folder / "traffic.safetensors", seen, {})
    about: dict[str, Any] = {
        "threat": view.threat.parameters(),
        "round": view.round,
        "last": view.last,
        "dtype": str(view.products).removeprefix("torch."),
        "facts": asdict(view._recording.facts),
    }
    if "method" in knows:
        about["task"] = {"name": spec.task.name, "params": spec.task.params}
        about["defense"] = spec.defense.name
        about["trains_as"] = view._trains_as.parameters()
        about["sends_as"] = view._sends_as.parameters()
    if "labels" in knows:
        labels = view.know("labels")
        tensors = {str(i): y for i, y in enumerate(labels.values())}
        write_tree(folder / "labels.safetensors", tensors, {"of": [list(k) for k in labels]})
    if "sizes" in knows:
        about["sizes"] = [[*k, n] for k, n in view.know("sizes").items()]
    for name in [n for n in ("aux_data", "gallery") if n in knows]:
        write_tree(folder / f"{name}.safetensors", view.know(name).tree, {})
    write_json(folder / "about.json", about)


@dataclass(frozen=True)
class Handout:
    """Such a folder, read again: the source of a view."""

    folder: Path
    device: str = "cpu"
    partial: bool = False

    @cached_property
    def about(self) -> dict[str, Any]:
        """Threat model, round, facts, and the method where it is granted."""
        return dict(read_json(self.folder / "about.json"))

    @property
    def dtype(self) -> torch.dtype:
        """Of its floating-point tensors."""
        return kept(self.about["dtype"])

    @property
    def products(self) -> torch.dtype:
        """Of what local training multiplied in."""
        return products(self.about["dtype"])

    @property
    def rounds(self) -> int:
        """The attacked one is the last that it knows of."""
        return int(self.about["round"])

    @property
    def stages(self) -> dict[str, int]:
        """There is one only."""
        return {"final": self.rounds}

    @property
    def audited(self) -> int:
        """As many as there are clients, at most."""
        return self.facts.clients

    @property
    def method(self) -> Defense:
        """The method whose loss made the updates."""
        return self._defense("trains_as")

    @property
    def sends_as(self) -> Defense:
        """The method that made the messages."""
        return self._defense("sends_as")

    def _defense(self, how: str) -> Defense:
        name = self.about["defense"]
        made: Defense = registry.load("defenses", name).build(self.about[how], f"defense {name}")
        return made

    @cached_property
    def facts(self) -> Facts:
        """Public facts of the task."""
        facts = self.about["facts"]
        sound = facts["sound"] and LogMel(**facts["sound"])
        low, high = (tuple(facts["input_range"][end]) for end in ("low", "high"))
        lies = InputRange.of(InputRange(low, high), facts["shape"])
        told = {**facts, "shape": tuple(facts["shape"]), "sound": sound, "input_range": lies}
        return Facts(**told)

    @property
    def sent(self) -> Sequence[Mapping[str, Any]]:
        """Nothing beyond the traffic is told."""
        return ()

    @cached_property
    def transcript(self) -> list[Message]:
        """The messages that are granted, in order."""
        found = []
        for m in read_messages(self.folder, [MESSAGES]):
            payload = tmap(lambda t: t.to(self.device), m.payload)
            found.append(replace(m, payload=payload))
        return found

    @property
    def control(self) -> list[Message]:
        """There is none beside.

        Raises:
            UsageError: always.
        """
        raise UsageError("a handout holds one set of messages, and does not say which.")

    @cached_property
    def traffic(self) -> dict[str, Tensor]:
        """What the observer saw pass of the declared kinds."""
        return flat(read_tree(self.folder / "traffic.safetensors")[0])

    @property
    def modes(self) -> bool:
        """Clients train in training mode."""
        return True

    def module(self) -> nn.Module:
        """The public architecture; its numbers say nothing."""
        name, params = self.about["task"]["name"], self.about["task"]["params"]
        task = registry.load("tasks", name).build(params, f"task {name}")
        made = built(task, self.method, self.facts)
        return made.to(self.device, self.dtype).eval()

    def known(self, name: str) -> Any:
        """``labels``, ``sizes``, ``aux_data`` or ``gallery``, where granted.

        Raises:
            BrokenFile: it is not.
        """
        if name == "sizes":
            return {tuple(k): n for *k, n in self.about.get("sizes", ())}
        tree, meta = read_tree(self.folder / f"{name}.safetensors")
        if name == "labels":
            return {tuple(k): tree[str(i)].to(self.device) for i, k in enumerate(meta["of"])}
        return Examples.of(tree).to(self.device, self.dtype)

    def holds(self, name: str) -> bool:
        """Is it there?"""
        if name == "sizes":
            return name in self.about
        return (self.folder / f"{name}.safetensors").is_file()

    def lacks(self, kinds: Sequence[str], knows: Sequence[str]) -> str:
        """Nothing that was granted."""
        return ""


class HandedView(View):
    """A view of a handout: what is in it was granted already."""

    _recording: Handout

    @classmethod
    def of(cls, handout: Handout) -> HandedView:
        """The view that was written."""
        threat = ThreatModel.build(handout.about["threat"], "the threat model")
        return cls(threat, handout, handout.rounds)

    @property
    def last(self) -> int:
        """The run's last round."""
        return int(self._recording.about["last"])

    def _took_part(self, m: Message) -> bool:
        return True

    def _granted(self, seen: list[Message]) -> list[Message]:
        return seen

    def _labelled(self, sender: str, round: int, _phase: int, probe: int | None) -> bool:
        return True

    @cached_property
    def _sends_as(self) -> Defense:
        return self._recording.sends_as
