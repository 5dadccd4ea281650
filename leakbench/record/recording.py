"""A run folder as an attacker may come to see it: never the truth, never the seed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakbench.base.errors import UnknownName, UsageError
from leakbench.base.shapes import check_shape
from leakbench.base.tree import Tree, flat, tmap
from leakbench.federation.defense import Defense
from leakbench.federation.network import built
from leakbench.federation.parties import Facts
from leakbench.federation.precision import kept_dtype, products
from leakbench.federation.task_data import Examples
from leakbench.record import private_data
from leakbench.record.folders import Run
from leakbench.record.knowledge import EXAMPLES, FILES, ROWS, DeclaredObserver, Source
from leakbench.record.messages import Message, overlaid, read_messages
from leakbench.record.origin import is_outside
from leakbench.record.parts import lost_parts
from leakbench.record.runspec import Parts, RunSpec, parts
from leakbench.record.shapes import RoundHeader

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@dataclass(frozen=True)
class Recording(Source):
    """What attacks are made from."""

    run: Run
    device: str = "cpu"  # where its tensors are put

    @cached_property
    def spec(self) -> RunSpec:
        """The run's spec with the seed blanked: knowing it would redraw the noise."""
        return RunSpec.build({**self.run.spec, "seed": 0}, f"{self.run.path}/run.json")

    @cached_property
    def parts(self) -> Parts:
        """Task, method and wrappers of the run."""
        try:
            return parts(self.spec)
        except UnknownName as error:
            words = []
            for file in self.run.plugin_files:
                words += ["--plugin", file] * Path(file).is_file()
            if words:
                error = error.of_file(shlex.join(words))
            raise error from None

    @property
    def method(self) -> Defense:
        """The defense with its parameters."""
        return self.parts.method

    @property
    def declared(self) -> DeclaredObserver | None:
        """Who is said to observe, as the owner of the record declared."""
        told = self.run.meta.get("declared")
        return DeclaredObserver.of(told) if told else None

    @property
    def dtype(self) -> torch.dtype:
        """Of the run's tensors."""
        return kept_dtype(self.spec.dtype)

    @property
    def products(self) -> torch.dtype:
        """Of what local training multiplied in."""
        return products(self.spec.dtype)

    @property
    def rounds(self) -> int:
        """Communication rounds."""
        return self.spec.rounds

    @property
    def sent(self) -> list[dict[str, Any]]:
        """Who sent what to whom, how often and how much."""
        return list(self.run.meta["sent"])

    @property
    def partial(self) -> bool:
        """Is it an excerpt, of the traffic too?"""
        return "excerpt" in self.run.meta

    @property
    def stages(self) -> dict[str, int]:
        """{stage: round} of the audited rounds."""
        return dict(self.run.meta["stages"])

    @property
    def audited(self) -> int:
        """Clients of an audited round whose updates were kept, at most."""
        return self.spec.record.audited

    @property
    def pooled(self) -> int:
        """Of how many rounds covered updates were kept for who adds them up."""
        return int(self.run.meta.get("pooled", 0))

    @cached_property
    def facts(self) -> Facts:
        """Public facts of the task."""
        return self.parts.task.facts(self.method)

    @cached_property
    def transcript(self) -> list[Message]:
        """What crossed, in order."""
        return self._moved(read_messages(self.run.path, self._rounds("transcript")))

    @property
    def exported(self) -> bool:
        """Was it made to be attacked by others, without answers and control?"""
        return "export" in self.run.meta

    @property
    def covered_alone(self) -> bool:
        """Was some of it covered, and nobody told what would have been sent uncovered?

        Then the attack itself stands for its control, which so says nothing.
        """
        return bool(self.run.meta.get("no_control"))

    @property
    def defended(self) -> bool:
        """Does what crossed differ from what would have crossed with nothing defended?"""
        defends = any(not w.active for w in self.parts.wrappers)
        return self.method.undefended() != self.method or defends

    @property
    def controlled(self) -> bool:
        """Can it be told what would have crossed with nothing defended?"""
        return not self.defended or not self.exported

    @cached_property
    def control(self) -> list[Message]:
        """What would have crossed with nothing defended.

        Raises:
            UsageError: the run was exported without it.
        """
        if not self.controlled:
            raise UsageError(
                f"{self.run.path} was exported without what would have been sent with nothing"
                " defended."
            )
        bare = read_messages(self.run.path, self._rounds("control"))
        return overlaid(self.transcript, self._moved(bare))

    @cached_property
    def traffic(self) -> dict[str, Tensor]:
        """{kind: (messages, 3) round, sender, receiver} of every round, kept or not."""
        return flat(self.run.tree("transcript/rounds.safetensors")[0])

    @property
    def trainable(self) -> bool:
        """Not where somebody's own loop did it, of which the local training alone is declared."""
        return not is_outside(self.run.meta)

    def module(self) -> torch.nn.Module:
        """The public architecture; its numbers are not the run's."""
        module = built(self.parts.task, self.method, self.facts)
        return module.to(self.device, self.dtype).eval()

    def _has(self, held: str) -> bool:
        if held == "gallery":
            return not self.exported and self.facts.targets == "tokens"
        if held == "updates" or (held == "counts" and not self.exported):
            return not self.exported
        if held == "counts":
            return any(name.startswith(FILES[held]) for name in self.run.meta["files"])
        return FILES.get(held) in self.run.meta["files"]

    def _held(self, held: str) -> Any:
        if not held or not self._has(held):
            return None
        if held == "gallery":
            return self._gallery
        return self._examples[held] if held in EXAMPLES else self._updates

    def _without(self, name: str) -> str:
        there = ", ".join(row.name for row in ROWS if row.held and self._has(row.held))
        return f"{self.run.path} holds no knowledge called {name!r}; it has {there or 'none'}."

    def lacks(self, kinds: Sequence[str], knows: Sequence[str]) -> str:
        """Why an export or an excerpt no longer has what an attack reads; empty where it has.

        Raises:
            BrokenFile: a file of messages is missing or damaged.
        """
        return lost_parts(self.run, kinds, knows)

    @cached_property
    def _examples(self) -> dict[str, Examples]:
        there = [held for held in EXAMPLES if self._has(held)]
        read = {held: Examples.of(self.run.tree(FILES[held])[0]) for held in there}
        return {held: some.to(self.device, self.dtype) for held, some in read.items()}

    @cached_property
    def _gallery(self) -> Examples:
        held = private_data.gallery(self.spec.task.name, self.spec.task.params)
        return held.to(self.device, self.dtype)

    @cached_property
    def _updates(self) -> dict[tuple[str, int, int, int | None], dict[str, Tensor]]:
        """{(sender, round, phase, probe): {"y": labels (B,)}} behind the audited updates.

        {"n": ()} of those of which somebody told no more than how many there are.
        """
        out: dict[tuple[str, int, int, int | None], dict[str, Tensor]] = {}
        for name in self._rounds("known"):
            tree, meta = self.run.tree(name)
            check_shape(RoundHeader, meta, self.run.path / name)
            for i, phases in tree["client"].items():
                for phase, entry in phases.items():
                    place = (f"client/{i}", meta["round"], int(phase))
                    told = {k: entry[k].to(self.device) for k in ("y", "n") if k in entry}
                    if told:
                        out[*place, None] = told
                    for p, probe in entry.get("probe", {}).items():
                        out[*place, int(p)] = {"y": probe["y"].to(self.device)}
        return out

    def _rounds(self, room: str) -> list[str]:
        """The round files of transcript, control or known: those that are listed, unchanged."""
        names = [n for n in self.run.within(room) if n.startswith(f"{room}/round-")]
        if names:
            self.run.check(*names)
        return names

    def _moved(self, messages: list[Message]) -> list[Message]:
        def put(payload: Tree) -> Tree:
            return tmap(lambda t: t.to(self.device), payload)

        return [replace(m, payload=put(m.payload)) for m in messages]
