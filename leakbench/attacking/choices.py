"""Which attacks there are, in which settings, and which of them fit what a run shared."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from leakbench.attacking.attack import Attack
from leakbench.attacking.public_facts import Outline, undeclared
from leakbench.base import registry
from leakbench.base.errors import UnknownName, UsageError
from leakbench.base.raised import faults_pass
from leakbench.base.spec import canonical, option_text
from leakbench.record import attack_code
from leakbench.record.folders import AttackFolder, Run
from leakbench.record.knowledge import Source
from leakbench.record.recording import Recording


@dataclass(frozen=True)
class ReadyAttack:
    """An attack by name, ready to run.

    ``free``: named without parameters, so another of its settings may do. Where it fails to answer
    what it is asked before it is run, that is no reason against it: when it is run, it fails.
    """

    name: str
    attack: Attack
    free: bool = False

    def suited(self, source: Source) -> ReadyAttack:
        """The same, or with what its defaults fall to where nothing that they read was kept."""
        attack, other = self.attack, dict[str, Any]()
        with faults_pass():
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
        return self._lacks(source)

    def _lacks(self, source: Source) -> str:
        threat = self.attack.threat
        with faults_pass():
            return undeclared(source, threat) or self.attack.obstacle(Outline(source, threat))
        return ""

    def refusal(self, source: Source) -> str:
        """Why it does not fit, and in which of its settings it would; empty where it fits."""
        why = self._lacks(source)
        others = self._others(source) if why else []
        return f"{why}; what fits is {' or '.join(c.title for c in others)}" if others else why

    def instead(self, source: Source) -> list[ReadyAttack]:
        """What is run where it is asked for: itself, or its settings that fit, where it is free."""
        others = self._others(source) if self.free and self.obstacle(source) else []
        return others or [self.suited(source)]

    def _others(self, source: Source) -> list[ReadyAttack]:
        """Its settings that are known to fit."""
        found = []
        for choice in self._settings() if self.name in registry.names("attacks") else ():
            with contextlib.suppress(UsageError):  # it asks for what was not given
                suited = choice.suited(source)
                found += [] if suited._lacks(source) else [suited]
        return found

    def _settings(self) -> list[ReadyAttack]:
        """The settings that are run where none is named, of whoever attacks here."""
        who = {} if self.attack.observer == "server" else {"observer": self.attack.observer}
        found = type(self.attack).variants if who else ()
        return [build(self.name, {**v, **who}) for v in found] or variants([self.name])

    def seconds(self, source: Source) -> float:
        """Predicted time on two cores; 0 where it cannot tell."""
        with faults_pass():
            return self.attack.seconds(Outline(source, self.attack.threat))
        return 0.0

    def within(self, source: Source, seconds: float) -> ReadyAttack:
        """The same; what it would take longer for than ``seconds``, left out if it can."""
        if self.seconds(source) <= seconds:
            return self
        less = dict[str, Any]()
        with faults_pass():
            less = self.attack.within(Outline(source, self.attack.threat), seconds)
        chosen = {k: v for k, v in self.attack.parameters().items() if k in less or self._set(k)}
        return build(self.name, {**chosen, **less}) if less else self

    def _set(self, field: str) -> bool:
        """Is a parameter another than its default?"""
        default = type(self.attack).model_fields[field].get_default()
        return bool(self.attack.parameters()[field] != default)

    def apart(self) -> dict[str, Any]:
        """What tells it from the other settings of its attack that are run where none is named."""
        told = {k for v in type(self.attack).variants for k in v}
        return {k: v for k, v in self.attack.parameters().items() if k in told}

    @property
    def key(self) -> tuple[str, str]:
        """Name and parameters, as the attack's folder has them."""
        return self.name, canonical(self.attack.parameters())

    @property
    def title(self) -> str:
        """The name with what differs from the defaults."""
        return f"{self.name}({', '.join(self.changed)})" if self.changed else self.name

    @property
    def changed(self) -> list[str]:
        """What differs from the defaults, as in ["source=update"]."""
        return [f"{k}={v}" for k, v in self._changes.items()]

    @property
    def options(self) -> str:
        """As the command line names it: "-a gradient_inversion -s gradient_inversion.targets=2"."""
        words = ["-a", self.name]
        for k, v in self._changes.items():
            words += ["-s", f"{self.name}.{k}={option_text(v)}"]
        return shlex.join(words)

    @property
    def _changes(self) -> dict[str, Any]:
        fields = type(self.attack).model_fields
        values = self.attack.parameters().items()
        usual = {k: f.get_default() for k, f in fields.items()}
        told = {k: list(v) if isinstance(v, tuple) else v for k, v in usual.items()}  # as JSON
        return {k: v for k, v in values if v != told[k]}


def build(name: str, params: dict[str, Any]) -> ReadyAttack:
    """The attack ``name`` with ``params``."""
    name = registry.meant("attacks", name)
    attack: Attack = registry.load_plugin("attacks", name).build(params, f"attack {name}")
    return ReadyAttack(name, attack, free=not params)


def variants(names: Sequence[str] | None = None) -> list[ReadyAttack]:
    """Every attack in the settings that are run where none is named."""
    if names is None:
        found = registry.every("attacks")
    else:
        found = {name: registry.load_plugin("attacks", name) for name in names}
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


class Fits:
    """Which attacks fit what each of many runs shared.

    Attacks are looked up once; of the run that was asked about last it is known which fit.
    """

    def __init__(self) -> None:
        self._known = variants()
        self._last: tuple[Run, list[tuple[ReadyAttack, str]]] | None = None

    def fitting(self, run: Run) -> list[tuple[str, dict[str, Any]]]:
        """(attack, what tells its setting from its others) of all that fit what ``run`` shared.

        Of its own list, where it has one.

        Raises:
            UnknownName: its method or an attack of its list is not installed here.
        """
        recording = Recording(run)
        own = recording.spec.attacks
        if own:
            made = [(build(a.name, a.params), a.params) for a in own]
            return [(c.name, dict(params)) for c, params in made if not c.obstacle(recording)]
        return [(c.name, c.apart()) for c, why in self._asked(run) if not why]

    def unfit(self, run: Run) -> dict[str, str]:
        """{attack: why it does not fit}, of those that fit ``run`` in none of their settings.

        Empty where that cannot be asked, since its method is not installed here.
        """
        reasons: dict[str, list[str]] = {}
        with contextlib.suppress(UnknownName):
            for c, why in self._asked(run):
                reasons.setdefault(c.name, []).append(why)
        return {k: "; ".join(dict.fromkeys(v)) for k, v in reasons.items() if all(v)}

    def lacking(
        self, run: Run, members: Collection[tuple[str, str]]
    ) -> list[tuple[str, dict[str, Any]]]:
        """(attack, what tells its setting) of ``members`` that fit and were not made in full.

        What ``leakbench attack`` would make anew, by today's code or in a submission's place, was
        not made.

        Args:
            run: whatever attacks it lists itself.
            members: ``ReadyAttack.key`` of settings that are run where none is named.

        Raises:
            UnknownName: its method is not installed here.
        """
        made = {(a.name, a.params) for a in run.attacks if _stands(a, run)}
        asked = zip(self._known, self._asked(run), strict=True)
        fit = [c for known, (c, why) in asked if known.key in members and not why]
        return [(c.name, c.apart()) for c in fit if c.key not in made]

    def _asked(self, run: Run) -> list[tuple[ReadyAttack, str]]:
        if self._last is None or self._last[0] is not run:
            recording = Recording(run)
            suited = [c.suited(recording) for c in self._known]
            self._last = run, [(c, c.obstacle(recording)) for c in suited]
        return self._last[1]


def _stands(folder: AttackFolder, run: Run) -> bool:
    """Was it made by the attack that is installed, where nothing is defended, too?"""
    if not folder.done or folder.meta.get("no_control"):
        return False
    return not attack_code.stale(folder.meta["sources"], folder.name, run.meta)
