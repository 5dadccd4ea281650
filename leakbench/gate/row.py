"""A row of the gate: a number over seeds, with all that is needed to compare it with another."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field

from leakbench.base.files import SCHEMA
from leakbench.base.meaning import Direction
from leakbench.base.part import Part
from leakbench.base.spec import canonical, fingerprint
from leakbench.gate.sketch import Sketch
from leakbench.results.number import PooledNumber
from leakbench.statistics.intervals import Estimate

UTILITY = "utility"
ALWAYS_GATED = frozenset({"cascade", "any_attack", UTILITY})
OTHER_WAY: Mapping[str, Direction] = {"up": "down", "down": "up"}


class TrainingRecord(Part):
    """How the runs behind a row were trained; as a rule the same for all rows of a setting."""

    called: str = Field("", description="the user's name of the setting, where it has one")
    setting: dict[str, Any] = Field(
        {}, description="rounds and the task's parameters; empty in older files"
    )
    record: dict[str, Any] = Field(
        {}, description="what was kept of the messages; empty in older files"
    )
    engine: str
    dtype: str
    run_schema: int = SCHEMA
    provenance: dict[str, Any] = {}


class SeedUnits(Part):
    """The units behind a row, seed by seed; a line of the file of units."""

    scores: dict[int, dict[str, float]] = Field(description="seed -> unit -> score")
    clusters: dict[str, str] = Field(
        {}, description="unit -> cluster, of the units that are not their own"
    )
    failed: dict[int, int] = Field({}, description="seed -> units on which the attack failed")
    unsettled: dict[int, int] = Field(
        {}, description="seed -> units on which the search is open, beside the failed ones"
    )
    guesses: dict[int, list[str]] = Field(
        {}, description="seed -> SHA-256 of every guess file that the row is made from"
    )
    truths: dict[int, list[str]] = Field(
        {}, description="seed -> SHA-256 of every truth file that it was scored with"
    )
    code: dict[str, str] = Field(
        {},
        description="attack folder -> digest of the code that guessed and scored; empty in older"
        " files",
    )
    entered: dict[int, list[str]] | None = Field(
        None,
        description="seed -> attack folders that cascade or any_attack is made from; null in older"
        " files",
    )

    @property
    def known(self) -> bool:
        """Are the scores known? A report's tables hold none."""
        return all(self.scores.values())

    def only(self, seeds: Collection[int]) -> SeedUnits:
        """With the scores of some of the seeds."""
        kept = {seed: units for seed, units in self.scores.items() if seed in seeds}
        return self.model_copy(update={"scores": kept})

    def lost(self, seeds: Collection[int]) -> int:
        """On how many units of these seeds the attack failed, or its search is open."""
        return sum(self.unsettled.get(seed, 0) + self.failed.get(seed, 0) for seed in seeds)


class GateRow(PooledNumber):
    """A number over seeds with all that is needed to compare it.

    The utility of a setting is a row too: ``attacker`` "utility" of rung "", ``stage`` "final",
    ``units.guesses`` the SHA-256 of the final model, ``units.truths`` that of the test data, units
    the test units, which are the same in every seed.
    """

    training: TrainingRecord
    units: SeedUnits
    control: float | None = Field(
        None, description="where nothing is defended; null in older files"
    )
    control_low: float | None = None
    control_high: float | None = None
    floor: float | None = Field(None, description="of a blind guess; null in older files")
    accepted: float | None = Field(
        None, description="the value last accepted, where updates moved the row since"
    )
    margin: float | None = Field(
        None, ge=0, description="how much worse matters; null: the metric's default"
    )
    named: bool = Field(False, description="gated although not by default")
    stated: bool = Field(
        True, description="is ``meaning`` the metric's own? else what an older file says of it"
    )
    written: float | None = Field(None, description="the margin in the file of units, if another")
    label: str = Field("", description="what its setting is called in names")
    tag: str = Field("", description="what its attack is called in names")
    sketches: dict[str, Sketch] = Field({}, description="of guesses and truths, by their SHA-256")
    files: dict[str, tuple[Path, ...]] = Field(
        {}, description="where these lie, of runs that are here"
    )

    @property
    def worse(self) -> Direction:
        """The direction that counts against the method: it leaks, or utility is lost."""
        direction = self.meaning.direction
        return OTHER_WAY[direction] if self.is_utility else direction

    @property
    def estimate(self) -> Estimate:
        """Value and interval, of the units that are known; how it was made is not recorded."""
        n, sizes = self.value.n, [len(units) for units in self.units.scores.values()]
        if self.units.known:  # test units are the same in every seed
            n = max(sizes, default=0) if self.is_utility else sum(sizes)
        return replace(self.value, n=n, interval="")

    @property
    def scoring(self) -> dict[str, Any]:
        """What ``leakbench.statistics`` is told of its scores."""
        return {
            "worse": self.worse,
            "share": self.meaning.share,
            "unit_range": self.meaning.ends == (0, 1),
            "clusters": self.units.clusters,
            "crossed": self.is_utility,
        }

    @property
    def is_utility(self) -> bool:
        """Is it what the setting is good for, and no leakage?"""
        return self.attacker.name == UTILITY

    @property
    def attacks(self) -> bool:
        """Is it the number of one attack, neither made of several nor a utility?"""
        return not (self.attacker.made or self.is_utility)

    @property
    def usual(self) -> float | None:
        """The metric's own margin; None where nobody stated it."""
        return self.meaning.matters if self.stated else None

    @property
    def allowed(self) -> float | None:
        """How much worse does not matter: the row's own margin, else its metric's, or None."""
        return self.usual if self.margin is None else self.margin

    @property
    def key(self) -> tuple[str, ...]:
        """What makes two rows the same row, in the order in which the file is sorted."""
        c = self.configuration
        return (
            *(c.task, c.defense, canonical([c.params, c.wrappers]), *self.attacker.key),
            *(self.attacker.rung, self.metric, self.stage, canonical(self.probe)),
        )

    @property
    def name(self) -> str:
        """What `--accept` and messages call it: SETTING/ATTACK/RUNG/METRIC/STAGE[/probe]."""
        c = self.configuration
        return f"{self.label or self.training.called or f'{c.task}/{c.defense}'}/{self.short}"

    @property
    def short(self) -> str:
        """Its name within its setting."""
        if self.is_utility:
            return f"{UTILITY}/{self.metric}"
        tag, rung = self.tag or self.attacker.name, self.attacker.rung
        return f"{tag}/{rung}/{self.metric}/{self.stage}" + "/probe" * self.probe

    @property
    def attacked_by(self) -> str:
        """The name of the folder of the attack, which is also its name in ``units.entered``."""
        return f"{self.attacker.name}-{fingerprint(self.attacker.params)}"

    @property
    def mean(self) -> float:
        """The value that the scores give; of a utility the mean of the seeds' values."""
        seeds = list(self.units.scores.values())
        if self.is_utility:
            seeds = [{"": math.fsum(units.values()) / len(units)} for units in seeds]
        every = [x for units in seeds for x in units.values()]
        return math.fsum(every) / len(every)

    @property
    def gated(self) -> bool:
        """The cascade, any_attack, the utility, and what was named."""
        return self.named or self.attacker.name in ALWAYS_GATED
