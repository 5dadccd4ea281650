"""The form of report.json: all that the page shows, for machines.
``ReportFile.model_json_schema()`` is its JSON schema.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA = 1
Leaks = Literal["up", "down"]


class Part(BaseModel):
    """Frozen, nothing unknown, no NaN."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Estimate(Part):
    """A number with its 95 % interval over ``n`` independent units, in their own words ("client",
    "image").
    """

    value: float
    low: float
    high: float
    n: int | None = Field(description="null where it is not recorded")
    unit: str


class Range(Part):
    """The smallest and the largest value among settings."""

    low: float
    high: float


class Span(Part):
    """A piece of a sentence; ``tone``: leak, part, held, strong or none."""

    text: str
    tone: str


class Made(Part):
    """What made the report, and when (ISO 8601)."""

    version: str
    commit: str
    dirty: bool
    at: str


class Utility(Part):
    """What the settings of a task are good for."""

    metric: str
    better: Leaks


class Question(Part):
    """What an attacker is after, judged by one metric; probes and stages before the end are
    questions of their own.

    ``label`` names it within its task. ``headline`` and ``lede`` are the page's sentences, also in
    pieces. ``floor`` and ``control``: of the worst case, over settings; null where nothing was
    attacked. ``fronts``: rung -> ids of the settings on the best trade-off.
    """

    label: str
    topic: str
    metric: str
    title: str
    meaning: str
    probe: bool
    stage: str
    verb: str
    noun: str
    leaks: Leaks
    margin: float
    floor: Range | None
    control: Range | None
    headline: str
    lede: str
    headline_spans: list[Span]
    lede_spans: list[Span]
    fronts: dict[str, list[str]]


class Task(Part):
    """Data, split and what was asked. ``clients`` is null where settings differ in it; ``split``
    the task's parameters.
    """

    id: str
    about: str
    clients: int | None
    chance: float | None
    utility: Utility | None
    split: dict[str, Any]
    questions: list[Question]


class Verdict(Part):
    """One setting on one question: the rule of docs/report.md that matched, and the page's
    sentence.
    """

    metric: str
    rule: int
    word: str
    tone: str
    sentence: str
    on_front: bool
    also: list[str]


class Sent(Part):
    """What crosses the wire in all, per kind; ``covered``: by a wrapper."""

    what: str
    kind: str
    path: str
    rounds: int
    bytes: int
    covered: bool


class Claim(Part):
    """The paper's number on our scale; ``source``: where it stands, what its spread is, how its
    setting differs.
    """

    value: float
    low: float | None
    high: float | None
    source: str


class Provenance(Part):
    """The runs a number is made of, and how they ran."""

    runs: list[str]
    engine: list[str]
    device: list[str]
    dtype: list[str]
    guess_sha256: list[str]


class Number(Part):
    """A line of tradeoff.csv. ``failed``: units on which the attack failed, null where that is not
    recorded.
    """

    attack: str
    params: dict[str, Any]
    rung: str
    observer: str
    metric: str
    leaks: Leaks
    stage: str
    round: int
    probe: bool
    estimate: Estimate
    interval: str
    floor: Estimate
    control: Estimate
    failed: int | None
    flags: list[str]
    knowledge: list[str]
    on_front: bool
    claimed: Claim | None
    command: str
    provenance: Provenance


class Curve(Part):
    """One number over the rounds; ``by``: the attack in words, empty for utility and diagnostics;
    ``floor`` may be empty.
    """

    name: str
    by: str
    rung: str
    probe: bool
    rounds: list[int]
    value: list[float]
    low: list[float]
    high: list[float]
    floor: list[float]


class Clients(Part):
    """Share by client number of how often it was hit in the worst case; null: not attacked."""

    metric: str
    probe: bool
    shares: list[float | None]


class Picture(Part):
    """One image: its bytes stand under ``sha256`` in ``pictures``; null where the attack gave none.
    ``score``: PSNR in dB.
    """

    attack: str
    params: dict[str, Any]
    unit: str
    probe: int | None
    round: int
    seed: int
    role: str
    sha256: str | None
    score: float | None
    found: float | None


class Setting(Part):
    """A configuration of a method. ``id`` is its anchor in the page; ``state``: done, dead, running
    or failed.
    """

    id: str
    task: str
    family: str
    name: str
    params: dict[str, Any]
    wrappers: list[dict[str, Any]]
    reference: bool
    state: Literal["done", "dead", "running", "failed", "not recorded"]
    why: str
    seeds: int
    dead_seeds: int
    utility: Estimate | None
    utility_metric: str
    claimed: Claim | None
    flags: list[str]
    verdict: dict[str, Verdict]
    sends: list[Sent]
    numbers: list[Number]
    clients: list[Clients]
    curves: list[Curve]
    pictures: list[Picture]
    command: str


class Missing(Part):
    """A number that a reader would look for, and why it is not there; ``settings``: ids of those
    that it may concern.
    """

    task: str
    settings: list[str]
    defense: str
    attack: str
    metric: str
    reason: str


class CheckRow(Part):
    """A gated row; see ``leakbench.reporting.data.CheckRow``."""

    verdict: str
    row: str
    ref: str
    metric: str
    old: float | None
    new: float | None
    difference: float | None
    low: float | None
    high: float | None
    margin: float | None
    why: str
    command: str


class Check(Part):
    """What `leakbench check` said; ``lines`` are the page's, the most urgent first."""

    exit: int
    heading: str
    against: str
    lines: list[str]
    rows: list[CheckRow]


class Moved(Part):
    """One number then and now; ``difference`` now minus then on the scale named, with its 95 %
    interval where it can be had.
    """

    setting: str
    task: str
    name: str
    attack: str
    metric: str
    stage: str
    probe: bool
    leaks: Leaks
    old: Estimate
    new: Estimate
    difference: float
    low: float | None
    high: float | None
    scale: Literal["difference", "factor"]
    word: str
    why: str


class Against(Part):
    """What moved since another report. ``differs``: what makes the two not like with like.
    ``only_now``, ``only_then``: settings.
    """

    name: str
    rows: list[Moved]
    differs: list[str]
    only_now: list[str]
    only_then: list[str]


class ReportFile(Part):
    """report.json."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, populate_by_name=True
    )

    format: int = Field(alias="schema", description="1")
    title: str
    made: Made
    redacted: bool
    headline: str
    tasks: list[Task]
    settings: list[Setting]
    pictures: dict[str, str] = Field(
        description="SHA-256 of a PNG -> its bytes in base64; empty where redacted"
    )
    missing: list[Missing]
    check: Check | None
    against: Against | None
