"""One number, with all that must be known to believe it.

Who attacked, what, when, and between which blind guess and which control.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from pydantic import Field, PlainSerializer, computed_field

from leakbench.base.meaning import Meaning
from leakbench.base.part import Part
from leakbench.base.reason import Reason, Why
from leakbench.base.spec import canonical
from leakbench.record.columns import RUNGS
from leakbench.record.folders import Run
from leakbench.results.listener import Listener, listener_of
from leakbench.scoring import flags
from leakbench.statistics.intervals import Estimate

UNIT = "test unit"  # of utility
CASCADE, ANY = "cascade", "any_attack"
MADE = (CASCADE, ANY)  # numbers made from the units of attacks

APART = " ("  # between a task's name and what tells it apart; no task's name has it

# Rows of the last round, of all rounds together, and of what is sent outside the rounds, where that
# is attacked apart: one question.
END = ("final", "all", "after", "before")

Scores = np.ndarray[Any, np.dtype[np.float64]]
Flags = Annotated[frozenset[str], PlainSerializer(flags.ordered, return_type=list[str])]
ByName = Annotated[Meaning, PlainSerializer(lambda meaning: meaning.name, return_type=str)]


def when(stage: str) -> str:
    """The stage that is asked about: `final` and `all` are one."""
    return "final" if stage in END else stage


class Configuration(Part):
    """All that tells one setting of a method from another; seeds are pooled."""

    task: str  # its name, and more only where two would else look alike
    defense: str
    params: dict[str, Any]
    wrappers: list[dict[str, Any]] = []

    @cached_property
    def key(self) -> str:
        """A text that no other configuration has."""
        return canonical([self.task, self.defense, self.params, self.wrappers])

    @property
    def plain_task(self) -> str:
        """The task's name alone."""
        return self.task.split(APART)[0]

    @property
    def wrapped(self) -> tuple[str, ...]:
        """The names of the wrappers, the outermost last."""
        return tuple(w["name"] for w in self.wrappers)


class Attacker(Part):
    """Who attacked: the attack and its parameters, its strength, what it reads and knows."""

    name: str
    params: dict[str, Any] = {}
    rung: str
    observer: tuple[str, ...] = ()
    knowledge: tuple[str, ...] = ()
    reads: tuple[str, ...] = Field((), exclude=True)  # the kinds of clients' messages it attacks
    pools: bool = Field(False, exclude=True)  # does it add up all rounds?
    conditions: tuple[str, ...] = Field((), exclude=True)  # how it was made, in a few words each
    active: bool = Field(False, exclude=True)  # did the server choose what it sent?

    @property
    def made(self) -> bool:
        """Is it `cascade` or `any_attack`?"""
        return self.name in MADE

    @property
    def paper(self) -> bool:
        """Is it what the method's own paper measures?"""
        return self.rung == "paper" and not self.made

    @property
    def listener(self) -> Listener:
        """Who it is; of what several made the strongest."""
        return listener_of(self.observer, active=self.active)

    @property
    def party(self) -> tuple[str, ...]:
        """Who it is by name; the server is one, whether or not it chose what it sent."""
        return tuple(name.removesuffix("+") for name in self.observer) or ("server",)

    @property
    def strength(self) -> int:
        """The place of its rung, the weakest first."""
        return RUNGS.index(self.rung)

    @cached_property
    def key(self) -> tuple[str, str]:
        """Name and parameters: attacks of one key are pooled over seeds."""
        return self.name, canonical(self.params)


class Claim(Part):
    """A paper's number on our scale."""

    value: float
    low: float | None  # value - spread, None where no spread is given
    high: float | None  # value + spread
    source: str  # where it stands, and how its setting differs
    differs: str = Field("", exclude=True)  # the first thing in which it does, where that is known

    @property
    def place(self) -> str:
        """Where it stands, without how its setting differs."""
        return self.source.split(";")[0]


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit's score."""

    name: str
    cluster: str
    score: float
    failed: bool
    accepted: bool  # by the attack's own self-check
    settled: bool = True  # False: the attack says that its search did not converge


@dataclass(frozen=True)
class Environment:
    """How a number came about."""

    engine: str
    device: str
    dtype: str
    version: str
    commit: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Measured:
    """A number of one run."""

    run: Run
    attacker: Attacker
    meaning: Meaning
    stage: str
    round: int
    probe: bool
    value: Estimate
    floor: Estimate
    control: Estimate
    flags: frozenset[str]
    order: int  # the attack's, within its rung
    units: Mapping[str, tuple[Unit, ...]]  # by role (attack, floor, control)
    exact: frozenset[str]  # the roles whose number a formula gave, so that it has no width
    guesses: Mapping[str, str]  # SHA-256 of what it was scored from, by attack folder
    code: Mapping[str, Mapping[str, str]]  # digests of what guessed and scored it, likewise
    made: Environment

    @property
    def failed(self) -> int:
        """Units on which the attack failed: they score what the blind guess scores."""
        return sum(u.failed for u in self.units["attack"])

    @property
    def key(self) -> tuple[str, str, str, str, bool]:
        """What is pooled over seeds: attack, its parameters, metric, stage, probe."""
        return (*self.attacker.key, self.meaning.name, self.stage, self.probe)

    @cached_property
    def by_name(self) -> dict[str, dict[str, Unit]]:
        """Role -> unit's name -> its score."""
        out: dict[str, dict[str, Unit]] = {}
        for role, units in self.units.items():
            out[role] = {u.name: u for u in units}
        return out


@dataclass(frozen=True)
class Evaluation:
    """One line of a run's utility.csv."""

    round: int
    value: float
    low: float
    high: float
    n: int
    scores: Scores | None  # (test units,); None where the metric is not their mean (EER)

    @property
    def estimate(self) -> Estimate:
        """Without the scores."""
        return Estimate(self.value, self.low, self.high, self.n, UNIT, "student")


@dataclass(frozen=True, eq=False)
class Evaluated:
    """A run's utility over its rounds."""

    run: Run
    meaning: Meaning
    evaluations: tuple[Evaluation, ...]
    dead: Reason | None  # why the run is dead
    # How much of all that it gained came at its end (``leakbench.results.rise``); None: too few
    # evaluations to tell.
    rise: float | None

    @property
    def flags(self) -> set[str]:
        """What its own curve says of every number made from it."""
        return ({"dead_run"} if self.dead else set()) | flags.of_rises([self.rise])


class Utility(Part):
    """What a configuration is good for, over its seeds."""

    configuration: Configuration = Field(exclude=True)
    meaning: ByName = Field(serialization_alias="metric")
    statistic: str  # final, best or last10
    seeds: tuple[int, ...]
    rounds: int
    value: Estimate
    each: Mapping[int, float] = Field({}, exclude=True)  # of each seed; {} if read from a table
    chance: float
    flags: Flags
    claim: Claim | None = None

    @property
    def alive(self) -> bool:
        """Is it beyond chance in its better direction?"""
        end = self.value.low if self.meaning.direction == "up" else self.value.high
        return self.meaning.worse(end, self.chance)

    @property
    def undertrained(self) -> bool:
        """Did some seed still learn fast when its training ended?"""
        return flags.UNDERTRAINED in self.flags

    @property
    def gain(self) -> float:
        """Turned so that more is better."""
        return self.value.value if self.meaning.direction == "up" else -self.value.value


class Provenance(Part):
    """The runs a number is made of, how they ran, and the guesses that were scored."""

    runs: tuple[str, ...]
    engine: tuple[str, ...]
    device: tuple[str, ...]
    dtype: tuple[str, ...]
    commit: tuple[str, ...]
    guess_sha256: tuple[str, ...]


class Power(Part):
    """What a number's units say of the attack beside their mean."""

    shown: bool  # is the control beyond the blind guess, by intervals or unit by unit?
    beyond: bool  # is the attack itself?
    clusters: int  # of units, over all seeds
    needed: int  # how many it takes to show that even a perfect attack works
    unsettled: int  # units on which the search is open, beside those that failed
    as_good: int  # units whose guess is as good as the original


class PooledNumber(Part):
    """A number over seeds, wherever it was read: whose it is, by whom, when, and how much."""

    configuration: Configuration = Field(exclude=True)
    attacker: Attacker
    meaning: ByName = Field(serialization_alias="metric")
    stage: str
    probe: bool
    value: Estimate
    flags: Flags

    @property
    def metric(self) -> str:
        """The metric's name."""
        return self.meaning.name

    @property
    def asked(self) -> tuple[str, bool, str]:
        """The question that it answers: metric, probes or real messages, stage."""
        return self.metric, self.probe, when(self.stage)


class Number(PooledNumber):
    """A number of one configuration with all that must be known to judge it."""

    round: int
    seeds: tuple[int, ...]
    floor: Estimate
    control: Estimate
    failed: int  # unit scores that are the blind guess's, for want of a guess; of ``tried``
    tried: int
    on_front: bool = False
    claim: Claim | None = None
    command: str = ""  # what makes it again
    utility: Utility = Field(exclude=True)
    heard_by: Listener | None = Field(None, exclude=True)  # of what was made of its attacks alone
    power: Power | None = Field(None, exclude=True)  # None where it was read from a table
    # Of a number made of several attacks: which of them lacks which seeds.
    uneven: tuple[Reason, ...] = Field((), exclude=True)
    # The seeds' own; none where it was read from a table.
    parts: tuple[Measured, ...] = Field((), exclude=True)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def provenance(self) -> Provenance:
        """The runs it is made of, and how they ran."""
        made = [m.made for m in self.parts]
        return Provenance(
            runs=tuple(m.run.id for m in self.parts),
            engine=tuple(sorted({m.engine for m in made})),
            device=tuple(sorted({m.device for m in made})),
            dtype=tuple(sorted({m.dtype for m in made})),
            commit=tuple(sorted({m.commit for m in made})),
            guess_sha256=tuple(sorted({sha for m in self.parts for sha in m.guesses.values()})),
        )

    @cached_property
    def key(self) -> str:
        """A text that no other number of a report has."""
        at = [*self.attacker.key, self.metric, self.stage, self.probe]
        return self.configuration.key + canonical(at)

    def turned(self, value: float) -> float:
        """On the scale on which differences are taken, turned so that more is more leakage."""
        scaled = self.meaning.scaled(value)
        return scaled if self.meaning.direction == "up" else -scaled

    def unturned(self, leak: float) -> float:
        """The value that is ``leak`` when turned: the inverse of ``turned``."""
        scaled = leak if self.meaning.direction == "up" else -leak
        return math.exp(scaled) if self.meaning.scale == "log" else scaled

    @property
    def leak(self) -> float:
        """The value, turned."""
        return self.turned(self.value.value)

    @property
    def low(self) -> float:
        """The end of the interval on the side of the blind guess, turned."""
        return min(self.turned(self.value.low), self.turned(self.value.high))

    @property
    def high(self) -> float:
        """The end of the interval on the side of the control, turned."""
        return max(self.turned(self.value.low), self.turned(self.value.high))

    @property
    def blind(self) -> float:
        """The blind guess, turned."""
        return self.turned(self.floor.value)

    @property
    def blind_high(self) -> float:
        """The most that the blind guess may reach, turned."""
        return max(self.turned(self.floor.low), self.turned(self.floor.high))

    @property
    def best(self) -> float:
        """What the attack can do, turned, and no better than "as good as the original".

        That is the control, or what it found here where that is more.
        """
        as_good = self.meaning.as_good
        cap = math.inf if as_good is None else self.turned(as_good)
        if not self.controlled:
            return math.inf if self.success is None else self.success
        return min(max(self.turned(self.control.value), self.leak), cap)

    @property
    def controlled(self) -> bool:
        """Did anybody run the attack where nothing is defended?"""
        return "no_control" not in self.flags

    @property
    def success(self) -> float | None:
        """What an attack reaches that finds all there is, turned.

        As good as the original, or else the end of the range. None where the metric has neither.
        """
        low, high = self.meaning.ends
        end = high if self.meaning.direction == "up" else low
        if self.meaning.as_good is not None:
            end = self.meaning.as_good
        return None if math.isinf(end) else self.turned(end)

    @property
    def able(self) -> bool:
        """Does the control get at least half way from the blind guess to ``success``?

        Else the attack finds little even where nothing is defended, and finding nothing here says
        nothing.
        """
        if self.success is None or not self.controlled:
            return False
        return self.best >= self.blind + (self.success - self.blind) / 2 - 1e-12

    @property
    def half(self) -> float:
        """Half way from the blind guess to the control, turned."""
        return self.blind + (self.best - self.blind) / 2

    @property
    def weak(self) -> bool:
        """Does the attack say nothing?

        It was not shown to work where nothing is defended, or hardly beats the blind guess there.
        What is beyond the blind guess, or as good as the original, has been found all the same.
        """
        if not self.controlled or self.beyond or (self.power and self.power.as_good):
            return False
        shown = "control_failed" not in self.flags if self.power is None else self.power.shown
        return not shown or self.few or self.best - self.blind < 2 * self.meaning.matters

    @property
    def beyond(self) -> bool:
        """Is it beyond its own blind guess, by the two intervals or unit by unit?"""
        return self.low > self.blind_high or (self.power is not None and self.power.beyond)

    @property
    def few(self) -> bool:
        """Are there too few clusters of units to show that even a perfect attack works?"""
        return self.power is not None and self.power.clusters < self.power.needed

    @property
    def excess(self) -> float:
        """How far the high is beyond the number's own blind guess and the margin.

        At most 0 where it held.
        """
        over = self.high - (self.blind + self.meaning.matters)
        return 0.0 if abs(over) < 1e-12 else over


class Missing(Part):
    """A number that a reader would look for, and why it is not there."""

    configuration: Configuration = Field(exclude=True)
    attack: str
    metric: str
    reason: Why
    # The metric's, where an attack measured it elsewhere.
    meaning: Meaning | None = Field(None, exclude=True)

    @property
    def fits(self) -> bool:
        """Would the attack fit what is sent? If not, nobody would look for its number here."""
        return self.reason.code != "unfit"


class Diagnostic(Part):
    """What a run says of itself in a round."""

    run: str
    round: int
    name: str
    value: float
