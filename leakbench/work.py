"""The units of work that the commands share: train a spec, attack a run; and which attacks fit a run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakbench import attacking, provenance, registry, runs, scoring
from leakbench.attacker import Attack
from leakbench.errors import BrokenFile, LeakbenchError, MethodError, UsageError
from leakbench.jobs import Progress
from leakbench.recording import Recording
from leakbench.runspec import RunSpec
from leakbench.store import read_json
from leakbench.training import Trained
from leakbench.training import train as _train

LONGEST = 600.0  # seconds; an attack predicted to take longer runs only when it is named
# What an attack (or a metric) of somebody else's may raise by its own fault: said of this one, the others go on.
FAULTS = (
    *(ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, MemoryError, NameError, OSError, RuntimeError),
    *(StopIteration, TypeError, ValueError),
)


@dataclass(frozen=True)
class Choice:
    """An attack by name, ready to run."""

    name: str
    attack: Attack

    @property
    def title(self) -> str:
        """The name with what differs from the defaults."""
        fields = type(self.attack).model_fields
        changed = {k: v for k, v in self.attack.parameters().items() if v != fields[k].get_default()}
        return self.name + (f"({', '.join(f'{k}={v}' for k, v in changed.items())})" if changed else "")


def train(spec: RunSpec, out: str, device: str, *, progress: Progress) -> Trained:
    """Train one spec into the folder ``out``."""
    return _train(spec, Path(out), device=device, progress=progress, say=lambda text: print(f"{spec.folder()}: {text}", file=sys.stderr))  # noqa: T201


def attack(run: str, name: str, params: dict[str, Any], device: str, *, progress: Progress) -> str:
    """Run and score one attack on one run folder; returns the attack's folder. Of a run that was exported the guess is all there is.

    Raises:
        LeakbenchError: it does not fit or failed; the run folder then says why.
    """
    chosen = build(name, params)
    recording = Recording(runs.load(run), provenance.device(device))
    if attacking.complete(recording, name, chosen.attack):
        folder = attacking.folder_of(recording, name, chosen.attack)
        runs.AttackFolder(folder, read_json(folder / "attack.json")).check()
        return str(folder)
    why = chosen.attack.obstacle(recording)
    if why:
        raise UsageError(f"{name} does not fit {recording.run.id}: {why}.")
    try:
        made = attacking.guess(recording, name, chosen.attack, progress=progress)
        if recording.exported:
            return str(made)
        return str(scoring.score(recording, name, chosen.attack))
    except BrokenFile:  # the recording's fault, not the attack's: nothing is written
        raise
    except LeakbenchError as error:
        attacking.failed(recording, name, chosen.attack, str(error))
        raise
    except FAULTS as error:
        attacking.failed(recording, name, chosen.attack, f"{type(error).__name__}: {error}")
        raise MethodError(f"{name} on {recording.run.id} failed: {type(error).__name__}: {error}.") from error


def score(run: str, name: str, params: dict[str, Any], *, progress: Progress) -> str:
    """Score saved guesses again; never reruns an attack."""
    progress(0, 1, f"scoring {name}")
    recording = Recording(runs.load(run))
    try:
        return str(scoring.score(recording, name, build(name, params).attack))
    except FAULTS as error:
        raise MethodError(f"{name} on {recording.run.id} cannot be scored: {type(error).__name__}: {error}.") from error


def build(name: str, params: dict[str, Any]) -> Choice:
    """The attack ``name`` with ``params``."""
    attack: Attack = registry.load("attacks", name).build(params, f"attack {name}")
    return Choice(name, attack)


def variants(names: Sequence[str] | None = None) -> list[Choice]:
    """Every attack in the settings that are run where none is named."""
    found = registry.names("attacks") if names is None else names
    return [build(name, dict(v)) for name in found for v in registry.load("attacks", name).variants]


def planned(recording: Recording, known: Sequence[Choice] | None = None) -> list[Choice]:
    """The attacks that `leakbench attack` runs where none is named: the run's own list, or every one that fits.

    ``known``: all ``variants``, for who asks about many runs.
    """
    own = recording.spec.attacks
    if own:
        return [build(a.name, a.params) for a in own]
    return [c for c in known or variants() if not c.attack.obstacle(recording)]


def fitting(run: runs.Run, known: Sequence[Choice] | None = None) -> list[str]:
    """Names of the attacks that fit what this run shared; ``known``: all ``variants``."""
    recording = Recording(run)
    return sorted({c.name for c in planned(recording, known) if not c.attack.obstacle(recording)})


def unfit(run: runs.Run, known: Sequence[Choice] | None = None) -> dict[str, str]:
    """{attack: why it does not fit what this run shared}, of those that fit in none of their settings; ``known``: all ``variants``."""
    recording = Recording(run)
    why: dict[str, list[str]] = {}
    for c in known or variants():
        why.setdefault(c.name, []).append(c.attack.obstacle(recording))
    return {name: reasons[0] for name, reasons in why.items() if all(reasons)}
