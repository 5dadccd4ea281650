"""The numbers of one setting over its seeds, and why those that lack cannot be had."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from leakbench.base.errors import UsageError
from leakbench.base.reason import Reason, in_words, reason
from leakbench.record import origin
from leakbench.record.attack_code import differ
from leakbench.record.columns import STAGES
from leakbench.results import cascade, claims, paired
from leakbench.results.lacking import Lack
from leakbench.results.listener import Listener
from leakbench.results.number import ANY, MADE, Claim, Evaluated, Measured, Number, Power, Utility
from leakbench.results.settings import Setting
from leakbench.results.units import pooled_estimates
from leakbench.results.utility import of_runs
from leakbench.scoring import flags
from leakbench.statistics.intervals import Estimate, NoInterval

ROUNDING = 1e-12  # by which two means of the same scores may differ


@dataclass(frozen=True, eq=False)
class Pooling:
    """What every number of a setting shares."""

    setting: Setting
    evaluated: Sequence[Evaluated]  # its complete runs
    final: Utility

    def numbers(
        self, measured: Sequence[Measured]
    ) -> tuple[list[Number], list[Number], list[Lack]]:
        """Every number, `on_front` still to be decided, those of each listener, what is missing.

        ``measured``: all numbers of all attacks on the runs. Of each listener are, where there are
        several, its own `cascade` and `any_attack`.
        """
        out: list[Number] = []
        heard: list[Number] = []
        missing: list[Lack] = []
        weak = set()
        for key, seeds in _by_key(measured).items():
            same = list(seeds.values())
            try:
                out.append(self._number(same))
            except NoInterval as error:
                at = {"stages": [key[3]], "probe": None, "of": in_words(str(error))}
                missing.append((key[0], key[2], reason("at", **at)))
                continue
            power = out[-1].power
            if power is not None and not (power.shown or power.beyond):
                weak.add(key)
        # Kind, metric, probe, why -> stages.
        none: dict[tuple[str, str, bool, Reason], list[str]] = defaultdict(list)
        for (metric, probe, stage), asked in cascade.questions(measured).items():
            for kind in MADE:
                parts = cascade.entering(kind, asked, lambda m: m.key in weak)
                if not parts:
                    none[kind, metric, probe, cascade.why_none(kind, asked)].append(stage)
                    continue
                lacking = _lacking(asked, parts)
                missing += [(kind, metric, _at(probe, why, stage)) for why in lacking]
                try:
                    joined = self._joined(kind, parts)
                except NoInterval as error:
                    missing.append((kind, metric, _at(probe, in_words(str(error)), stage)))
                    continue
                out.append(joined.model_copy(update={"uneven": lacking}))
            there = cascade.listeners(asked)
            for listener in there if len(there) > 1 else ():
                heard += self._made(listener, cascade.heard_by(listener, asked), weak)
        for (kind, metric, probe, why), stages in none.items():
            missing.append((kind, metric, _at(probe, why, *stages)))
        return out, heard, missing

    def _made(
        self, listener: Listener, asked: Sequence[Measured], weak: set[tuple[Any, ...]]
    ) -> Iterator[Number]:
        """`cascade` and `any_attack` of one kind of listener; why one lacks is said of all."""
        for kind in MADE:
            parts = cascade.entering(kind, asked, lambda m: m.key in weak)
            with suppress(NoInterval):
                for n in [self._joined(kind, parts)] if parts else []:
                    known = {"uneven": _lacking(asked, parts), "heard_by": listener}
                    yield n.model_copy(update=known)

    def _joined(self, kind: str, parts: Sequence[Measured]) -> Number:
        """Many attacks as one: of who may join them whoever reaches most.

        Raises:
            NoInterval: none of them has one.
        """
        found: list[Number] = []
        for own in cascade.parties(kind, parts):
            try:
                found.append(self._of_one(kind, own))
            except NoInterval as error:
                why = error
        if not found:
            raise why
        best = max(found, key=lambda n: n.leak)
        # Picked among all of them: whoever compares it later asks for each.
        tried = [cascade.beside(m, parts) for m in best.parts]
        return best.model_copy(update={"parts": tuple(tried)})

    def _of_one(self, kind: str, parts: Sequence[Measured]) -> Number:
        """The attacks of one attacker as one, of each seed what ran there.

        Where attacks are of unlike seeds or units, one alone may be worse than their mixture: the
        worst case is then that one.
        """
        stages = {m.stage for m in parts}
        stage = stages.pop() if len(stages) == 1 else "all"
        best = self._number(_by_seed(kind, parts, stage))
        by_key: dict[tuple[Any, ...], list[Measured]] = defaultdict(list)
        for m in parts:
            by_key[m.key].append(m)
        if kind != ANY or len({_units(own) for own in by_key.values()}) == 1:
            return best
        for mine in by_key.values():
            try:
                alone = self._number(_by_seed(kind, mine, stage))
            except NoInterval:  # then it has no number of its own either
                continue
            best = alone if alone.leak > best.leak + ROUNDING else best
        return best

    def _number(self, seeds: Sequence[Measured]) -> Number:
        first, own = seeds[0], {m.run.seed for m in seeds}
        found, newest = pooled_estimates(seeds), max(m.round for m in seeds)
        several = {
            "observer": cascade.distinct(o for m in seeds for o in m.attacker.observer),
            "knowledge": cascade.distinct(k for m in seeds for k in m.attacker.knowledge),
        }
        marks = self._flags(seeds, own)
        if flags.control_failed(first.meaning.direction, found["floor"], found["control"]):
            marks.add("control_failed")
        return Number(
            configuration=self.setting.configuration,
            attacker=first.attacker.model_copy(update=several),
            meaning=first.meaning,
            stage=first.stage,
            round=newest,
            probe=first.probe,
            seeds=tuple(sorted(own)),
            value=found["attack"],
            floor=found["floor"],
            control=found["control"],
            failed=sum(m.failed for m in seeds),
            tried=sum(len(m.units["attack"]) for m in seeds),
            flags=frozenset(marks),
            claim=claim(self.setting, first.meaning.name, first.stage, newest),
            utility=self.final,
            power=power(seeds, found["attack"], found["floor"], found["control"]),
            parts=tuple(seeds),
        )

    def _flags(self, seeds: Sequence[Measured], own: set[int]) -> set[str]:
        units = [u for m in seeds for u in m.units["attack"]]
        out = {f for m in seeds for f in m.flags} & flags.CARRIED
        out |= flags.of_seeds(len(own))
        out |= of_runs([e for e in self.evaluated if e.run.seed in own])
        out |= flags.of_units([u.cluster for u in units], [u.failed for u in units])
        # A configuration is dead, or undertrained, if any of its seeds is, attacked or not.
        out |= self.final.flags & {"dead_run", *flags.OF_TRAINING}
        return out | ({"probe"} if seeds[0].probe else set())


def power(seeds: Sequence[Measured], value: Estimate, floor: Estimate, control: Estimate) -> Power:
    """What the units of one number say of its attack.

    Args:
        seeds: the same number of each seed.
        value: over the seeds; so are ``floor`` and ``control``.
        floor: the blind guess.
        control: what the attack reaches where nothing is defended.
    """
    return Power(
        shown=paired.control_shown(seeds, floor, control),
        beyond=paired.beyond_floor(seeds, value, floor),
        clusters=paired.cluster_count(seeds),
        needed=paired.needed(seeds, floor, value.interval),
        unsettled=sum(paired.unsettled(m) for m in seeds),
        as_good=sum(paired.as_good(m) for m in seeds),
    )


def claim(
    setting: Setting, metric: str, stage: str = "final", round: int | None = None
) -> Claim | None:
    """The paper's number; none under a wrapper, of which no paper speaks."""
    spec = setting.one.spec
    if setting.configuration.wrappers:
        return None
    name, params = spec["defense"]["name"], spec["defense"]["params"]
    task, about = spec["task"]["name"], setting_fields(setting)
    found = claims.find_claim(name, params, task, metric, about, stage=stage, round=round)
    unofficial = any("unofficial_data" in origin.lasting(run.meta) for run in setting.every)
    return claims.claim_beside(found, unofficial=unofficial)


def setting_fields(setting: Setting) -> dict[str, Any]:
    """What a paper's setting is compared with."""
    spec, facts = setting.one.spec, dict(setting.one.meta.get("facts", {}))
    defense = {k: v for k, v in spec["defense"]["params"].items() if k == "fraction"}
    return facts | dict(spec["task"]["params"]) | defense | {"rounds": spec["rounds"]}


def _by_key(measured: Sequence[Measured]) -> dict[tuple[Any, ...], dict[int, Measured]]:
    out: dict[tuple[Any, ...], dict[int, Measured]] = defaultdict(dict)
    for m in measured:
        if m.stage == "curve":
            continue
        seeds, name = out[m.key], m.meaning.name
        if m.run.seed in seeds:
            raise UsageError(
                f"{m.run.path} holds {m.attacker.name} with the same parameters twice"
                f" ({name}): delete one of the two folders."
            )
        if any(o.meaning.version != m.meaning.version for o in seeds.values()):
            raise UsageError(
                f"{name} was scored by different versions in the seeds of {m.run.id}: score these"
                " runs again."
            )
        for other in seeds.values():
            _made_by_the_same(other, m)
        seeds[m.run.seed] = m
    return dict(sorted(out.items()))


def _made_by_the_same(one: Measured, two: Measured) -> None:
    """Seeds of a number differ by their dice, not by the attack."""
    (first, of), (second, by) = *one.code.items(), *two.code.items()
    parts = differ(of, by)
    if parts:
        raise UsageError(
            f"{one.run.path}/attacks/{first} and {two.run.path}/attacks/{second} were"
            f" {'scored' if parts == ('scoring',) else 'made'} by different code of"
            f" {one.attacker.name}, so they are not seeds of one number: leakbench attack brings"
            " both up to date."
        )


def _lacking(asked: Sequence[Measured], parts: Sequence[Measured]) -> tuple[Reason, ...]:
    """Which attack has no number in which seeds that others have, a clause each.

    Args:
        asked: all numbers of one question.
        parts: those that enter.
    """
    seeds = {m.run.seed for m in asked}
    own: dict[tuple[Any, ...], set[int]] = defaultdict(set)
    for m in parts:
        own[m.key].add(m.run.seed)
    names: dict[str, int] = defaultdict(int)
    for key in own:
        names[key[0]] += 1
    out = []
    for (name, params, _, stage, *_), there in own.items():
        gone = sorted(seeds - there)
        which = name if names[name] == 1 else f"{name} {params} at stage {stage}"
        out += [reason("seed_lacks", attack=which, seeds=gone)] if gone else []
    return tuple(dict.fromkeys(out))


def _units(parts: Sequence[Measured]) -> frozenset[tuple[int, str]]:
    """Every unit that was attacked, with its seed."""
    return frozenset((m.run.seed, u.name) for m in parts for u in m.units["attack"])


def _by_seed(kind: str, parts: Sequence[Measured], stage: str) -> list[Measured]:
    by_seed: dict[int, list[Measured]] = defaultdict(list)
    for m in parts:
        by_seed[m.run.seed].append(m)
    return [cascade.combine(kind, by_seed[s], stage) for s in sorted(by_seed)]


def _at(probe: bool, why: Reason, *stages: str) -> Reason:
    ordered = sorted(stages, key=STAGES.index)
    return reason("at", stages=ordered, probe=probe, of=why)
