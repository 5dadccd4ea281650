"""Which attacks there are, in which settings, and which of them fit what a run shared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from leakbench.attacking.attack import Attack
from leakbench.attacking.outline import Outline
from leakbench.attacking.source import Source
from leakbench.base import registry
from leakbench.record.folders import Run
from leakbench.record.recording import Recording


@dataclass(frozen=True)
class ReadyAttack:
    """An attack by name, ready to run."""

    name: str
    attack: Attack

    def suited(self, source: Source) -> ReadyAttack:
        """The same, or with what its defaults fall to where nothing that they read was kept."""
        attack = self.attack
        other = attack.falls_to(Outline(source, attack.threat))
        if not other:
            return self
        chosen = {k: v for k, v in attack.parameters().items() if k in attack.model_fields_set}
        return build(self.name, {**chosen, **other})

    def obstacle(self, source: Source) -> str:
        """Why it does not fit what was shared; empty where it fits.

        Raises:
            UsageError: the method that sent it is not installed, or has no such parameters.
        """
        _ = source.method  # even where the attack asks for none of it
        return self.attack.obstacle(Outline(source, self.attack.threat))

    def seconds(self, source: Source) -> float:
        """Predicted time on two cores."""
        return self.attack.seconds(Outline(source, self.attack.threat))

    @property
    def title(self) -> str:
        """The name with what differs from the defaults."""
        fields = type(self.attack).model_fields
        values = self.attack.parameters().items()
        changed = [f"{k}={v}" for k, v in values if v != fields[k].get_default()]
        return f"{self.name}({', '.join(changed)})" if changed else self.name


def build(name: str, params: dict[str, Any]) -> ReadyAttack:
    """The attack ``name`` with ``params``."""
    attack: Attack = registry.load("attacks", name).build(params, f"attack {name}")
    return ReadyAttack(name, attack)


def variants(names: Sequence[str] | None = None) -> list[ReadyAttack]:
    """Every attack in the settings that are run where none is named."""
    if names is None:
        found = registry.every("attacks")
    else:
        found = {name: registry.load("attacks", name) for name in names}
    return [build(name, dict(v)) for name, attack in found.items() for v in attack.variants]


def planned(recording: Recording) -> list[ReadyAttack]:
    """The attacks that `leakbench attack` runs where none is named.

    These are the run's own list, or every one that fits.
    """
    own = recording.spec.attacks
    if own:
        return [build(a.name, a.params) for a in own]
    suited = [c.suited(recording) for c in variants()]
    return [c for c in suited if not c.obstacle(recording)]


def fitting(run: Run) -> list[str]:
    """Names of the attacks that fit what this run shared."""
    return Fits().fitting(run)


def unfit(run: Run) -> dict[str, str]:
    """{attack: why it does not fit}, of those that fit this run in none of their settings."""
    return Fits().unfit(run)


class Fits:
    """Which attacks fit what each of many runs shared.

    Attacks are looked up once; of the run that was asked about last it is known which fit.
    """

    def __init__(self) -> None:
        self._known = variants()
        self._last: tuple[Run, list[tuple[ReadyAttack, str]]] | None = None

    def fitting(self, run: Run) -> list[str]:
        """Names of the attacks that fit what ``run`` shared: of its own list, where it has one."""
        recording = Recording(run)
        own = recording.spec.attacks
        if own:
            made = [build(a.name, a.params) for a in own]
            return sorted({c.name for c in made if not c.obstacle(recording)})
        return sorted({c.name for c, why in self._asked(run) if not why})

    def unfit(self, run: Run) -> dict[str, str]:
        """{attack: why it does not fit}, of those that fit ``run`` in none of their settings."""
        reasons: dict[str, list[str]] = {}
        for c, why in self._asked(run):
            reasons.setdefault(c.name, []).append(why)
        return {name: found[0] for name, found in reasons.items() if all(found)}

    def _asked(self, run: Run) -> list[tuple[ReadyAttack, str]]:
        if self._last is None or self._last[0] is not run:
            recording = Recording(run)
            suited = [c.suited(recording) for c in self._known]
            self._last = run, [(c, c.obstacle(recording)) for c in suited]
        return self._last[1]
