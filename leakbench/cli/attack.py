"""attack and score: which attacks run on which recorded runs, the cheap ones first."""

from __future__ import annotations

import json
import math
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakbench.base.errors import UnknownName, UsageError
from leakbench.base.executors import Executor
from leakbench.base.jobs import Job, Outcome
from leakbench.base.reason_words import reason_text
from leakbench.cli import keys
from leakbench.cli.commands import SOME_FAILED, do_all, jobs_exit_code, show_rows
from leakbench.cli.console import Console
from leakbench.cli.pace import duration
from leakbench.cli.rotation import Rotation, left

if TYPE_CHECKING:
    from leakbench.work.attack_plan import AttackPlan

STANDARD = "standard"  # `leakbench.attacking.standard`, which needs torch
# What is done of what is there; else it is run again.
THEN = {"was_submitted": "", "other_scorer": ": scored again"}
ATTACKED = (
    *("run", "attack", "settings", "metric", "stage", "probe"),
    *("value", "low", "high", "n", "floor", "control", "flags"),
)


def attack(
    names: Sequence[str],
    attacks: Sequence[str],
    given: Sequence[str],
    *,
    force: bool,
    isolated: bool,
    budget: float | None,
    device: str,
    executor: Executor,
    console: Console,
    as_json: bool,
) -> int:
    """Attack every run, the cheap attacks first; the table has every number at an audited stage.

    Of attacks that cost alike every setting has one before any has its second.
    ``budget``: minutes after which none may end.
    """
    from leakbench import api
    from leakbench.base import provenance
    from leakbench.record import folders

    provenance.known_device(device)
    named = keys.split_names(attacks)
    others = [_known(name) for name in named if name != STANDARD]
    chosen, found = _choices(others, given), folders.find(names)
    from leakbench.scoring.score import UNSCORED  # with torch, when every name is known

    plan = _Plan(
        console,
        provenance.device(executor.planned_on(device)),
        executor.device(device),
        chosen=chosen,
        standard=len(others) < len(named),
        force=force,
        isolated=isolated,
    )
    unknown: list[UnknownName] = []
    for run in found:
        try:
            plan.on(run)
        except UnknownName as error:  # a task that was made in Python, beside others
            unknown.append(error)
            if len(unknown) == len(found):
                raise
            console.warn(f"{run.path} is not attacked: {error}")
    # Named by their places: of two copies of a run the jobs have the same names.
    cheap = plan.rotation.order()
    todo = [plan.rotation.todo[i] for i in cheap]
    plan.tell(todo, len(found), executor.workers, budget)
    began = time.monotonic()
    done = do_all(todo, executor, console, math.inf if budget is None else 60 * budget)
    left_out = [job for job, o in zip(todo, done, strict=True) if o.left_out]
    if left_out:
        begun = [job for job, o in zip(todo, done, strict=True) if not o.left_out]
        took = left(left_out, begun, time.monotonic() - began, executor.workers)
        names_of = ", ".join(job.name for job in left_out)
        least = min(job.seconds for job in left_out)
        console.warn(
            f"{len(left_out)} of {len(todo)} attacks did not fit into --budget {budget:g}; they"
            f" would take {duration(took)}, and the same command without it runs them, with"
            f" --budget {max(1, math.ceil(least / 60))} the first: {names_of}."
        )
        plan.tell_less(left_out)
    by_run = [o for _, o in sorted(zip(cheap, done, strict=True), key=lambda pair: pair[0])]
    made = [o for o in by_run if not o.error and not o.left_out]
    scored = [o for o in made if api.Results(Path(o.value)).scored]
    for path in dict.fromkeys(Path(o.value).parent.parent for o in made if o not in scored):
        console.warn(f"{path} {UNSCORED}")
    show_numbers(scored, as_json)
    return max(
        jobs_exit_code(done, console),
        SOME_FAILED if unknown or any(not r.done for r in found) else 0,
    )


@dataclass
class _Plan:
    """What is to be done, and what is said of it before."""

    console: Console
    device: str  # on which runs are read here
    attacked_on: str
    chosen: Sequence[Any]  # the attacks that were named
    standard: bool  # was the standard ensemble? neither: all that fit
    force: bool
    isolated: bool
    rotation: Rotation = field(default_factory=Rotation)
    planned: dict[str, AttackPlan] = field(default_factory=dict)  # by the names of jobs

    def on(self, run: Any) -> None:
        """The attacks on one run."""
        from leakbench.attacking import choices, standard
        from leakbench.record.recording import Recording
        from leakbench.work.attack_plan import AttackPlan

        if not run.done:
            self.console.warn(
                f"{run.path} is not complete (status: {run.status}); it is not attacked. Train it"
                " first."
            )
            return
        recording = Recording(run, self.device)
        self.rotation.begin(run.spec)
        wanted = [c for chosen in self.chosen for c in chosen.instead(recording)]
        if self.standard:
            wanted += [c for c in standard.fitting(recording) if c not in wanted]
        for choice in wanted or ([] if self.standard else choices.planned(recording)):
            plan = AttackPlan(recording, choice, self.force, self.isolated)
            if not (self.chosen or self.standard):
                plan, rest = plan.unnamed
                if rest:
                    self.console.warn(f"{choice.title} on {run.id}: {rest}.")
                if plan.long:
                    continue
            name = f"{plan.choice.title} on {run.id}"
            if not plan.obstacle and plan.there.why:
                then = THEN.get(plan.there.why.code, ": run again")
                self.console.say(f"{name}: {reason_text(plan.there.why)}{then}")
            self.planned[name] = plan
            self.rotation.add(plan.job(name, self.attacked_on, plan.seconds), plan.choice.title)

    def tell_less(self, left_out: Sequence[Job]) -> None:
        """Which setting of each attack would take less time."""
        less = dict[str, str]()
        for job in left_out:
            plan = self.planned[job.name].least
            if plan is not self.planned[job.name]:
                text = f"{plan.choice.options} would take {duration(plan.seconds)}"
                less.setdefault(plan.choice.title, f"{text} on {plan.recording.run.id}")
        for text in less.values():
            self.console.warn(f"In less time: {text}.")

    def tell(self, todo: Sequence[Job], runs: int, workers: int, budget: float | None) -> None:
        """How long each is predicted to take, and all of them, before the first begins.

        What is done on several runs takes one line; with ``-v`` one more for each of these.
        """
        say = self.console.detail if self.chosen else self.console.say
        alike = defaultdict[str, list[Job]](list)
        for job in todo:
            alike[self.planned[job.name].choice.title].append(job)
        for title, jobs in alike.items():
            name = jobs[0].name if len(jobs) == 1 else f"{title} on {len(jobs)} runs"
            say(f"{name}: {_together(jobs)}")
            for job in jobs if len(jobs) > 1 else ():
                self.console.detail(f"  {job.name}: {_together([job])}")
        if self.chosen and budget is None:
            return
        self.console.say(
            f"{len(todo)} attacks on {runs} runs: {duration(left(todo, (), 0.0, workers))}"
        )


def _together(jobs: Sequence[Job]) -> str:
    """One after the other, they are predicted to take this long."""
    seconds = sum(job.seconds or 0.0 for job in jobs)
    return duration(seconds) if seconds else "about 0 s"


def _known(name: str) -> str:
    """The attack's name.

    Raises:
        UsageError: there is none, and it looks as if the ensemble was meant.
    """
    from leakbench.base import registry
    from leakbench.base.errors import suggestion

    known = registry.names("attacks")
    if name not in known and suggestion(name, [*known, STANDARD]) == suggestion(name, [STANDARD]):
        raise UsageError(f"unknown attack {name!r}.{suggestion(name, [STANDARD])}")
    return name


def _choices(attacks: Sequence[str], given: Sequence[str]) -> list[Any]:
    """The named attacks with their settings, sweeps expanded."""
    from leakbench.attacking import choices
    from leakbench.base.errors import suggestion
    from leakbench.base.registry import meant

    attacks = [meant("attacks", name) for name in attacks]
    routed = keys.route(keys.settings(given), attacks, "attack")
    for owner, values in routed.items():
        if owner not in attacks:
            raise UsageError(
                f"-s {owner}.{next(iter(values))}: attack {owner!r} was not named with"
                f" -a.{suggestion(owner, attacks)}"
            )
    return [
        choices.build(name, p)
        for name in dict.fromkeys(attacks)
        for p in keys.product(routed.get(name, {}))
    ]


def score(names: Sequence[str], attacks: Sequence[str], *, console: Console, as_json: bool) -> int:
    """Score what is saved again."""
    from leakbench.base import registry
    from leakbench.record import folders
    from leakbench.record.placing import GUESS

    named = keys.split_names(attacks)
    if STANDARD in named:
        raise UsageError(f"-a {STANDARD}: score takes attacks by their names, and without -a all.")
    attacks = [registry.meant("attacks", name) for name in named]
    todo, found = [], folders.find(names)
    from leakbench.work import pipeline

    for run in found:
        for folder in run.attacks:
            has_guesses = GUESS in folder.meta.get("files", {})
            if (not attacks or folder.name in attacks) and has_guesses:
                saved = (str(run.path), folder.name, folder.meta["params"])
                todo.append(Job(f"{folder.name} on {run.id}", pipeline.score_guesses, saved))
    if not todo:
        raise UsageError("no saved guesses were found there. Run leakbench attack first.")
    done = do_all(todo, Executor(), console)
    show_numbers([o for o in done if not o.error], as_json)
    return jobs_exit_code(done, console)


def show_numbers(done: Iterable[Outcome], as_json: bool) -> None:
    """What attacks measured, at the audited stages; with ``--json`` the curves, too."""
    from leakbench.api import Results
    from leakbench.attacking import choices

    rows = [r for o in done for r in Results(Path(o.value)).rows]
    if as_json:
        show_rows(rows, (), as_json)
        return
    lines = []
    for row in (r for r in rows if r["stage"] != "curve"):
        made = choices.build(row["attack"], json.loads(row["attack_params"]))
        lines.append({**row, "settings": ",".join(made.changed) or "defaults"})
    show_rows(lines, ATTACKED, as_json)
