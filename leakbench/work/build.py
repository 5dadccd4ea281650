"""Runs and attacks that are to be there, made by the code that is installed: what is, is kept.

A build asks for the same runs again and again, and its cache brings them along. What counts is what
made them, not when: a run by other code, or of other data, is trained anew, and so is every attack
on it. What is damaged is made again, for a cache is nobody's only copy.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from leakbench.attacking import choices
from leakbench.attacking.choices import ReadyAttack
from leakbench.base import provenance
from leakbench.base.errors import UsageError
from leakbench.base.jobs import Job, Outcome, Progress
from leakbench.base.reason import Reason, reason
from leakbench.base.reason_words import reason_text
from leakbench.record import damage, existing_run, folders
from leakbench.record.folders import AttackFolder, Run
from leakbench.record.recording import Recording
from leakbench.record.runspec import RunSpec
from leakbench.results.names import setting_names
from leakbench.results.number import Configuration
from leakbench.words.amounts import plural
from leakbench.work import pipeline
from leakbench.work.attack_plan import AttackPlan
from leakbench.work.wanted_run import Made, WantedRun

Do = Callable[[Sequence[Job]], list[Outcome]]  # ``leakbench.base.jobs.run_jobs``, perhaps with bars
Say = Callable[[str], None]


@dataclass(frozen=True)
class CountedRun(Run):
    """A run of which only the attack folders named in ``counted`` are looked at."""

    counted: frozenset[str] = frozenset()

    @property
    def attacks(self) -> tuple[AttackFolder, ...]:
        """Those that count; what lies beside them is not opened."""
        return tuple(self.attack(name) for name in sorted(self.counted) if self._is_there(name))

    def _is_there(self, name: str) -> bool:
        return (self.path / "attacks" / name).is_dir()


@dataclass(frozen=True)
class TrainedRun:
    """What came of one run, and why."""

    path: Path
    what: Literal["reused", "trained", "gone on with", "trained anew"]
    why: tuple[Reason, ...] = ()


def make(wanted: Sequence[WantedRun], out: Path, device: str, *, do: Do, say: Say) -> Made:
    """Train what is missing or was made by other code, then attack; one failure stops no other.

    Args:
        wanted: the runs.
        out: the folder of run folders.
        device: auto, cpu or cuda.
        do: does the jobs.
        say: is told in a line each what was kept, what was made, and why.

    Raises:
        UsageError: an attack that was named fits none of the runs, the device is not there, or
            something damaged cannot be deleted.
        NewerFile: a later leakbench wrote what is there.
    """
    where, called = provenance.device(device), spec_labels([w.spec for w in wanted])
    settings = [called[w.spec.identity()] for w in wanted]
    jobs, damaged = [], list[tuple[str, str, str, int]]()
    for name, w in zip(settings, wanted, strict=True):
        if why := damage.cleared(out / w.spec.folder()):
            damaged.append((name, "damaged, so it is made again", why, w.spec.seed))
        jobs.append(w.job(f"{name}, seed {w.spec.seed}", trained_today, out, where))
    _tell(damaged, say)
    done = do(jobs)
    there = [(s, w, o.value) for s, w, o in zip(settings, wanted, done, strict=True) if o.value]
    _tell([(s, t.what, _text(*t.why), w.spec.seed) for s, w, t in there], say)
    attacks = _Attacks(where)
    runs = [attacks.on(folders.load(t.path), w, s) for s, w, t in there]
    attacks.tell(say)
    attacked = do(attacks.jobs)
    return Made(tuple(runs), tuple(o for o in (*done, *attacked) if o.error))


def spec_labels(specs: Sequence[RunSpec]) -> dict[str, str]:
    """{``RunSpec.identity``: what people call the setting}: its name, or its method's."""
    kinds = {s.identity(): s for s in specs}
    shapes = {i: _configuration(s) for i, s in kinds.items()}
    names = setting_names(list({c.key: c for c in shapes.values()}.values()), {})
    out = {}
    for i, s in kinds.items():
        out[i] = s.name or f"{s.task.name}: {names[shapes[i].key]}"
    return out


def _configuration(spec: RunSpec) -> Configuration:
    wrappers = [w.model_dump(mode="json") for w in spec.wrappers]
    named = {"task": spec.task.name, "defense": spec.defense.name}
    return Configuration(**named, params=spec.defense.params, wrappers=wrappers)


def trained_today(spec: RunSpec, out: str, device: str, *, progress: Progress) -> TrainedRun:
    """One run, made by today's code: kept, gone on with, trained or trained anew.

    Raises:
        LeakbenchError: as ``leakbench.work.pipeline.train``.
    """
    folder = Path(out) / spec.folder()
    there = existing_run.found_run(folder, spec, device)
    why = [reason("parts_changed", parts=there.changed)] * bool(there.changed)
    why += [reason("several_codes")] * there.mixed
    if there.status == "done" and there.exact and not why:
        return TrainedRun(folder, "reused")
    made = pipeline.train(spec, out, device, restart=bool(why), progress=progress)
    if why:
        return TrainedRun(made.path, "trained anew", tuple(why))
    if made.skipped:
        return TrainedRun(made.path, "reused")
    if not there.status:
        return TrainedRun(made.path, "trained", (reason("not_there_yet"),))
    failed = there.status.startswith("failed")
    state = reason("had_failed") if failed else reason("not_finished")
    return TrainedRun(made.path, "gone on with", (state,))


class _Attacks:
    """The attacks that are wanted on some runs: which are to be made, and what is said of them."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.jobs: list[Job] = []
        self.told: list[tuple[str, str, str, int]] = []  # setting, what, why, seed
        self.reused = 0
        self.unfit: dict[str, str] = {}  # attack -> why, of one of the runs that it does not fit
        self.fit: set[str] = set()
        self.variants: list[ReadyAttack] = []

    def on(self, run: Run, wanted: WantedRun, setting: str) -> CountedRun:
        """Plan those on one run."""
        recording, counted = Recording(run, self.device), set()
        for given in self._chosen(wanted):
            choice, named = given.suited(recording), given not in self.variants
            plan = AttackPlan(recording, choice)
            if why := choice.refusal(recording) if named else plan.obstacle:
                self.unfit.setdefault(choice.title, f"{setting}: {why}")
                continue
            self.fit.add(choice.title)
            if wanted.attacks is None and not wanted.spec.attacks:
                plan, rest = plan.unnamed
                if rest:
                    made = "not run" if plan.long else "shortened"
                    self.told.append((setting, f"{choice.title} is {made}", rest, run.seed))
                if plan.long:
                    continue
                choice = plan.choice
            if why := damage.cleared_attack(run, plan.folder.name):
                what = f"{choice.title} damaged, so it is made again"
                self.told.append((setting, what, why, run.seed))
            counted.add(plan.folder.name)
            self.reused += plan.there.complete
            if not plan.there.complete:
                why = _text(plan.there.why)
                self.told.append((setting, f"{choice.title} is made", why, run.seed))
                name = f"{choice.title} on {setting}, seed {run.seed}"
                self.jobs.append(plan.job(name, self.device))
        return CountedRun(run.path, run.meta, frozenset(counted))

    def _chosen(self, wanted: WantedRun) -> Sequence[ReadyAttack]:
        if wanted.attacks is not None:
            return wanted.attacks
        if wanted.spec.attacks:
            return [choices.build(a.name, dict(a.params)) for a in wanted.spec.attacks]
        self.variants = self.variants or choices.variants()
        return self.variants

    def tell(self, say: Say) -> None:
        """Say it.

        Raises:
            UsageError: an attack that was named fits no run.
        """
        named = not self.variants
        for title, why in self.unfit.items():
            if named and title not in self.fit:
                raise UsageError(f"{title} fits none of these runs ({why}). Leave it out.")
            if named:
                say(f"{title} does not fit {why}")
        _tell(self.told, say)
        if self.reused:
            say(f"{plural(self.reused, 'attack')} reused")


def _text(*why: Reason | None) -> str:
    return "; ".join(reason_text(one) for one in why if one)


def _tell(told: Iterable[tuple[str, str, str, int]], say: Say) -> None:
    """A line for all seeds of a setting of which the same is said."""
    groups: Mapping[Any, list[int]] = defaultdict(list)
    for setting, what, why, seed in told:
        groups[setting, what, why].append(seed)
    for (setting, what, why), seeds in groups.items():
        which = f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, sorted(seeds)))}"
        say(f"{setting}, {which}: {what}{f': {why}' * bool(why)}")
