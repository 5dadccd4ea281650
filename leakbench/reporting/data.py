"""What a report is: one value, handed to every format; its dump is report.json."""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, computed_field, field_serializer

from leakbench.base.meaning import Meaning
from leakbench.base.part import Part
from leakbench.base.reason import Reason
from leakbench.base.reason_words import reason_text
from leakbench.base.spec import Spec
from leakbench.judging.question import Question, Span
from leakbench.reporting.check_data import Check
from leakbench.reporting.moved import Against
from leakbench.results.cells import missing_text
from leakbench.results.listener import Listener
from leakbench.results.number import Missing
from leakbench.results.settings import Setting
from leakbench.results.tables import Tables

SCHEMA = 2
Place = tuple[str, int | None, int, int]
Position = tuple[float, float]
Role = Literal["original", "floor", "control", "attack"]


class Picture(Part):
    """One image for the page: a private original, or what somebody made of the messages.

    ``sha256``: under which its bytes stand in ``ReportData.images``; None where the attack gave no
    image, and the page says so. ``psnr`` in dB against the original (None for the original itself).
    ``found``: 1.0 where the guess is nearer to its original than to every look-alike, None where
    that was not measured. ``sound``: of a spectrogram of sound, under which its WAV stands in
    ``ReportData.sounds``, and ``off``, in dB, how far the guess is off its original (root of the
    mean square) in place of ``psnr``. ``probe``: its number, None for a real message. ``seed``: the
    run's. ``of`` = "client": drawn of all that a client holds, so the original is the mean of its
    images, and found is one that is more like that mean than any other client's.
    """

    attack: str
    params: dict[str, Any]
    unit: str
    probe: int | None
    round: int
    seed: int = 0
    role: Role
    sha256: str | None
    psnr: float | None = None
    found: float | None = None
    of: Literal["example", "client"] = "example"
    sound: str | None = None
    off: float | None = None

    @property
    def place(self) -> Place:
        """What was attacked, the same in every role and setting: (unit, probe, round, seed)."""
        return self.unit, self.probe, self.round, self.seed


class Curve(Part):
    """One number of a setting over the rounds, its seeds' mean.

    ``name``: a metric ("p_leak", "accuracy", "dcor2_corrected") or a diagnostic's name. ``by``: the
    attack and what sets it apart, in words, and ``rung`` its strength; empty for utility and
    diagnostics. All others: one number per round (an attack over all rounds has the last one
    alone); ``low`` and ``high`` are the 95 % interval (the value itself where there is none),
    ``floor`` the blind guess, empty where there is none.
    """

    name: str
    by: str = ""
    rung: str = ""
    probe: bool = False
    rounds: tuple[int, ...]
    value: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    floor: tuple[float, ...] = ()


class Clients(Part):
    """How often each client of a setting was hit by the worst case of one metric.

    ``shares``: (clients,) by number, the mean over the client's units and the seeds of what
    `any_attack` scored there (0 or 1, ties between; a unit on which every attack failed is no hit):
    where nothing failed, the number of tradeoff.csv is the mean over all units. None: no unit of
    that client was attacked.
    """

    metric: str
    probe: bool
    shares: tuple[float | None, ...]


class ShownSetting(Setting):
    """A setting with all that a report shows of it beside its numbers.

    ``command``: what trains it; "" where none is recorded.
    """

    clients: tuple[Clients, ...] = ()
    curves: tuple[Curve, ...] = ()
    pictures: tuple[Picture, ...] = ()
    command: str = ""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def why(self) -> str:
        """Why it is not simply done."""
        return reason_text(self.reason) if self.reason else ""


class ShownMissing(Missing):
    """A number that is not there, as a line of a report; ``setting``: its id."""

    setting: str

    @field_serializer("reason")
    def _in_words(self, why: Reason) -> str:
        del why
        return missing_text(self)


InquiryState = Literal["asked", "open", "refused"]


class Inquiry(Part):
    """How a question stands with one kind of listener.

    ``text``: of an "open" one the options that would ask it, of a "refused" one why no attack can;
    ``topic`` "" stands for all.
    """

    listener: Listener
    topic: str
    state: InquiryState
    text: str = ""


class Embedding(Part):
    """Prototypes of one run in the plane (t-SNE of all of them together, by cosine).

    ``setting``: its id. ``why``: why this setting is shown. ``by``: the attack, in words.
    ``clients``: (n,) numbers; ``true``, ``shared``, ``recovered``: (n, 2) positions; None where the
    attack gave no prototype. ``left_out``: clients not shown. ``right``: of how many
    of the ``tried`` clients of this run the guess is nearest to their own true prototype (ties
    count their share).
    """

    kind: Literal["embedding"] = "embedding"
    setting: str
    why: str
    by: str
    seed: int
    clients: tuple[int, ...]
    true: tuple[Position, ...]
    shared: tuple[Position, ...]
    recovered: tuple[Position | None, ...]
    left_out: int = 0
    right: float = 0.0
    tried: int = 0


class Naming(Part):
    """Who was named for whom by one attack, over all seeds, after the last round.

    ``named``: (owner, whom the attack's guess is nearest to, how often: ties share), by client
    number; ``failed``: units without a guess. ``clients``: how many there are.
    """

    kind: Literal["naming"] = "naming"
    setting: str
    why: str
    by: str
    rung: str
    clients: int
    named: tuple[tuple[int, int, float], ...]
    failed: int = 0


class Split(Part):
    """Who holds what: ``counts`` (clients, classes) training examples of a task's first run."""

    kind: Literal["split"] = "split"
    task: str
    counts: tuple[tuple[int, ...], ...]


Map = Embedding | Naming | Split


class ReportTask(Part):
    """Data, split and what was asked.

    ``clients``, ``chance`` and ``utility`` are None where settings differ in them or none was
    measured; ``split``: the task's parameters that all runs share.
    """

    id: str
    about: str
    clients: int | None
    chance: float | None
    utility: str | None
    split: dict[str, Any]


class About(Part):
    """What a method says of itself: the first paragraph of its own documentation, and its paper.

    ``searches``: of an attack, does it search, and say whether its search settled?
    """

    text: str
    paper: str = ""
    searches: bool = False


class Origin(Part):
    """What made the report, and when (ISO 8601).

    ``code``: {"report" or a format: SHA-256 of the code that made it}.
    """

    version: str
    commit: str
    dirty: bool
    at: str
    code: dict[str, str] = {}


class ReportData(Part):
    """Everything a report may show.

    ``settings``, each with its numbers, by ``index``; ``questions``, each with every setting's
    verdict, the one for the headline first; ``metrics`` by name; ``about``: "defenses/fedhide",
    "wrappers/clip_noise" or "attacks/gradient_inversion" -> what it says of itself; ``images``:
    SHA-256 of a PNG -> its bytes in base64; ``sounds``: of a WAV -> its bytes; ``tables``: what
    the CSV files hold. ``redacted``: no private data of a client is in here. ``against``: what
    moved since another report. ``command``: what makes the report again; "" where nothing does.
    """

    format: int = Field(SCHEMA, serialization_alias="schema")
    title: str
    made: Origin
    redacted: bool = False
    command: str = ""
    headline: tuple[Span, ...] = ()
    metrics: dict[str, Meaning] = {}
    tasks: tuple[ReportTask, ...] = ()
    questions: tuple[Question, ...] = ()
    settings: tuple[ShownSetting, ...] = ()
    maps: tuple[Map, ...] = ()
    missing: tuple[ShownMissing, ...] = ()
    inquiries: tuple[Inquiry, ...] = ()
    check: Check | None = None
    against: Against | None = None
    about: dict[str, About] = {}
    images: dict[str, str] = {}
    sounds: dict[str, str] = {}
    tables: Tables = Field(Tables((), ()), exclude=True)

    @property
    def runs(self) -> list[Any]:
        """The contents of every run.json, complete or not."""
        return [run.meta for s in self.settings for run in s.every]

    def image(self, picture: Picture) -> bytes | None:
        """Its PNG, or None where there is none."""
        if picture.sha256 is None:
            return None
        return base64.b64decode(self.images[picture.sha256])


class Report(Spec, ABC):
    """A report format: the same data in, files out.

    A plugin's module in a reports package defines one.
    """

    @abstractmethod
    def write(self, data: ReportData, out: Path) -> Sequence[Path]:
        """Write below the folder ``out`` and return the paths written.

        Raises:
            UsageError: the folder cannot be written.
        """
