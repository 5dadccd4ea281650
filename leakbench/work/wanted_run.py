"""Runs that somebody wants, with the attacks on them, looked through before anything is made.

Names and parameters are checked first: that needs no torch, which takes seconds to load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakbench.attacking import choices
from leakbench.attacking.choices import ReadyAttack
from leakbench.base.jobs import Job, Outcome
from leakbench.federation.network import built
from leakbench.record import folders
from leakbench.record.existing_run import unlike_spec
from leakbench.record.folders import Run
from leakbench.record.naming import distinct_specs
from leakbench.record.runspec import RunSpec, make_spec, parts


@dataclass(frozen=True)
class WantedRun:
    """A run that is to be there, and ``attacks`` on it.

    None: those of its own list, or where that is empty every one that fits and is not too long.
    """

    spec: RunSpec
    attacks: tuple[ReadyAttack, ...] | None = None

    def job(self, name: str, work: Callable[..., Any], out: str | Path, *more: Any) -> Job:
        """``work`` that makes it below ``out``, called ``name``; ``more``: what else it is told."""
        folder = str(Path(out) / self.spec.folder())
        return Job(name, work, (self.spec, str(out), *more), folder=folder)


@dataclass(frozen=True)
class Made:
    """The runs that are there now, with the attacks that were wanted; and what failed."""

    runs: tuple[Run, ...]
    failed: tuple[Outcome, ...] = ()


def wanted_runs(given: Iterable[Mapping[str, Any]]) -> list[WantedRun]:
    """Each once; ``given``: keyword arguments of ``leakbench.record.runspec.make_spec``.

    Raises:
        UsageError: a name or value is wrong, whether of run, network or attack; or one name is
            given to several settings.
    """
    specs = []
    for one in given:
        attacks = []
        for name, params in one.get("attacks", ()):
            choice = choices.build(name, dict(params))
            attacks.append((choice.name, choice.attack.parameters()))
        specs.append(make_spec(**{**one, "attacks": attacks}))
    specs = distinct_specs(specs)
    # What only the networks themselves can say: with torch, and before anything is trained.
    for made in map(parts, specs):
        built(made.task, made.method, made.task.facts(made.method))
    return [WantedRun(s) for s in specs]


def complete(spec: RunSpec, runs: Path) -> bool:
    """Is this very run, and no excerpt of it, complete below ``runs``? By which code is not asked.

    Raises:
        BrokenFile: its run.json is damaged.
    """
    folder = runs / spec.folder()
    if not (folder / "run.json").is_file():
        return False
    run = folders.load(folder)
    return run.done and not unlike_spec(run.meta, spec)
