"""One line of a recipe's table, the paper's number beside ours, and the CSV file of such lines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import starmap, zip_longest
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from leakbench.base.errors import BrokenFile
from leakbench.base.files import read_csv, write_csv
from leakbench.base.meaning import Meaning
from leakbench.base.part import Part
from leakbench.base.spec import canonical
from leakbench.federation.utility import METRICS
from leakbench.results.cells import claim_cells, claimed_in
from leakbench.results.number import Claim
from leakbench.scoring import flags
from leakbench.statistics.intervals import Estimate
from leakbench.statistics.looks import InterimLook

COLUMNS = (
    *("recipe", "scale", "dataset", "task", "label", "method", "params", "measure", "metric"),
    *("attack", "attack_params", "claimed", "claimed_low", "claimed_high", "claimed_source"),
    *("value", "low", "high", "n", "unit", "std", "floor", "control", "chance"),
    *(
        "flags",
        "seeds",
        "rounds",
        "rise",
        "engine",
        "device",
        "dtype",
        "commit",
        "runs",
        "twin",
        "differs",
        "differs_as",
        "kept",
        "each",
        "seconds",
        "note",
    ),
)
# Columns that a table of before lacks, as does one of which no row fills them.
LATER = ("rise", "twin", "differs_as", "kept", "each", "seconds")
FEWEST = 3  # seeds, from which on an interval speaks of the method
UNTUNED = "untuned"  # the flag of the best of some values of which not all were tried
KEPT = "from an earlier table"
# What a difference is of: the row itself, which is none of the paper's; its data, in whose place
# others are; a parameter that is not the method's default; or all else of the setup.
Kind = Literal["row", "data", "default", "setup"]


def _read(parse: Callable[[str], Any]) -> BeforeValidator:
    """A cell of the file; what is no text is a value already."""
    return BeforeValidator(lambda v: parse(v) if isinstance(v, str) else v)


def _yes(true: bool) -> str:
    return "yes" * true


def _seeds(each: Mapping[int, float]) -> str:
    return canonical({str(seed): value for seed, value in each.items()}) if each else ""


def _split(sign: str) -> BeforeValidator:
    return _read(lambda cell: cell.split(sign))


def _join(sign: str) -> PlainSerializer:
    return PlainSerializer(lambda parts: sign.join(map(str, parts)), return_type=str)


Params = Annotated[dict[str, Any], _read(json.loads), PlainSerializer(canonical, return_type=str)]
Flags = Annotated[
    frozenset[str], _read(flags.split_flags), PlainSerializer(flags.join, return_type=str)
]
Seeds = Annotated[dict[int, float], _read(json.loads), PlainSerializer(_seeds, return_type=str)]
Words = Annotated[tuple[str, ...], _split("|"), _join("|")]


class Departure(NamedTuple):
    """From the paper, in a phrase; ``kind``: of what it is, "" in a table that does not say."""

    text: str
    kind: Kind | Literal[""] = ""


class Measurement(Part):
    """Our number with its 95 % interval."""

    value: float
    low: float | None = None  # None of a single number, which has no interval; so is ``high``
    high: float | None = None
    n: int  # of how many units it is the mean
    unit: str  # what one is
    each: Seeds = {}  # of each seed; {} of what an attack found, and where nobody knows
    # How the metric is read; None of a view or a study, and of an attack's read from a file.
    meaning: Meaning | None = Field(None, exclude=True)
    claimed: float | None = Field(None, exclude=True)  # the paper's number of the same
    # How many seeds it is of, and how many were planned, which no file tells.
    look: InterimLook = Field(InterimLook(FEWEST, FEWEST), exclude=True)

    @model_validator(mode="after")
    def _within(self) -> Self:
        if not self.lowest - 1e-9 <= self.value <= self.highest + 1e-9:
            raise ValueError("the value is not within its interval")
        return self

    @classmethod
    def of(
        cls, e: Estimate, meaning: Meaning | None = None, each: Mapping[int, float] | None = None
    ) -> Self:
        """An estimate of a metric; ``each``: what the seeds came to."""
        found = {"value": e.value, "low": e.low, "high": e.high, "n": e.n, "unit": e.unit}
        return cls(**found, meaning=meaning, each=dict(each or {}))

    @property
    def lowest(self) -> float:
        """The lower end of its interval; the value where it has none."""
        return self.value if self.low is None else self.low

    @property
    def highest(self) -> float:
        """The upper end of its interval; the value where it has none."""
        return self.value if self.high is None else self.high

    def text(self, beside: str = "") -> str:
        """Value and interval, ``beside`` between them.

        To three decimals, or to three digits where decimals would show nothing of either.
        """
        largest = max(abs(x) for x in (self.value, self.lowest, self.highest))
        form = ".2e" if 0 < largest < 5e-4 else ".3f"
        width = "" if self.low is None else f" [{self.lowest:{form}}, {self.highest:{form}}]"
        return f"{self.value:{form}}{beside}{width}"


class Row(Part):
    """A case on a data set and one measure of it."""

    recipe: str
    scale: str
    dataset: str
    task: str
    label: str
    method: str = ""
    params: Params = {}
    measure: str
    metric: str
    attack: str = ""
    attack_params: Params | None = None
    claim: Claim | None = None  # the paper's number
    # What was measured here; where there is none, ``note`` says why.
    ours: Measurement | None = None
    std: float | None = None  # over what the measure's ``over`` says
    floor: float | None = None  # of an attack's number, like ``control``
    control: float | None = None
    chance: float | None = None  # of a utility
    flags: Flags = frozenset()
    seeds: Annotated[tuple[int, ...], _split("|"), _join("|")] = ()
    rounds: int | None = None
    seconds: float | None = None  # that a run of it took, attacks and all, where that was seen
    # How much of all that its runs gained came at their end, of the steepest of them
    # (``leakbench.results.rise``); None where nobody knows, as of a table of before.
    rise: float | None = None
    # What the same run of three rounds came to by the code that made it (``reproduce.twin``).
    twin: Params | None = None
    engine: Words = ()
    device: Words = ()
    dtype: Words = ()
    commit: Words = ()
    runs: Words = ()
    # From the paper, a phrase each, and of what it is: ``differences``.
    differs: Annotated[tuple[str, ...], _split("; "), _join("; ")] = ()
    differs_as: Annotated[tuple[Kind, ...], _split("|"), _join("|")] = ()
    # Is it of the table that lay here before, its runs gone?
    kept: Annotated[bool, _read("yes".__eq__), PlainSerializer(_yes, return_type=str)] = False
    note: str = ""

    @field_validator("differs_as")
    @classmethod
    def _each(cls, kinds: tuple[Kind, ...], info: ValidationInfo) -> tuple[Kind, ...]:
        """One for each difference, or none at all."""
        if kinds and len(kinds) != len(info.data.get("differs", ())):
            raise ValueError("not one for each difference")
        return kinds

    @model_validator(mode="after")
    def _of_its_seeds(self) -> Self:
        """Each seed counts once, and the number is one of what they came to, or between."""
        if len({*self.seeds}) != len(self.seeds):
            raise ValueError("a seed is there twice")
        each = self.ours.each if self.ours else {}
        if each and {*each} != {*self.seeds}:
            raise ValueError("each is not of these seeds")
        found = sorted(each.values())
        if self.ours and found and not found[0] - 1e-9 <= self.ours.value <= found[-1] + 1e-9:
            raise ValueError("the value is not among what its seeds came to")
        return self

    @property
    def dead(self) -> bool:
        """Was a run that it comes from dead?"""
        return "dead_run" in self.flags

    @property
    def untuned(self) -> bool:
        """Does its paper report the best of values of which not all were tried?"""
        return UNTUNED in self.flags

    @property
    def undertrained(self) -> bool:
        """Did a run that it comes from still rise steeply at its end?"""
        return flags.UNDERTRAINED in self.flags

    @property
    def unofficial(self) -> bool:
        """Are its data not, byte for byte, the official set's?"""
        return "unofficial_data" in self.flags

    @property
    def stand_in(self) -> bool:
        """Are its data in the place of the paper's?"""
        return "data" in self.differs_as or "stand_in_data" in self.flags

    @property
    def differences(self) -> tuple[Departure, ...]:
        """From the paper."""
        told = zip_longest(self.differs, self.differs_as, fillvalue="")
        return tuple(starmap(Departure, told))

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be said of it beside its number."""
        return tuple(filter(None, (self.note, KEPT * self.kept)))

    @property
    def cells(self) -> dict[str, Any]:
        """By column; "" where there is nothing."""
        found = self.model_dump() | claim_cells(self.claim)
        found |= found["ours"] or {}
        known = {c: found.get(c) for c in COLUMNS}
        return {c: "" if v is None else v for c, v in known.items()}


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write the table.

    Raises:
        UsageError: the place cannot be written.
    """
    cells = [row.cells for row in rows]
    told = {c for c in LATER for line in cells if line[c] != ""}
    write_csv(path, [c for c in COLUMNS if c in told or c not in LATER], cells)


def read_rows(path: Path) -> list[Row]:
    """A table that ``write`` wrote.

    Raises:
        BrokenFile: it is missing, a column lacks, a cell is not what its column says, or its rows
            are of no one table.
    """
    rows = []
    for line in read_csv(path, [c for c in COLUMNS if c not in LATER]):
        try:
            rows.append(_row(line))
        except ValidationError as error:
            what = error.errors()[0]
            where = ", ".join(filter(None, (line["label"], *map(str, what["loc"]))))
            raise BrokenFile(
                f"{path} is damaged ({where}: {what['msg']}). Make it again."
            ) from None
    if told := next(_unlike(rows), ""):
        raise BrokenFile(f"{path} is damaged ({told}). Make it again.")
    return rows


def _unlike(rows: Sequence[Row]) -> Iterator[str]:
    """What rows have that are of no one table: what is compared in it would not be alike."""
    seen = set[tuple[str, ...]]()
    one = dict[tuple[str, ...], object]()
    for r in rows:
        place = (r.dataset, r.label, r.measure)
        if place in seen:
            yield f"{r.label}, {r.measure}: a row is there twice"
        seen.add(place)
        alike: dict[tuple[str, ...], object] = {
            ("recipe",): r.recipe,
            ("scale",): r.scale,
            ("metric", r.measure): r.metric,
            ("attack", r.measure): (r.attack, canonical(r.attack_params or {})),
        }
        if r.ours:
            alike |= {("task", r.dataset): r.task, ("rounds", r.dataset): r.rounds}
        for what, value in alike.items():
            if one.setdefault(what, value) != value:
                yield f"{r.label}, {r.measure}: another {what[0]} than in a row before"


def _row(line: Mapping[str, str]) -> Row:
    given = {k: v for k, v in line.items() if v and not k.startswith("claimed")}
    ours: dict[str, Any] = {k: given.pop(k) for k in Measurement.model_fields if k in given}
    if ours and "attack" not in given and given.get("metric") in METRICS:
        ours["meaning"] = METRICS[given["metric"]].meaning
    return Row.model_validate({**given, "ours": ours or None, "claim": claimed_in(line)})
