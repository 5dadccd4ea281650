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


def planned(recording: Recording, known: Sequence[ReadyAttack] | None = None) -> list[ReadyAttack]:
    """The attacks that `leakbench attack` runs where none is named.

    These are the run's own list, or every one that fits. ``known``: all ``variants``, for who asks
    about many runs.
    """
    own = recording.spec.attacks
    if own:
        return [build(a.name, a.params) for a in own]
    return [c for c in known or variants() if not c.obstacle(recording)]


def fitting(run: Run, known: Sequence[ReadyAttack] | None = None) -> list[str]:
    """Names of the attacks that fit what this run shared; ``known``: all ``variants``."""
    recording = Recording(run)
    return sorted({c.name for c in planned(recording, known) if not c.obstacle(recording)})


def unfit(run: Run, known: Sequence[ReadyAttack] | None = None) -> dict[str, str]:
    """{attack: why it does not fit}, of those that fit this run in none of their settings.

    ``known``: all ``variants``.
    """
    recording = Recording(run)
    why: dict[str, list[str]] = {}
    for c in known or variants():
        why.setdefault(c.name, []).append(c.obstacle(recording))
    return {name: reasons[0] for name, reasons in why.items() if all(reasons)}
