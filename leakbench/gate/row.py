"""A row of the gate: one number of one setting, with all that is needed to compare it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field

from leakbench.base.files import SCHEMA
from leakbench.base.meaning import Meaning
from leakbench.base.spec import Spec, canonical, fingerprint
from leakbench.gate.sketch import Sketch
from leakbench.results.number import Configuration
from leakbench.statistics.intervals import Estimate

UTILITY = "utility"
ALWAYS_GATED = frozenset({"cascade", "any_attack", UTILITY})


class GateRow(Spec):
    """One number of one setting with all that is needed to compare it.

    Its seeds are pooled, its units kept apart.

    The utility of a setting is a row too: ``attack`` "utility", ``rung`` "", ``stage`` "final",
    ``guesses`` the SHA-256 of the final model, ``truths`` that of the test data, units the test
    units, which are the same in every seed.
    """

    model_config = ConfigDict(strict=False)

    called: str = Field(default="", description="the user's name of the setting, where it has one")
    task: str
    defense: str
    defense_params: dict[str, Any] = Field(description="all parameters")
    wrappers: list[dict[str, Any]] = Field(
        default=[], description="name and params of each, in order"
    )
    attack: str = Field(description="an attack's name, cascade, any_attack or utility")
    attack_params: dict[str, Any] = Field(
        default={}, description="all parameters; of cascade, any_attack and utility none"
    )
    rung: str
    metric: str
    stage: str
    probe: bool = False

    worse: Literal["up", "down"] = Field(
        description=(
            "the direction that counts against the method: `leaks`, or where utility is lost"
        )
    )
    share: bool = Field(description="units score 0 or 1, ties and failures between")
    range: tuple[float | None, float | None] = Field(
        description="smallest and largest score; null where there is none"
    )
    unit: str
    value: float = Field(description="over all seeds, with its 95 % interval")
    low: float
    high: float
    scores: dict[int, dict[str, float]] = Field(description="seed -> unit -> score")
    clusters: dict[str, str] = Field(
        default={}, description="unit -> cluster, of the units that are not their own"
    )
    failed: dict[int, int] = Field(
        default={}, description="seed -> units on which the attack failed"
    )
    unsettled: dict[int, int] = Field(
        default={}, description="seed -> units on which the search is open, beside the failed ones"
    )
    control: float | None = Field(
        default=None, description="where nothing is defended; null in older files"
    )
    control_low: float | None = None
    control_high: float | None = None
    floor: float | None = Field(default=None, description="of a blind guess; null in older files")
    entered: dict[int, list[str]] | None = Field(
        default=None,
        description=(
            "seed -> attack folders that cascade or any_attack is made from; null in older files"
        ),
    )
    flags: list[str] = Field(default=[], description="flags of the row and of its setting")
    guesses: dict[int, list[str]] = Field(
        default={}, description="seed -> SHA-256 of every guess file that the row is made from"
    )
    code: dict[str, str] = Field(
        default={},
        description=(
            "attack folder -> digest of the code that guessed and scored; empty in older files"
        ),
    )
    truths: dict[int, list[str]] = Field(
        default={}, description="seed -> SHA-256 of every truth file that it was scored with"
    )
    version: int = Field(default=1, description="the metric's")
    setting: dict[str, Any] = Field(
        default={}, description="rounds and the task's parameters; empty in older files"
    )
    record: dict[str, Any] = Field(
        default={}, description="what was kept of the messages; empty in older files"
    )
    engine: str
    dtype: str
    run_schema: int = SCHEMA
    accepted: float | None = Field(
        default=None, description="the value last accepted, where updates moved the row since"
    )
    margin: float | None = Field(
        default=None, ge=0, description="how much worse matters; null: the metric's default"
    )
    named: bool = Field(default=False, description="gated although not by default")
    utility: float | None = Field(
        default=None, description="the setting's final utility, beside a leakage"
    )
    provenance: dict[str, Any] = {}
    meaning: Meaning | None = Field(
        default=None, exclude=True, description="the metric's; stands in the file once for all rows"
    )
    written: float | None = Field(
        default=None, exclude=True, description="the margin in the file of units, if another"
    )
    label: str = Field(default="", exclude=True, description="what its setting is called in names")
    tag: str = Field(default="", exclude=True, description="what its attack is called in names")
    sketches: dict[str, Sketch] = Field(
        default={}, exclude=True, description="of guesses and truths, by their SHA-256"
    )
    files: dict[str, tuple[Path, ...]] = Field(
        default={}, exclude=True, description="where these lie, of runs that are here"
    )

    n: int | None = Field(default=None, exclude=True, description="units, where no score is known")

    @property
    def configuration(self) -> Configuration:
        """Whose number it is."""
        return Configuration(
            task=self.task, defense=self.defense, params=self.defense_params, wrappers=self.wrappers
        )

    @property
    def estimate(self) -> Estimate:
        """Value and interval; how that was made is not recorded."""
        n, sizes = self.n, [len(units) for units in self.scores.values()]
        if n is None:  # test units are the same in every seed
            n = max(sizes, default=0) if self.attack == UTILITY else sum(sizes)
        return Estimate(self.value, self.low, self.high, n, self.unit, "")

    @property
    def has_units(self) -> bool:
        """Are its unit scores known? A report's tables hold none."""
        return all(self.scores.values())

    @property
    def means(self) -> Meaning:
        """The metric's meaning, or what the row itself says of it."""
        if self.meaning is not None:
            return self.meaning
        about = {
            "direction": self.worse,
            "low": self.range[0],
            "high": self.range[1],
            "share": self.share,
            "unit": self.unit,
            "version": self.version,
        }
        return Meaning.recorded(self.metric, about)

    @property
    def scoring(self) -> dict[str, Any]:
        """What ``leakbench.statistics`` is told of its scores."""
        return {
            "worse": self.worse,
            "share": self.share,
            "unit_range": self.range == (0.0, 1.0),
            "clusters": self.clusters,
            "crossed": self.is_utility,
        }

    @property
    def is_utility(self) -> bool:
        """Is it what the setting is good for, and no leakage?"""
        return self.attack == UTILITY

    @property
    def allowed(self) -> float | None:
        """How much worse does not matter: the row's own margin, else its metric's, or None."""
        known = None if self.meaning is None else self.meaning.matters
        return known if self.margin is None else self.margin

    @property
    def key(self) -> tuple[str, ...]:
        """What makes two rows the same row, in the order in which the file is sorted."""
        setting = canonical([self.defense_params, self.wrappers])
        return (
            *(self.task, self.defense, setting, self.attack, canonical(self.attack_params)),
            *(self.rung, self.metric, self.stage, canonical(self.probe)),
        )

    @property
    def name(self) -> str:
        """What `--accept` and messages call it: SETTING/ATTACK/RUNG/METRIC/STAGE[/probe]."""
        setting = self.label or self.called or f"{self.task}/{self.defense}"
        return f"{setting}/{self.short}"

    @property
    def short(self) -> str:
        """Its name within its setting."""
        if self.is_utility:
            return f"{UTILITY}/{self.metric}"
        tag = self.tag or self.attack
        return f"{tag}/{self.rung}/{self.metric}/{self.stage}" + "/probe" * self.probe

    @property
    def attacked_by(self) -> str:
        """The name of the folder of the attack, which is also its name in ``entered``."""
        return f"{self.attack}-{fingerprint(self.attack_params)}"

    @property
    def joins(self) -> bool:
        """Is it `cascade` or `any_attack`?"""
        return self.attack in ALWAYS_GATED and not self.is_utility

    @property
    def mean(self) -> float:
        """The value that the scores give; of a utility the mean of the seeds' values."""
        seeds = list(self.scores.values())
        if self.is_utility:
            seeds = [{"": math.fsum(units.values()) / len(units)} for units in seeds]
        every = [x for units in seeds for x in units.values()]
        return math.fsum(every) / len(every)

    @property
    def gated(self) -> bool:
        """The cascade, any_attack, the utility, and what was named."""
        return self.named or self.attack in ALWAYS_GATED
