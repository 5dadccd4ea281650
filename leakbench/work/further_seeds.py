"""`--spend N`: further seeds for what cannot be told yet, made as the seeds that are there were.

The gate names the seeds (`Comparison.more`): those up to the next look of a group-sequential plan
that shares the level out before anything is trained, so looking again costs no false alarm.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from leakbench.attacking import choices
from leakbench.attacking.choices import ReadyAttack
from leakbench.base import provenance
from leakbench.base.errors import UsageError
from leakbench.base.jobs import Outcome
from leakbench.gate.outcome import LEAKS_MORE, CheckResult, concluded
from leakbench.record import attack_code, origin
from leakbench.record.folders import Run
from leakbench.record.runspec import RunSpec
from leakbench.results.settings import Setting, group
from leakbench.words.amounts import plural
from leakbench.work.build import Do, Say, make
from leakbench.work.wanted_run import Made, WantedRun

Check = Callable[[Sequence[Run]], CheckResult]


def spend(made: Made, check: Check, budget: int, *, do: Do, say: Say) -> tuple[CheckResult, Made]:
    """Check; then train and attack the seeds that would settle what cannot be told, and so on.

    It ends where no row has a next look, ``budget`` further seeds of its setting are used, or
    something leaks more: no seed changes that. Seeds that reach no look are not trained. What is
    there already is not made again, so that the same call after an interruption goes on.

    Args:
        made: what is checked at first, and what failed before.
        check: says how runs stand against the baseline.
        budget: further seeds for each setting, at most; 0: check only.
        do: does the jobs.
        say: is told what is spent, and what is not and why.

    Returns:
        What the last check said (exit 4 where something failed and nothing leaks more), and all
        runs.
    """
    every = {run.path.resolve(): run for run in made.runs}
    result, purse, failed = check(list(every.values())), _Purse(budget), list[Outcome]()
    while budget and result.exit_code != LEAKS_MORE:
        wanted = purse.next(list(every.values()), _asked(result), say)
        if not wanted:
            break
        for (out, device), these in wanted.items():
            more = make(these, out, device, do=do, say=say)
            every |= {run.path.resolve(): run for run in more.runs}
            failed += more.failed
        result = check(list(every.values()))
        if failed:
            break
    if purse.spent:
        states = [r.state for r in result.rows] + [k.state for k in result.limits]
        rows = states.count("cannot tell")
        left = f"{plural(rows, 'row')} still cannot be told" if rows else "all can be told"
        say(f"{plural(sum(purse.spent.values()), 'further seed')} spent: {left}")
    failed = [*made.failed, *failed]
    return concluded(result, failed), Made(tuple(every.values()), tuple(failed))


def _asked(result: CheckResult) -> list[tuple[str, tuple[int, ...]]]:
    """(``Setting.key``, the seeds up to its next look) of all that has one."""
    found = [(r.now, r.more) for r in result.rows] + [(k.row, k.more) for k in result.limits]
    return [(row.configuration.key, more) for row, more in found if row is not None and more]


@dataclass
class _Purse:
    """What was spent on each setting (by its key), and of which it was said that nothing is."""

    budget: int
    spent: dict[str, int] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)

    def next(
        self, runs: Sequence[Run], asked: Sequence[tuple[str, tuple[int, ...]]], say: Say
    ) -> dict[tuple[Path, str], list[WantedRun]]:
        """{(folder of run folders, device): the runs to be made there}, and pay for them."""
        out = defaultdict[tuple[Path, str], list[WantedRun]](list)
        for setting in group(runs):
            looks = [set(more) - set(setting.seeds) for key, more in asked if key == setting.key]
            looks = [seeds for seeds in looks if seeds]
            if not looks or setting.key in self.closed:
                continue
            name = _called(setting)
            left = self.budget - self.spent.get(setting.key, 0)
            seeds = _within(looks, left)
            why = _refusal(setting) if seeds else _beyond(looks, left, self.budget)
            if why:
                self.closed.add(setting.key)
                say(f"{name}: no further seeds: {why}")
                continue
            self.spent[setting.key] = self.budget - left + len(seeds)
            say(
                f"{name}: {plural(len(looks), 'row')} cannot be told;"
                f" seeds {_listed(seeds)} are added ({self.spent[setting.key]} of at most"
                f" {self.budget})"
            )
            out[setting.one.path.parent, _device(setting)] += _further(setting, seeds)
        return out


def _within(looks: Sequence[set[int]], left: int) -> set[int]:
    """The seeds of all the looks that can be reached with ``left`` of them, the nearest first."""
    seeds: set[int] = set()
    for more in sorted(looks, key=len):
        if len(seeds | more) <= left:
            seeds |= more
    return seeds


def _beyond(looks: Sequence[set[int]], left: int, budget: int) -> str:
    least = min(map(len, looks))
    return f"the next look takes {plural(least, 'more seed')}, and {left} of {budget} are left"


def _refusal(setting: Setting) -> str:
    """Why no seed like the others can be made here, or nothing."""
    anew = "`leakbench train --restart` makes them anew"
    for run in setting.runs:
        if changed := origin.stale_sources(run.meta):
            what = " and ".join(origin.part_text(k) for k in changed)
            return f"its runs were trained by other code than is installed ({what}); {anew}"
        if {"export", "excerpt"} & set(run.meta):
            return "its runs are copies that lack a part, which further seeds would have"
        for a in run.attacks:
            if a.done and attack_code.stale(a.meta["sources"], a.name, run.meta):
                how = "`leakbench attack` makes it again"
                return f"{a.name} was made by other code than is installed; {how}"
    try:
        provenance.device(_device(setting))
    except UsageError as error:
        return f"its runs were trained on another device: {error}"
    return ""


def _further(setting: Setting, seeds: set[int]) -> Iterator[WantedRun]:
    """Trained as the others were, and attacked by every attack that any of them has."""
    known: dict[str, ReadyAttack] = {}
    for run in setting.runs:
        for a in run.attacks:
            if a.done and a.path.name not in known:
                known[a.path.name] = choices.build(a.name, a.meta["params"])
    run = setting.runs[0]
    for seed in sorted(seeds):
        spec = RunSpec.build({**run.spec, "seed": seed}, f"{run.path}/run.json")
        yield WantedRun(spec, tuple(known.values()))


def _device(setting: Setting) -> str:
    return "cuda" if str(setting.runs[0].meta["device"]).startswith("cuda") else "cpu"


def _called(setting: Setting) -> str:
    return setting.called or f"{setting.task}: {setting.name}"


def _listed(seeds: set[int]) -> str:
    return ", ".join(map(str, sorted(seeds)))
