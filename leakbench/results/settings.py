"""Runs that differ in their seed alone are one setting; nothing else is pooled."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, computed_field

from leakbench.base.errors import UsageError
from leakbench.base.part import Part
from leakbench.base.reason import Reason, reason
from leakbench.base.spec import canonical
from leakbench.record.folders import Run
from leakbench.record.policy import Policy
from leakbench.results.names import Method, setting_names
from leakbench.results.number import APART, Configuration, Evaluated, Measured, Number, Utility
from leakbench.results.privacy import Privacy
from leakbench.results.roc import Roc


class Sent(Part):
    """What crosses the wire of one kind."""

    kind: str
    sender: str
    receiver: str
    rounds: int
    bytes: int
    covered: bool  # by a wrapper


class Unmade(Part):
    """An attack that fits and was not made, with what tells its setting from its others."""

    attack: str
    params: dict[str, Any]


class Setting(Part):
    """A configuration, its runs, and all that was read of them.

    What is read is empty where no run is complete; ``evaluated``, ``measured`` and ``results`` also
    where all was read from tables.
    """

    configuration: Configuration
    runs: tuple[Run, ...] = Field((), exclude=True)  # complete ones, by seed
    others: tuple[Run, ...] = Field((), exclude=True)  # failed or not finished
    name: str = ""  # as people read it
    called: str = ""  # by its user, whatever its parameters; "" for nothing
    index: int = Field(0, exclude=True)  # place among the settings that are shown together
    # The complete runs' utility, every number of every attack on them, and these with `cascade` and
    # `any_attack`, a dead run's flagged.
    evaluated: tuple[Evaluated, ...] = Field((), exclude=True)
    measured: tuple[Measured, ...] = Field((), exclude=True)
    results: tuple[Measured, ...] = Field((), exclude=True)
    numbers: tuple[Number, ...] = ()  # pooled over the seeds
    # Where several kinds of listener attacked, `cascade` and `any_attack` of each of them.
    heard: tuple[Number, ...] = Field((), exclude=True)
    utility: tuple[Utility, ...] = ()  # by statistic, the final one first
    # Of the standard ensemble what fits and was not made in full; None where that cannot be told.
    lacks: tuple[Unmade, ...] | None = None
    # Of each complete run what its wrappers claim, and what attacks prove; none of one of which
    # neither says anything.
    privacy: tuple[Privacy, ...] = ()
    # Of each attack on members how many it names at which share of false alarms.
    roc: tuple[Roc, ...] = ()

    @computed_field  # type: ignore[prop-decorator]
    @property
    def id(self) -> str:
        """Its anchor in the page, and what questions call it."""
        return f"r{self.index}"

    @property
    def key(self) -> str:
        """The configuration's."""
        return self.configuration.key

    @property
    def task(self) -> str:
        """The task's name, and more where two settings would else look alike."""
        return self.configuration.task

    @property
    def family(self) -> str:
        """The method's name."""
        return self.configuration.defense

    @property
    def method(self) -> Method:
        """What the method calls itself and its parameters."""
        return Method(self.family, self.one.meta.get("method") if self.every else None)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def title(self) -> str:
        """What the method calls itself."""
        return self.method.title

    @property
    def every(self) -> tuple[Run, ...]:
        """Complete or not."""
        return (*self.runs, *self.others)

    @property
    def one(self) -> Run:
        """Any of its runs: what is not the seed's is the same in all."""
        return self.every[0]

    @property
    def final(self) -> Utility | None:
        """Its utility after training."""
        return self.utility[0] if self.utility else None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def seeds(self) -> tuple[int, ...]:
        """Of its complete runs, or of what tables say of it."""
        return self.final.seeds if self.final else tuple(r.seed for r in self.runs)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def reference(self) -> bool:
        """Does it claim to hide nothing, neither by its method nor by a wrapper?"""
        claims = [r.meta.get("hides", True) for r in self.every]
        return bool(claims) and not any(claims) and not self.configuration.wrappers

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of message that a client sends."""
        sent = [m for r in self.every for m in r.meta.get("sent", ())]
        return frozenset(str(m["kind"]) for m in sent if m.get("sender") == "client")

    @property
    def received(self) -> frozenset[str]:
        """The kinds of message that reach the server from a client, or as their sum."""
        sent = [m for r in self.every for m in r.meta.get("sent", ())]
        reach = [m for m in sent if m.get("sender") != "server" and m.get("receiver") == "server"]
        return frozenset(str(m["kind"]) for m in reach)

    @property
    def active(self) -> bool:
        """Did the server choose what it sent?"""
        return any(m.get("changed") for r in self.every for m in r.meta.get("sent", ()))

    @property
    def secrets(self) -> frozenset[str] | None:
        """What its method means to hide; None where its runs do not say."""
        told = [r.meta["secrets"] for r in self.every if "secrets" in r.meta]
        return frozenset(name for names in told for name in names) if told else None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def dead_seeds(self) -> int:
        """How many of its runs did not learn. Tables tell only whether any."""
        if self.evaluated:
            return sum(bool(e.dead) for e in self.evaluated)
        return int(self.final is not None and "dead_run" in self.final.flags)

    @property
    def dead(self) -> bool:
        """Is any seed dead? Then it is never on a front."""
        return self.dead_seeds > 0

    @property
    def dead_because(self) -> Reason | None:
        """Why the first dead run is dead; None where none is."""
        told = [e.dead for e in self.evaluated if e.dead]
        marked = reason("marked_dead") if self.dead else None
        return told[0] if told else marked

    @computed_field  # type: ignore[prop-decorator]
    @property
    def state(self) -> Literal["done", "dead", "running", "failed", "not recorded"]:
        """What became of its runs."""
        if self.dead:
            return "dead"
        if self.utility or self.runs:
            return "done"
        if not self.others:
            return "not recorded"
        return "running" if self._failed is None else "failed"

    @property
    def reason(self) -> Reason | None:
        """Why it is not simply done: its dead run, or none of its runs is complete."""
        if self.dead:
            return self.dead_because
        if self._failed is not None:
            failed = reason("failed", text=self._failed)
        else:
            failed = reason("to_finish")
        undone = {"failed": failed, "running": failed, "not recorded": reason("no_record")}
        return undone.get(self.state)

    @property
    def _failed(self) -> str | None:
        """What the first of the runs that failed failed with; None where none did."""
        found = (r.failure for r in self.others)
        return min((why for why in found if why is not None), default=None)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def sends(self) -> list[Sent]:
        """What crosses the wire in all, per kind."""
        out = []
        for m in self.one.meta.get("sent", ()) if self.every else ():
            fields = {k: m[k] for k in Sent.model_fields}
            out.append(Sent.model_validate(fields))
        return out

    @property
    def about(self) -> str:
        """Task, data and model: only settings that agree in them are compared."""
        if not self.every:
            return self.task
        task = self.one.spec["task"]
        params = {k: v for k, v in task["params"].items() if k != "evaluations"}
        return canonical({"name": task["name"]} | params)


def group(runs: Sequence[Run]) -> list[Setting]:
    """The settings of ``runs`` in the order of the tables, named; nothing is read of them yet.

    By their ``index`` a task's stand together, and what hides nothing comes first. Engines are
    pooled (and flagged) as long as every seed is there once; a seed that is there twice, with two
    engines, splits them. Recording policies always do: who keeps fewer messages leaks less of them.

    A name that the user gave stands in front of what is read; it neither splits nor pools, and two
    settings may bear the same.

    Raises:
        UsageError: two runs are the same seed of the same setting, or two runs of one setting have
            different names.
    """
    coarse: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        coarse[canonical(_same(run))].append(run)
    groups: list[tuple[dict[str, Any], list[Run]]] = []
    for together in coarse.values():
        complete = [r.seed for r in together if r.done]
        if len(set(complete)) == len(complete):
            groups.append((_same(together[0]), together))
            continue
        fine: dict[str, list[Run]] = defaultdict(list)
        for run in together:
            fine[canonical(_finer(run))].append(run)
        groups += [(_finer(part[0]), part) for part in fine.values()]
    looks: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for facts, part in groups:
        looks[_named(part[0]).key].append(facts)
    out = []
    for facts, part in groups:
        named = _named(part[0])
        label = _label(named.task, facts, looks[named.key])
        out.append(_setting(part, named.model_copy(update={"task": label})))
    out.sort(key=_place)
    methods = {s.family: s.method for s in out}
    parts = setting_names([s.configuration for s in out], methods)
    names = {key: str(name) for key, name in parts.items()}
    shown = sorted(out, key=lambda s: (s.task, not s.reference, s.family, names[s.key]))
    index = {s.key: i for i, s in enumerate(shown)}
    told = {s.key: f"{s.called}: {names[s.key]}" if s.called else names[s.key] for s in out}
    return [s.model_copy(update={"index": index[s.key], "name": told[s.key]}) for s in out]


def policy(run: Run) -> dict[str, Any]:
    """What the run keeps of its messages, every default filled in.

    Where a folder would grow too large the run keeps less than was asked, and says so here.
    """
    return {**Policy().parameters(), **(run.spec.get("record") or {})}


def _place(setting: Setting) -> tuple[str, str, str, str]:
    c = setting.configuration
    return c.defense, canonical(c.params), c.task, canonical(c.wrappers)


def _setting(every: Sequence[Run], configuration: Configuration) -> Setting:
    by_seed: dict[int, Run] = {}
    for run in sorted((r for r in every if r.done), key=lambda r: r.seed):
        if run.seed in by_seed:
            raise UsageError(
                f"{by_seed[run.seed].path} and {run.path} are both seed {run.seed} of one"
                " configuration: give one of them."
            )
        by_seed[run.seed] = run
    others = [r for r in every if not r.done and r.seed not in by_seed]
    others.sort(key=lambda r: r.seed)
    runs = tuple(by_seed.values())
    called = _called(every)
    return Setting(configuration=configuration, runs=runs, others=tuple(others), called=called)


def _called(every: Sequence[Run]) -> str:
    """The one name that runs of a setting have, some of them or all; "" where none has one."""
    names: dict[str, Run] = {}
    for run in every:
        if run.spec.get("name"):
            names.setdefault(run.spec["name"], run)
    if len(names) > 1:
        (one, first), (two, second) = list(names.items())[:2]
        raise UsageError(
            f"{first.path} is called {one!r} and {second.path} {two!r}, but they are runs of one"
            " setting: run the command that trained them again with one --as NAME, which renames"
            " what is there, or give the runs of one name."
        )
    return next(iter(names), "")


def _named(run: Run) -> Configuration:
    spec = run.spec
    return Configuration(
        task=spec["task"]["name"],
        defense=spec["defense"]["name"],
        params=spec["defense"]["params"],
        wrappers=spec["wrappers"],
    )


def _same(run: Run) -> dict[str, Any]:
    """All that makes runs one setting: neither seed and engine, nor attacks."""
    spec = run.spec
    return {
        "task": spec["task"]["name"],
        "defense": spec["defense"]["name"],
        "defense_params": canonical(spec["defense"]["params"]),
        "wrappers": canonical(spec["wrappers"]),
        **{f"task.{k}": v for k, v in spec["task"]["params"].items()},
        "rounds": spec["rounds"],
        "dtype": run.meta.get("dtype", spec.get("dtype")),
        **{f"record.{k}": [] for k in ("rounds", "clients")},  # named where some are chosen
        **{f"record.{k}": v for k, v in policy(run).items()},
    }


def _finer(run: Run) -> dict[str, Any]:
    return _same(run) | {"engine": run.spec.get("engine")}


def _label(name: str, facts: Mapping[str, Any], alike: Sequence[Mapping[str, Any]]) -> str:
    """The task's name, and what tells this setting from those that else look the same."""
    values: dict[str, set[str]] = {}
    for key in sorted({k for f in alike for k in f}):
        values[key] = {canonical(f.get(key)) for f in alike}
    differs = [k for k, found in values.items() if len(found) > 1]
    plain = {k: v if isinstance(v, str) else canonical(v) for k, v in facts.items()}
    absent = canonical(None)
    said = ", ".join(f"{k.removeprefix('task.')}={plain.get(k, absent)}" for k in differs)
    return f"{name}{APART}{said})" if said else name
